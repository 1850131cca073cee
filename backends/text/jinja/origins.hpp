// Which bytes of a render's texts the template wrote itself, told by their addresses. A text that is no view
// of a known one counts as the client's, so a function that copies text without telling so loses the
// template's part in it, and never makes a client's text the template's.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "backends/text/jinja/text_span.hpp"

namespace flyball::text::jinja {

class Origins {
 public:
  // The template's own text. It stays where it is for as long as this.
  void add(std::string_view text) { add(text, {{0, text.size()}}); }
  // The same of parts of a text: in order, apart, not empty.
  void add(std::string_view text, std::vector<TextSpan> written);
  // Adds those parts of `text` that the template wrote to `out`, where the text begins at `at`: in order,
  // joined where they meet. Returns how many. Precondition: `out` ends at `at` or before.
  std::size_t copy(std::string_view text, std::size_t at, std::vector<TextSpan>& out) const;

 private:
  struct Known {
    std::size_t size = 0;
    std::vector<TextSpan> written;
  };
  std::map<const char*, Known, std::less<>> texts_;  // by where they begin; none overlap
};

// The parts of one text that the template wrote, asked for from the left to the right.
class OwnParts {
 public:
  OwnParts(const Origins& origins, std::string_view text) { origins.copy(text, 0, parts_); }
  // Whether the template wrote all of [begin, end). Precondition: begin is at or behind the last one's.
  bool cover(std::size_t begin, std::size_t end) noexcept {
    while (next_ < parts_.size() && parts_[next_].end <= begin) ++next_;
    return next_ < parts_.size() && parts_[next_].begin <= begin && end <= parts_[next_].end;
  }
  std::size_t size() const noexcept { return parts_.size(); }

 private:
  std::vector<TextSpan> parts_;
  std::size_t next_ = 0;
};

// Adds a part to parts in order, joined where it meets the last one.
void append_span(std::vector<TextSpan>& spans, TextSpan span);

}  // namespace flyball::text::jinja
