#include "daemon/api/calls/call_reader.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "config/keyed_hash.hpp"

namespace flyball::api::calls {
namespace {

constexpr std::size_t kMaxIdBytes = 64;
constexpr std::size_t kMaxStrays = 8;    // models miscount a call's braces by one or two
constexpr std::size_t kMadeIdBytes = 9;  // Mistral's templates refuse ids of any other length

constexpr bool is_alphanumeric(int byte) noexcept {
  return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z');
}

bool is_call_id(std::string_view text) noexcept {
  return !text.empty() && text.size() <= kMaxIdBytes && std::ranges::all_of(text, [](char c) {
    return is_alphanumeric(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == ':' || c == '-';
  });
}

// Letters and digits. The keys are arbitrary: nobody gains by ids that collide.
std::string made_id(std::string_view ids, std::uint32_t call) {
  constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::uint64_t bits = KeyedHash(0x63616C6C73, call)(ids);
  std::string out;
  for (std::size_t i = 0; i < kMadeIdBytes; ++i, bits /= kLetters.size())
    out += kLetters[bits % kLetters.size()];
  return out;
}

// Text up to the first of the ends, shown as reasoning or as text.
Reading<bool> read_until(CallReader& reader, std::span<const std::string_view> ends, bool reasoning) {
  const auto is_space = [&](char c) { return reasoning && is_json_space(c); };
  const auto begins_end = [&](char c) {
    return std::ranges::any_of(ends, [&](std::string_view end) { return end[0] == c; });
  };
  const auto show = [&](std::string_view bytes) {
    if (reasoning)
      reader.events.reasoning(bytes);
    else
      reader.text(bytes);
  };
  std::string held;  // white space that is shown if more follows
  if (reasoning) co_await reader.next_solid();
  for (;;) {
    const int byte = co_await reader.feed.peek();
    if (byte == ByteFeed::kEnd) co_return false;
    for (const std::string_view end : ends) {
      if (byte != end[0]) continue;
      if (co_await reader.is_next(end)) co_return true;
    }
    const std::string_view bytes = reader.feed.here();
    std::size_t n = 1;
    if (is_space(bytes[0])) {
      held += bytes[0];
    } else {
      while (n < bytes.size() && !is_space(bytes[n]) && !begins_end(bytes[n])) ++n;
      show(held);
      held.clear();
      show(bytes.substr(0, n));
    }
    reader.feed.take(n);
  }
}

}  // namespace

CallReader::CallReader(std::shared_ptr<const ToolSet> set, std::string_view ids_from, bool json)
    : tools(set && set->choice != ToolSet::Choice::none && !set->tools.empty() ? std::move(set) : nullptr),
      ids(ids_from),
      or_json(json && tools) {}

JsonView CallReader::function(std::string_view name) const {
  if (!tools) return {};
  for (const auto& [key, tool] : tools->tools.view().members())
    if (const JsonView function = tool.find("function"); function.find("name").text() == name)
      return function;
  return {};
}

bool CallReader::is_tool_beginning(std::string_view text) const {
  if (!tools) return false;
  for (const auto& [key, tool] : tools->tools.view().members())
    if (tool.find("function").find("name").text().starts_with(text)) return true;
  return false;
}

void CallReader::text(std::string_view bytes) {
  if (bytes.empty()) return;
  events.text(space);
  space.clear();
  events.text(bytes);
}

void CallReader::begin_call(std::string_view name, std::string_view own_id) {
  space.clear();
  feed.forget();
  const bool own = is_call_id(own_id) && own_ids_.emplace(own_id).second;
  events.begin_call(own ? std::string(own_id) : made_id(ids, events.calls()), name);
}

void CallReader::end_call(bool complete) {
  events.end_call(complete);
  if (complete || !feed.keeps()) accept();
}

Reading<bool> CallReader::matches(std::string_view text, bool behind_space, bool read) {
  if (text.empty()) co_return true;
  std::size_t at = 0;
  if (behind_space)
    for (;; ++at) {
      const int byte = co_await feed.peek(at);
      if (byte == ByteFeed::kEnd) co_return false;
      if (!is_json_space(static_cast<char>(byte))) break;
    }
  for (const char c : text) {
    const int byte = co_await feed.peek(at++);
    if (byte != static_cast<unsigned char>(c)) co_return false;
  }
  if (read) feed.take(at);
  co_return true;
}
Reading<bool> CallReader::literal(std::string_view text) {
  return matches(text, false, true);
}
Reading<bool> CallReader::is_next(std::string_view text) {
  return matches(text, false, false);
}
Reading<bool> CallReader::sees(std::string_view text) {
  return matches(text, true, false);
}
Reading<bool> CallReader::comes(std::string_view text) {
  return matches(text, true, true);
}

Reading<bool> CallReader::stray_close(std::string_view close) {
  if (close.empty()) co_return false;
  std::size_t at = 0;
  for (std::size_t strays = 0; strays <= kMaxStrays; ++at) {
    const int byte = co_await feed.peek(at);
    if (byte == '}' || byte == ']' || byte == ',')
      ++strays;
    else if (byte == ByteFeed::kEnd || !is_json_space(static_cast<char>(byte)))
      break;
  }
  for (const char c : close) {
    const int byte = co_await feed.peek(at++);
    if (byte != static_cast<unsigned char>(c)) co_return false;
  }
  feed.take(at);
  accept();
  co_return true;
}

Reading<bool> CallReader::text_until(std::span<const std::string_view> ends) {
  return read_until(*this, ends, false);
}
Reading<bool> CallReader::reasoning_until(std::span<const std::string_view> ends) {
  return read_until(*this, ends, true);
}

Reading<int> CallReader::next_solid() {
  for (;;) {
    const int byte = co_await feed.peek();
    if (byte == ByteFeed::kEnd || !is_json_space(static_cast<char>(byte))) co_return byte;
    feed.take(1);
  }
}

Reading<bool> CallReader::name(std::string& out, std::size_t limit) {
  for (;;) {
    const int byte = co_await feed.peek();
    if (!is_tool_name_byte(byte)) co_return !out.empty();
    if (out.size() == limit) co_return false;
    out += static_cast<char>(byte);
    feed.take(1);
  }
}

Reading<bool> CallReader::json_string(std::string& out, std::size_t limit) {
  if (co_await next_solid() != '"') co_return false;
  feed.take(1);
  JsonStringDecoder decoder;
  std::string decoded;
  for (;;) {
    const int byte = co_await feed.peek();
    if (byte == ByteFeed::kEnd) co_return false;
    decoded.clear();
    const Scan scan = decoder.take(static_cast<char>(byte), decoded);
    if (scan == Scan::bad) co_return false;
    feed.take(1);
    if (out.size() + decoded.size() <= limit) out += decoded;
    if (scan == Scan::last) co_return true;
  }
}

Reading<bool> CallReader::skip_json() {
  JsonScanner scanner;
  if (co_await next_solid() == ByteFeed::kEnd) co_return false;
  for (;;) {
    const int byte = co_await feed.peek();
    if (byte == ByteFeed::kEnd) co_return false;
    const Scan scan = scanner.take(static_cast<char>(byte));
    if (scan == Scan::bad) co_return false;
    if (scan == Scan::behind) co_return true;
    feed.take(1);
    if (scan == Scan::last) co_return true;
  }
}

void CallReader::put_arguments(std::string_view json, std::string* held) {
  if (held != nullptr)
    *held += json;
  else
    events.arguments(json);
}

Reading<bool> CallReader::object(std::string* held) {
  JsonScanner scanner;
  for (;;) {
    const int first = co_await feed.peek();
    if (first == ByteFeed::kEnd) co_return false;
    const std::string_view bytes = feed.here();
    Scan scan = Scan::more;
    std::size_t n = 0;
    while (n < bytes.size() && scan == Scan::more) {
      scan = scanner.take(bytes[n]);
      if (scan != Scan::bad) ++n;
    }
    put_arguments(bytes.substr(0, n), held);
    feed.take(n);
    if (scan != Scan::more) co_return scan == Scan::last;
  }
}

Reading<bool> CallReader::spelled_object(std::string* held) {
  feed.take(1);  // the opening quote
  JsonStringDecoder decoder;
  JsonScanner scanner;
  Scan inner = Scan::more;
  std::string decoded;
  bool began = false;
  for (;;) {
    const int byte = co_await feed.peek();
    if (byte == ByteFeed::kEnd) co_return false;
    decoded.clear();
    const Scan outer = decoder.take(static_cast<char>(byte), decoded);
    if (outer == Scan::bad) co_return false;
    std::size_t used = 0;
    for (const char c : decoded) {
      if ((!began || inner == Scan::last) && is_json_space(c)) continue;
      if (inner == Scan::last || (!began && c != '{')) co_return false;
      began = true;
      inner = scanner.take(c);
      if (inner == Scan::bad) co_return false;
      decoded[used++] = c;
    }
    feed.take(1);
    put_arguments(std::string_view(decoded).substr(0, used), held);
    if (outer != Scan::last) continue;
    if (!began) put_arguments("{}", held);
    co_return !began || inner == Scan::last;
  }
}

Reading<bool> CallReader::arguments(std::string* held) {
  const int first = co_await next_solid();
  if (first == '{') {
    const bool result = co_await object(held);
    co_return result;
  }
  if (first == '"') {
    const bool result = co_await spelled_object(held);
    co_return result;
  }
  if (!co_await literal("null")) co_return false;
  put_arguments("{}", held);
  co_return true;
}

}  // namespace flyball::api::calls
