#include <utility>

#include "daemon/api/calls/notations.hpp"

namespace flyball::api::calls {
namespace {

// One object of a call on its way.
class JsonCall {
 public:
  JsonCall(CallReader& reader, const FormatRow& row, bool known_names)
      : reader_(reader), row_(row), known_names_(known_names), strict_(known_names && reader.or_json) {}

  // False: it is none, or it broke off.
  Reading<bool> read() {
    const bool whole = co_await members();
    // An object of a tool's name and more, but no arguments, is text.
    if (whole && !name_.empty() && !has_more_ && !strict_) begin();
    if (begun_ && !ended_) {
      if (whole) reader_.events.arguments("{}");
      if (reader_.feed.is_over()) reader_.feed.forget();
      reader_.end_call(whole);
    }
    if (whole && begun_) reader_.accept();
    const bool is_call = whole && begun_;
    co_return is_call;
  }
  bool has_ended() const noexcept { return ended_; }

 private:
  Reading<bool> members() {
    if (!co_await reader_.comes("{")) co_return false;
    for (;;) {
      std::string key;
      if (!co_await reader_.json_string(key, kMaxToolNameBytes)) co_return false;
      if (!co_await reader_.comes(":")) co_return false;
      if (!co_await member(key)) co_return false;
      if (co_await reader_.comes("}")) co_return true;
      if (!co_await reader_.comes(",")) co_return false;
    }
  }

  static Reading<bool> is_none() { co_return false; }
  bool is_next_of_call(std::string_view key) const {
    if (begun_) return true;
    return name_.empty() ? key == row_.name_key : key == "arguments" || key == "parameters";
  }

  Reading<bool> member(std::string_view key) {
    if (strict_ && !is_next_of_call(key)) return is_none();
    if (key == row_.name_key && !begun_ && name_.empty()) return name();
    if ((key == "arguments" || key == "parameters") && !ended_ && held_.empty()) return arguments();
    if (key == row_.id_key && !begun_) return id();
    has_more_ |= key != "type";
    return reader_.skip_json();
  }

  Reading<bool> name() {
    std::string name;
    if (strict_) {
      if (!co_await known_name(name)) co_return false;
    } else if (!co_await reader_.json_string(name, kMaxToolNameBytes + 1)) {
      co_return false;
    }
    const bool is_name = take_name(std::move(name));
    co_return is_name;
  }

  // A string, read no further than a tool's name begins so.
  Reading<bool> known_name(std::string& name) {
    if (!co_await reader_.comes("\"")) co_return false;
    JsonStringDecoder decoder;
    for (;;) {
      const int byte = co_await reader_.feed.peek();
      if (byte == ByteFeed::kEnd) co_return false;
      const Scan scan = decoder.take(static_cast<char>(byte), name);
      if (scan == Scan::bad || !reader_.is_tool_beginning(name)) co_return false;
      reader_.feed.take(1);
      if (scan == Scan::last) co_return true;
    }
  }

  bool take_name(std::string name) {
    if (!is_tool_name(name)) return false;
    if (known_names_ && !reader_.is_tool(name)) return false;
    name_ = std::move(name);
    // Without a marker, only arguments tell a call from an answer in JSON.
    if (held_.empty() && known_names_) return true;
    begin();
    if (held_.empty()) return true;
    reader_.events.arguments(held_);
    end();
    return true;
  }

  void begin() {
    reader_.begin_call(std::exchange(name_, {}), id_);
    reader_.accept();  // members before the arguments are text if the call breaks
    begun_ = true;
  }

  Reading<bool> arguments() {
    if (strict_) {
      if (co_await reader_.next_solid() != '{') co_return false;
    }
    if (!begun_ && !name_.empty()) begin();
    if (begun_) reader_.feed.forget();
    std::string* held = begun_ ? nullptr : &held_;
    if (!co_await reader_.arguments(held)) co_return false;
    if (begun_) end();
    co_return true;
  }

  Reading<bool> id() {
    const int first = co_await reader_.next_solid();
    if (first == '"') {
      const bool result = co_await reader_.json_string(id_, kMaxToolNameBytes);
      co_return result;
    }
    const bool result = co_await reader_.skip_json();
    co_return result;
  }

  void end() {
    reader_.end_call(true);
    ended_ = true;
  }

  CallReader& reader_;
  const FormatRow& row_;
  bool known_names_;
  bool strict_;  // a tool's name comes first and an object of arguments behind it, or the object is text
  bool begun_ = false, ended_ = false;
  bool has_more_ = false;  // a member that calls do not have
  std::string name_;       // of a call that has not begun
  std::string id_;
  std::string held_;  // arguments that came before the name
};

Reading<bool> read_json_section(CallReader& reader, const FormatRow& row, const Section& section) {
  // Beside JSON a list is the client's: the constraint writes calls without a marker one by one.
  bool list = false;
  if (!(reader.or_json && section.known_names)) {
    if (co_await reader.comes("[")) list = true;
  }
  for (bool any = false;; any = true) {
    JsonCall call(reader, row, section.known_names);
    if (!co_await call.read()) {
      if (!call.has_ended()) co_return any;
      co_await reader.stray_close(section.close);
      co_return false;
    }
    if (list) {
      if (co_await reader.comes(",")) {
        if (!co_await reader.comes("]")) continue;
      } else if (!co_await reader.comes("]")) {
        co_await reader.stray_close(section.close);
        co_return true;
      }
    } else {
      if (co_await reader.comes(";")) continue;
      if (co_await reader.sees("{")) continue;
    }
    reader.accept();
    co_await reader.stray_close(section.close);
    co_return true;
  }
}

}  // namespace

Reading<bool> json_calls(CallReader& reader, const FormatRow& row, const Section& section) {
  if (!co_await reader.comes(section.open)) co_return false;
  const bool result = co_await read_json_section(reader, row, section);
  co_return result;
}

Reading<bool> json_calls_behind_opening(CallReader& reader, const FormatRow& row, const Section& section) {
  return read_json_section(reader, row, section);
}

}  // namespace flyball::api::calls
