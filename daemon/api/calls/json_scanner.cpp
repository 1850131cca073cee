#include "daemon/api/calls/json_scanner.hpp"

namespace flyball::api::calls {
namespace {

constexpr bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

// -1: none.
constexpr int hex_digit(char c) noexcept {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

constexpr bool is_high_surrogate(std::uint32_t unit) noexcept {
  return unit >= 0xD800 && unit < 0xDC00;
}
constexpr bool is_low_surrogate(std::uint32_t unit) noexcept {
  return unit >= 0xDC00 && unit < 0xE000;
}
constexpr std::uint32_t kReplacement = 0xFFFD;

}  // namespace

Scan JsonScanner::open(bool object) {
  if (depth_ == kMaxDepth) return Scan::bad;
  ++depth_;
  objects_ = objects_ << 1 | static_cast<std::uint64_t>(object);
  state_ = object ? State::first_key : State::first_item;
  return Scan::more;
}

Scan JsonScanner::close(bool object) {
  if (depth_ == 0 || ((objects_ & 1) != 0) != object) return Scan::bad;
  --depth_;
  objects_ >>= 1;
  return ended();
}

Scan JsonScanner::ended() {
  state_ = State::behind_value;
  return depth_ == 0 ? Scan::last : Scan::more;
}

Scan JsonScanner::begin_value(char byte) {
  switch (byte) {
    case '{':
      return open(true);
    case '[':
      return open(false);
    case '"':
      in_key_ = false;
      state_ = State::string;
      return Scan::more;
    case 't':
      literal_ = "rue";
      break;
    case 'f':
      literal_ = "alse";
      break;
    case 'n':
      literal_ = "ull";
      break;
    case '-':
      state_ = State::minus;
      return Scan::more;
    case '0':
      state_ = State::zero;
      return Scan::more;
    default:
      if (!is_digit(byte)) return Scan::bad;
      state_ = State::integer;
      return Scan::more;
  }
  state_ = State::literal;
  return Scan::more;
}

Scan JsonScanner::take_in_string(char byte) {
  switch (state_) {
    case State::escape:
      if (byte == 'u') {
        hex_left_ = 4;
        state_ = State::hex;
        return Scan::more;
      }
      state_ = State::string;
      return std::string_view("\"\\/bfnrt").contains(byte) ? Scan::more : Scan::bad;
    case State::hex:
      if (hex_digit(byte) < 0) return Scan::bad;
      if (--hex_left_ == 0) state_ = State::string;
      return Scan::more;
    default:
      break;
  }
  if (byte == '\\') {
    state_ = State::escape;
    return Scan::more;
  }
  if (static_cast<unsigned char>(byte) < 0x20) return Scan::bad;
  if (byte != '"') return Scan::more;
  if (!in_key_) return ended();
  state_ = State::colon;
  return Scan::more;
}

Scan JsonScanner::take_in_number(char byte) {
  const auto go = [&](State next) {
    state_ = next;
    return Scan::more;
  };
  switch (state_) {
    case State::minus:
      if (byte == '0') return go(State::zero);
      return is_digit(byte) ? go(State::integer) : Scan::bad;
    case State::point:
      return is_digit(byte) ? go(State::fraction) : Scan::bad;
    case State::exponent:
      if (byte == '+' || byte == '-') return go(State::exponent_sign);
      [[fallthrough]];
    case State::exponent_sign:
      return is_digit(byte) ? go(State::exponent_digits) : Scan::bad;
    default:
      break;
  }
  const bool is_whole = state_ == State::zero || state_ == State::integer;
  if (is_digit(byte) && state_ != State::zero) return Scan::more;
  if (byte == '.' && is_whole) return go(State::point);
  if ((byte == 'e' || byte == 'E') && state_ != State::exponent_digits) return go(State::exponent);
  // The number ended before the byte.
  if (depth_ == 0) return Scan::behind;
  state_ = State::behind_value;
  return take(byte);
}

Scan JsonScanner::take(char byte) {
  switch (state_) {
    case State::string:
    case State::escape:
    case State::hex:
      return take_in_string(byte);
    case State::literal:
      if (byte != literal_.front()) return Scan::bad;
      literal_.remove_prefix(1);
      return literal_.empty() ? ended() : Scan::more;
    case State::value:
    case State::first_item:
    case State::first_key:
    case State::key:
    case State::colon:
    case State::behind_value:
      break;
    default:
      return take_in_number(byte);
  }
  if (is_json_space(byte)) return depth_ == 0 ? Scan::bad : Scan::more;
  switch (state_) {
    case State::first_item:
      if (byte == ']') return close(false);
      [[fallthrough]];
    case State::value:
      return begin_value(byte);
    case State::first_key:
      if (byte == '}') return close(true);
      [[fallthrough]];
    case State::key:
      if (byte != '"') return Scan::bad;
      in_key_ = true;
      state_ = State::string;
      return Scan::more;
    case State::colon:
      if (byte != ':') return Scan::bad;
      state_ = State::value;
      return Scan::more;
    default:
      break;
  }
  if (byte == '}') return close(true);
  if (byte == ']') return close(false);
  if (byte != ',') return Scan::bad;
  state_ = (objects_ & 1) != 0 ? State::key : State::value;
  return Scan::more;
}

bool is_json(std::string_view text) {
  JsonScanner scanner;
  Scan scan = Scan::more;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (scan != Scan::more) return false;
    scan = scanner.take(text[i]);
  }
  // A number ends where something follows.
  return scan == Scan::last || (scan == Scan::more && scanner.take(' ') == Scan::behind);
}

void JsonStringDecoder::put(std::uint32_t code_point, std::string& out) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (code_point >> shift & 0x3F)); };
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    out += static_cast<char>(0xC0 | code_point >> 6);
    tail(0);
  } else if (code_point < 0x10000) {
    out += static_cast<char>(0xE0 | code_point >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | code_point >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

Scan JsonStringDecoder::take_hex(char byte, std::string& out) {
  const int digit = hex_digit(byte);
  if (digit < 0) return Scan::bad;
  unit_ = unit_ << 4 | static_cast<std::uint32_t>(digit);
  if (--hex_left_ > 0) return Scan::more;
  state_ = State::text;
  if (high_ != 0 && is_low_surrogate(unit_)) {
    put(0x10000 + ((high_ - 0xD800) << 10) + (unit_ - 0xDC00), out);
    high_ = 0;
    return Scan::more;
  }
  if (high_ != 0) put(kReplacement, out);
  high_ = is_high_surrogate(unit_) ? unit_ : 0;
  if (high_ == 0) put(is_low_surrogate(unit_) ? kReplacement : unit_, out);
  return Scan::more;
}

Scan JsonStringDecoder::take(char byte, std::string& out) {
  if (state_ == State::hex) return take_hex(byte, out);
  if (state_ == State::escape && byte == 'u') {
    state_ = State::hex;
    hex_left_ = 4;
    unit_ = 0;
    return Scan::more;
  }
  if (state_ == State::text && byte == '\\') {
    state_ = State::escape;
    return Scan::more;
  }
  if (high_ != 0) put(kReplacement, out);
  high_ = 0;
  if (state_ == State::escape) {
    state_ = State::text;
    constexpr std::string_view kEscapes = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    const auto which = kEscapes.find(byte);
    if (which == kEscapes.npos) return Scan::bad;
    out += kMeant[which];
    return Scan::more;
  }
  if (static_cast<unsigned char>(byte) < 0x20) return Scan::bad;
  if (byte == '"') return Scan::last;
  out += byte;
  return Scan::more;
}

}  // namespace flyball::api::calls
