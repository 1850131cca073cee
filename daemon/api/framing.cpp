#include "daemon/api/framing.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace flyball::api {
namespace {

constexpr std::size_t kMaxBoundary = 70;  // RFC 2046
constexpr std::size_t kMaxParts = 64, kMaxPartHeader = 4096;
constexpr std::string_view kLineEnd = "\r\n", kHeaderEnd = "\r\n\r\n";

std::unexpected<Error> not_multipart(const std::string& why) {
  return fail(ErrorCode::invalid_value, "The body is not multipart/form-data: " + why + ".");
}

std::size_t after(std::string_view text, std::size_t from, std::string_view what) {
  const std::size_t at = text.find(what, from);
  return at == std::string_view::npos ? at : at + what.size();
}

// The position of the quote that ends a quoted string, or `text`'s size. A backslash escapes a byte.
std::size_t closing_quote(std::string_view text, std::size_t begin) {
  std::size_t at = begin;
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return std::min(at, text.size());
}

// The value of the first `name=VALUE` or `name="VALUE"` behind a semicolon of a field's value; "" if it is
// absent. Escapes stay in the value.
std::string_view parameter(std::string_view field, std::string_view name) {
  for (std::size_t at = field.find(';'); at != std::string_view::npos; at = field.find(';', at)) {
    const std::size_t start = field.find_first_not_of(" \t", at + 1);
    const std::size_t stop = field.find_first_of("=;", at + 1);
    if (start == std::string_view::npos || stop == std::string_view::npos) return {};
    at = stop;
    if (field[stop] == ';') continue;  // a name without a value
    const bool quoted = field.substr(stop + 1).starts_with('"');
    const std::size_t begin = stop + (quoted ? 2 : 1);
    at = quoted ? closing_quote(field, begin) : std::min(field.find(';', begin), field.size());
    if (start < stop && http::equals_ignoring_case(field.substr(start, stop - start), name))
      return field.substr(begin, at - begin);
  }
  return {};
}

// `text`: header lines, a blank line, the body.
Result<Part> read_part(std::string_view text) {
  const std::size_t header_end = text.substr(0, kMaxPartHeader).find(kHeaderEnd);
  if (header_end == std::string_view::npos)
    return not_multipart("a part has no end, or no header of at most " + std::to_string(kMaxPartHeader) +
                         " bytes");
  Part part;
  part.body = text.substr(header_end + kHeaderEnd.size());
  std::string_view header = text.substr(0, header_end + kLineEnd.size());
  bool named = false;
  while (!header.empty()) {
    const std::string_view line = header.substr(0, header.find(kLineEnd));
    header.remove_prefix(line.size() + kLineEnd.size());
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return not_multipart("a part's header has a line without a colon");
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    if (http::equals_ignoring_case(line.substr(0, colon), "Content-Type")) part.content_type = value;
    if (named || !http::equals_ignoring_case(line.substr(0, colon), "Content-Disposition")) continue;
    named = true;
    part.name = parameter(value, "name");
    part.filename = parameter(value, "filename");
  }
  return part;
}

}  // namespace

http::Response stream_head(StreamFraming framing) {
  http::Response head;
  head.content_type = framing == StreamFraming::sse ? "text/event-stream; charset=utf-8"
                                                    : "application/x-ndjson; charset=utf-8";
  head.fields.push_back({"Cache-Control", "no-cache"});
  return head;
}

std::string_view heartbeat(StreamFraming framing) noexcept {
  return framing == StreamFraming::sse ? ": keep-alive\n\n" : "";  // a comment: clients skip it
}

std::string& Frames::begin(std::string_view name) {
  if (framing_ == StreamFraming::ndjson) return out_;
  if (!name.empty()) out_.append("event: ").append(name).push_back('\n');
  return out_.append("data: ");
}

void Frames::end() {
  out_.append(framing_ == StreamFraming::sse ? "\n\n" : "\n");
}

Result<std::vector<Part>> read_multipart(std::string_view content_type, std::string_view body) {
  const std::string_view boundary = parameter(content_type, "boundary");
  if (boundary.empty() || boundary.size() > kMaxBoundary)
    return not_multipart("the Content-Type has no boundary of 1 to 70 bytes");
  const std::string delimiter = "\r\n--" + std::string(boundary);
  // The first delimiter may be the body's very beginning, where it has no line end before it.
  std::size_t at = body.starts_with(std::string_view(delimiter).substr(2)) ? delimiter.size() - 2
                                                                           : after(body, 0, delimiter);
  std::vector<Part> parts;
  for (;;) {
    if (at == std::string_view::npos) return not_multipart("a boundary is missing");
    if (body.substr(at).starts_with("--")) return parts;
    if (!body.substr(at).starts_with(kLineEnd)) return not_multipart("a boundary is followed by other bytes");
    if (parts.size() == kMaxParts)
      return not_multipart("it has more than " + std::to_string(kMaxParts) + " parts");
    at += kLineEnd.size();
    const std::size_t end = body.find(delimiter, at);
    auto part = read_part(body.substr(at, end == std::string_view::npos ? 0 : end - at));
    if (!part) return pass(part);
    parts.push_back(*part);
    at = end == std::string_view::npos ? end : end + delimiter.size();
  }
}

http::Response json_response(std::string payload) {
  http::Response out;
  out.body = std::move(payload);
  out.body.push_back('\n');
  return out;
}

}  // namespace flyball::api
