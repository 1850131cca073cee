// UTF-8 text as Python's str sees it: sequences of code points. All views are valid UTF-8 (checked where they
// enter). Case mapping covers Latin, Greek, Cyrillic, Armenian, Georgian and full-width letters; others map
// to themselves.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace flyball::text::jinja {

bool is_valid_utf8(std::string_view text) noexcept;
std::size_t length(std::string_view text) noexcept;  // code points
// The code point at byte `at`, which is moved past it. Precondition: at < text.size().
char32_t next_code_point(std::string_view text, std::size_t& at) noexcept;
// Byte offset of the code point `index`; text.size() when index >= length.
std::size_t offset_of(std::string_view text, std::size_t index) noexcept;
// Byte offset of the code point that ends at byte `end`. Precondition: end > 0.
std::size_t previous(std::string_view text, std::size_t end) noexcept;
void append_utf8(std::string& out, char32_t code_point);

bool is_space(char32_t c) noexcept;      // str.isspace
bool is_printable(char32_t c) noexcept;  // what repr shows as it is
bool is_alpha(char32_t c) noexcept;
bool is_digit(char32_t c) noexcept;
bool is_word(char32_t c) noexcept;  // \w
bool is_upper(char32_t c) noexcept;
bool is_lower(char32_t c) noexcept;
char32_t to_upper(char32_t c) noexcept;
char32_t to_lower(char32_t c) noexcept;

enum class Side { left = 1, right = 2, both = 3 };
std::string_view strip(std::string_view text, Side side = Side::both) noexcept;
// Strips code points that occur in `chars`.
std::string_view strip(std::string_view text, std::string_view chars, Side side) noexcept;

void append_upper(std::string& out, char32_t c);  // a sharp s has two capitals
// The small form between a letter, or none, and `rest`: a sigma at a word's end has one of its own.
char32_t lower_between(char32_t c, bool after_letter, std::string_view rest) noexcept;
std::string lower(std::string_view text);

}  // namespace flyball::text::jinja
