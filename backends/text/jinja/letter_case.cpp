#include "backends/text/jinja/letter_case.hpp"

#include <string>

#include "backends/text/jinja/unicode.hpp"

namespace flyball::text::jinja {
namespace {

// write(out, c, rest) appends what stands for the code point c, which `rest` follows.
template <class Write>
Value mapped(Runtime& runtime, Value self, std::string_view name, const Arguments& arguments, Write write) {
  const Bound bound(name, arguments, {}, 0);
  const std::string_view text = text_of(runtime, self);
  TextBuilder out(runtime);
  OwnParts own(runtime.origins, text);
  runtime.budget.spend(own.size());
  std::string made;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t from = at;
    const char32_t c = next_code_point(text, at);
    made.clear();
    write(made, c, text.substr(at));
    out.append_made(made, own.cover(from, at));
  }
  return out.take_value(self.is_markup());
}

// Writes small forms of a text's code points, one after the other.
class Lower {
 public:
  void operator()(std::string& out, char32_t c, std::string_view rest) {
    append_utf8(out, lower_between(c, in_word_, rest));
    in_word_ = is_alpha(c);
  }

 private:
  bool in_word_ = false;
};

}  // namespace

Value upper_text(Runtime& runtime, Value self, const Arguments& arguments) {
  return mapped(runtime, self, "upper", arguments,
                [](std::string& out, char32_t c, std::string_view) { append_upper(out, c); });
}

Value lower_text(Runtime& runtime, Value self, const Arguments& arguments) {
  return mapped(runtime, self, "lower", arguments, Lower());
}

Value capitalized_text(Runtime& runtime, Value self, const Arguments& arguments) {
  bool first = true;
  Lower lower;
  return mapped(runtime, self, "capitalize", arguments, [&](std::string& out, char32_t c, std::string_view rest) {
    if (first) {
      append_upper(out, c);
    } else {
      lower(out, c, rest);
    }
    first = false;
  });
}

Value swapped_text(Runtime& runtime, Value self, const Arguments& arguments) {
  return mapped(runtime, self, "swapcase", arguments, [](std::string& out, char32_t c, std::string_view) {
    append_utf8(out, is_upper(c) ? to_lower(c) : to_upper(c));
  });
}

Value titled_text(Runtime& runtime, Value self, const Arguments& arguments) {
  bool inside = false;
  return mapped(runtime, self, "title", arguments, [&](std::string& out, char32_t c, std::string_view) {
    append_utf8(out, inside ? to_lower(c) : to_upper(c));
    inside = is_upper(c) || is_lower(c);
  });
}

Value titled_words(Runtime& runtime, Value self, const Arguments& arguments) {
  bool starts = true;
  return mapped(runtime, self, "title", arguments, [&](std::string& out, char32_t c, std::string_view) {
    if (starts) {
      append_upper(out, c);
    } else {
      append_utf8(out, to_lower(c));
    }
    starts = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  });
}

}  // namespace flyball::text::jinja
