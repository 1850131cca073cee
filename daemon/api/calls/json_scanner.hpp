// One JSON value, checked byte by byte as it arrives (RFC 8259). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace flyball::api::calls {

enum class Scan : std::uint8_t {
  more,    // the byte belongs to the value, which goes on
  last,    // the byte is the value's last one
  behind,  // the value ended before the byte: a number, whose end is what follows it
  bad,     // no JSON goes on so
};

// Keys may repeat and bytes from 0x80 on are not looked at. White space before the value is bad.
class JsonScanner {
 public:
  static constexpr std::uint32_t kMaxDepth = 64;  // containers within one another; a deeper one is bad

  // Precondition: the bytes before it gave `more`.
  Scan take(char byte);

 private:
  enum class State : std::uint8_t {
    value,       // a value has to come
    first_item,  // a value or "]"
    first_key,   // a key or "}"
    key,         // a key has to come
    colon,
    behind_value,  // "," or the end of the container
    string,
    escape,
    hex,
    literal,   // the rest of true, false or null
    minus,     // a digit has to come
    zero,      // "0": no digit may come
    integer,   // digits
    point,     // a digit has to come
    fraction,  // digits
    exponent,  // "+", "-" or a digit has to come
    exponent_sign,
    exponent_digits,
  };

  Scan begin_value(char byte);
  Scan open(bool object);
  Scan close(bool object);
  Scan ended();  // a value, by its last byte
  Scan take_in_string(char byte);
  Scan take_in_number(char byte);

  State state_ = State::value;
  bool in_key_ = false;
  std::uint8_t hex_left_ = 0;
  std::uint32_t depth_ = 0;
  std::uint64_t objects_ = 0;  // a bit for each open container, the innermost lowest: it is an object
  std::string_view literal_;   // its rest
};

// The text is one JSON value, without white space around it.
bool is_json(std::string_view text);

// Decodes a JSON string, from the byte behind its opening quote on.
class JsonStringDecoder {
 public:
  // Appends what the byte completes to `out`, in UTF-8; a lone surrogate as U+FFFD. `last`: the closing
  // quote.
  Scan take(char byte, std::string& out);

 private:
  void put(std::uint32_t code_point, std::string& out);
  Scan take_hex(char byte, std::string& out);

  enum class State : std::uint8_t { text, escape, hex } state_ = State::text;
  std::uint8_t hex_left_ = 0;
  std::uint32_t unit_ = 0;  // the escape's digits so far
  std::uint32_t high_ = 0;  // a high surrogate whose low one has to come next; 0: none
};

constexpr bool is_json_space(char c) noexcept {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

}  // namespace flyball::api::calls
