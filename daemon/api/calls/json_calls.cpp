#include "daemon/api/calls/notations.hpp"

namespace flyball::api::calls {
namespace {

// One object of a call on its way.
class JsonCall {
 public:
  JsonCall(CallReader& reader, const FormatRow& row, bool known_names)
      : reader_(reader), row_(row), known_names_(known_names) {}

  // False: it is none, or it broke off.
  Reading<bool> read() {
    const bool whole = co_await members();
    if (begun_ && !ended_) {
      if (whole) reader_.events.arguments("{}");
      reader_.end_call(whole);
    }
    if (whole && begun_) reader_.accept();
    co_return whole&& begun_;
  }

 private:
  Reading<bool> members() {
    if (!co_await reader_.comes("{")) co_return false;
    for (;;) {
      std::string key;
      if (!co_await reader_.json_string(key, kMaxNameBytes)) co_return false;
      if (!co_await reader_.comes(":")) co_return false;
      if (!co_await member(key)) co_return false;
      if (co_await reader_.comes("}")) co_return true;
      if (!co_await reader_.comes(",")) co_return false;
    }
  }

  Reading<bool> member(std::string_view key) {
    if (key == row_.name_key && !begun_) return name();
    if ((key == "arguments" || key == "parameters") && !ended_ && held_.empty()) return arguments();
    if (key == row_.id_key && !begun_) return id();
    return reader_.skip_json();
  }

  Reading<bool> name() {
    std::string name;
    if (!co_await reader_.json_string(name, kMaxNameBytes + 1)) co_return false;
    if (!is_call_name(name)) co_return false;
    if (known_names_ && !reader_.is_tool(name)) co_return false;
    reader_.begin_call(name, id_);
    begun_ = true;
    if (held_.empty()) co_return true;
    reader_.events.arguments(held_);
    end();
    co_return true;
  }

  Reading<bool> arguments() {
    std::string* held = begun_ ? nullptr : &held_;
    if (!co_await reader_.arguments(held)) co_return false;
    if (begun_) end();
    co_return true;
  }

  Reading<bool> id() {
    const int first = co_await reader_.next_solid();
    if (first == '"') {
      const bool result = co_await reader_.json_string(id_, kMaxNameBytes);
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
  bool begun_ = false, ended_ = false;
  std::string id_, held_;  // arguments that came before the name
};

Reading<bool> read_json_section(CallReader& reader, const FormatRow& row, const Section& section) {
  if (!co_await reader.comes(section.open)) co_return false;
  const bool list = co_await reader.comes("[");
  for (bool any = false;; any = true) {
    JsonCall call(reader, row, section.known_names);
    if (!co_await call.read()) co_return any;
    if (list) {
      if (co_await reader.comes(",")) continue;
      if (!co_await reader.comes("]")) co_return true;
    } else {
      if (co_await reader.comes(";")) continue;
      if (co_await reader.sees("{")) continue;
    }
    reader.accept();
    if (co_await reader.comes(section.close)) reader.accept();
    co_return true;
  }
}

}  // namespace

Reading<bool> json_calls(CallReader& reader, const FormatRow& row, const Section& section) {
  return read_json_section(reader, row, section);
}

}  // namespace flyball::api::calls
