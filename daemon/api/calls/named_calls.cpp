#include "daemon/api/calls/notations.hpp"

namespace flyball::api::calls {
namespace {

// The name of a known tool, held back no longer than a tool's name begins so.
Reading<bool> tool_name(CallReader& reader, std::string& out) {
  for (std::size_t n = 0;; ++n) {
    const int byte = co_await reader.feed.peek(n);
    if (!is_tool_name_byte(byte)) break;
    out += static_cast<char>(byte);
    if (!reader.is_tool_beginning(out)) co_return false;
  }
  if (out.empty() || !reader.is_tool(out)) co_return false;
  reader.feed.take(out.size());
  co_return true;
}

// "functions.get_weather:0" to "get_weather".
std::string_view name_in_id(std::string_view id) noexcept {
  if (id.starts_with(kHarmonyFunctions)) id.remove_prefix(kHarmonyFunctions.size());
  return id.substr(0, id.rfind(':'));
}

bool has_index(std::string_view id) noexcept {
  const std::size_t colon = id.rfind(':');
  return colon != std::string_view::npos && colon + 1 < id.size() &&
         id.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
}

// A name, its id and what ends it, as far as the arguments. False: it is none.
Reading<bool> head(CallReader& reader, const FormatRow& row, bool known, std::string& name, std::string& id) {
  co_await reader.comes(row.prefix);
  if (known) {
    if (!co_await tool_name(reader, name)) co_return false;
  } else {
    co_await reader.next_solid();
    // An id has "functions." before the name, and ":" and a number behind it.
    if (!co_await reader.name(name, kMaxToolNameBytes + (row.name_is_id ? 32 : 0))) co_return false;
  }
  if (row.name_is_id) {
    id = name;
    name = std::string(name_in_id(id));
    if (!has_index(id)) id.clear();
    if (name.empty() || name.size() > kMaxToolNameBytes) co_return false;
  }
  if (!row.id_open.empty()) {
    if (co_await reader.comes(row.id_open)) {
      co_await reader.next_solid();
      if (!co_await reader.name(id, kMaxToolNameBytes)) co_return false;
    }
  }
  // A line's end is white space itself.
  if (!co_await reader.literal(row.name_close)) {
    if (!co_await reader.comes(row.name_close)) {
      if (!row.either_notation) co_return false;
      if (!co_await reader.sees("{")) co_return false;
    }
  }
  if (!known) co_return true;
  const bool result = co_await reader.sees("{");
  co_return result;
}

// Behind the opening of a call.
Reading<bool> named_call(CallReader& reader, const FormatRow& row, bool known) {
  std::string name, id;
  if (!co_await head(reader, row, known, name, id)) co_return false;
  reader.begin_call(name, id);
  bool fenced = false;
  if (!row.fence_open.empty()) {
    if (co_await reader.comes(row.fence_open)) {
      fenced = true;
      co_await reader.literal(kFenceWord);
    }
  }
  if (!row.call_close.empty()) {
    if (co_await reader.comes(row.call_close)) {
      reader.events.arguments("{}");
      reader.end_call(true);
      co_return true;
    }
  }
  const bool whole = co_await reader.arguments(nullptr);
  reader.end_call(whole);
  if (!whole) co_return false;
  if (fenced) {
    if (co_await reader.comes(row.fence_close)) reader.accept();
  }
  if (co_await reader.comes(row.call_close)) reader.accept();
  co_return true;
}

// An object or a list of them, and no marker that begins with "[".
Reading<bool> sees_json(CallReader& reader) {
  const int first = co_await reader.next_solid();
  if (first != '[') co_return first == '{';
  for (std::size_t at = 1;; ++at) {
    const int byte = co_await reader.feed.peek(at);
    if (byte == ByteFeed::kEnd) co_return false;
    if (!is_json_space(static_cast<char>(byte))) co_return byte == '{';
  }
}

}  // namespace

Reading<bool> named_calls(CallReader& reader, const FormatRow& row, const Section& section) {
  if (!co_await reader.comes(section.open)) co_return false;
  bool any = false;
  for (bool opened = section.place != Place::anywhere;; opened = false) {
    if (!opened) {
      if (row.call_open.empty()) break;
      if (!co_await reader.comes(row.call_open)) {
        // A section's first call may leave its opening out.
        if (any || section.open.empty()) break;
        if (!co_await reader.sees(row.prefix)) break;
      }
    }
    if (!co_await named_call(reader, row, section.known_names)) co_return any;
    any = true;
    if (section.open.empty()) break;  // the next call begins a section of its own
  }
  if (any) {
    if (co_await reader.comes(section.close)) reader.accept();
  }
  co_return any;
}

Reading<bool> calls_of_either_notation(CallReader& reader, const FormatRow& row, const Section& section) {
  if (!co_await reader.comes(row.call_open)) co_return false;
  if (co_await sees_json(reader)) {
    const bool result = co_await json_calls_behind_opening(reader, row, section);
    co_return result;
  }
  const bool result = co_await named_call(reader, row, false);
  co_return result;
}

}  // namespace flyball::api::calls
