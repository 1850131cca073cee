#include "backends/text/jinja/origins.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace flyball::text::jinja {

void append_span(std::vector<TextSpan>& spans, TextSpan span) {
  if (!spans.empty() && spans.back().end == span.begin) {
    spans.back().end = span.end;
  } else {
    spans.push_back(span);
  }
}

void Origins::add(std::string_view text, std::vector<TextSpan> written) {
  if (!text.empty() && !written.empty())
    texts_.insert_or_assign(text.data(), Known{text.size(), std::move(written)});
}

std::size_t Origins::copy(std::string_view text, std::size_t at, std::vector<TextSpan>& out) const {
  auto found = texts_.upper_bound(text.data());
  if (text.empty() || found == texts_.begin()) return 0;
  found = std::prev(found);
  const Known& known = found->second;
  if (!std::less<>{}(text.data(), found->first + known.size)) return 0;
  const auto begin = static_cast<std::size_t>(text.data() - found->first);
  const std::size_t end = std::min(begin + text.size(), known.size);
  std::size_t count = 0;
  for (auto span = std::ranges::upper_bound(known.written, begin, {}, &TextSpan::end);
       span != known.written.end() && span->begin < end; ++span, ++count)
    append_span(out, {at + std::max(span->begin, begin) - begin, at + std::min(span->end, end) - begin});
  return count;
}

}  // namespace flyball::text::jinja
