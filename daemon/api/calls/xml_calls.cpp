#include "daemon/api/calls/notations.hpp"
#include "daemon/api/calls/parameter_value.hpp"
#include "daemon/api/json_text.hpp"

namespace flyball::api::calls {
namespace {

constexpr std::size_t kMaxKeyBytes = 256;

// One call behind its opening.
class XmlCall {
 public:
  XmlCall(CallReader& reader, const FormatRow& row, const Section& section)
      : reader_(reader), row_(row), section_(section) {}

  // False: it is none, or it broke off.
  Reading<bool> read() {
    std::string name;
    co_await reader_.next_solid();
    if (!co_await reader_.name(name, kMaxToolNameBytes)) co_return false;
    if (!co_await reader_.literal(row_.name_close)) co_return false;
    if (row_.name_close.empty()) {
      if (!co_await reader_.sees(row_.key_open)) {
        if (!co_await reader_.sees(row_.call_close)) co_return false;
      }
    }
    function_ = reader_.function(name);
    reader_.begin_call(name, "");
    const bool whole = co_await parameters();
    if (whole) reader_.events.arguments(first_ ? "{}" : "}");
    if (!whole && reader_.feed.is_over()) reader_.feed.forget();
    reader_.end_call(whole);
    co_return whole;
  }

 private:
  Reading<bool> parameters() {
    for (;;) {
      reader_.accept();  // a parameter that breaks before its value is text
      if (!co_await reader_.comes(row_.key_open)) break;
      std::string key;
      if (!co_await this->key(key)) co_return false;
      if (!co_await reader_.comes(row_.value_open)) co_return false;
      reader_.feed.forget();
      std::string begin = first_ ? "{" : ",";
      first_ = false;
      append_json_string(begin, key);
      reader_.events.arguments(begin + ":");
      const ValueTypes types = types_of_parameter(function_, key);
      Reading<bool> value = types.other ? typed_value(types) : string_value();
      if (!co_await value) co_return false;
    }
    if (co_await reader_.comes(row_.call_close)) co_return true;
    if (section_.close.empty()) co_return false;
    const bool result = co_await reader_.sees(section_.close);
    co_return result;
  }

  Reading<bool> key(std::string& out) {
    for (;;) {
      if (co_await reader_.literal(row_.key_close)) co_return !out.empty();
      const int byte = co_await reader_.feed.peek();
      if (byte == ByteFeed::kEnd || out.size() == kMaxKeyBytes) co_return false;
      out += static_cast<char>(byte);
      reader_.feed.take(1);
    }
  }

  // A parameter of the tool begins here: the value before it lacks its end.
  Reading<bool> sees_parameter() {
    if (!function_.is_object()) co_return false;
    const JsonView parameters = function_.find("parameters");
    if (!parameters.is_object()) co_return false;
    const JsonView properties = parameters.find("properties");
    if (!properties.is_object()) co_return false;
    for (const auto& [name, schema] : properties.members()) {
      const std::string begin = std::string(row_.key_open) + std::string(name) + std::string(row_.key_close);
      if (co_await reader_.is_next(begin)) co_return true;
    }
    co_return false;
  }

  // The text of a value without the line's ends around it, byte by byte.
  template <class Put>
  Reading<bool> text(Put put) {
    if (row_.value_on_lines) co_await reader_.literal("\n");
    bool line_end = false;  // one that is the value's if more of it follows
    for (;;) {
      const int byte = co_await reader_.feed.peek();
      if (byte == ByteFeed::kEnd) co_return false;
      if (byte == row_.value_close[0]) {
        if (co_await reader_.literal(row_.value_close)) co_return true;
      }
      if (line_end && byte == row_.key_open[0]) {
        if (co_await sees_parameter()) co_return true;
      }
      if (line_end) put('\n');
      line_end = row_.value_on_lines && byte == '\n';
      if (!line_end) put(static_cast<char>(byte));
      reader_.feed.take(1);
    }
  }

  Reading<bool> string_value() {
    reader_.events.arguments("\"");
    const bool whole = co_await text([this](char c) {
      std::string escaped;
      append_string_byte(escaped, c);
      reader_.events.arguments(escaped);
    });
    if (whole) reader_.events.arguments("\"");
    co_return whole;
  }

  // Known when it is whole.
  Reading<bool> typed_value(const ValueTypes types) {
    std::string value;
    if (!co_await text([&value](char c) { value += c; })) co_return false;
    auto json = json_of(value, types);
    if (!json) append_json_string(json.emplace(), value);
    reader_.events.arguments(*json);
    co_return true;
  }

  CallReader& reader_;
  const FormatRow& row_;
  const Section& section_;
  JsonView function_;  // absent: the tool is not known
  bool first_ = true;
};

Reading<bool> read_xml_section(CallReader& reader, const FormatRow& row, const Section& section) {
  if (!co_await reader.comes(section.open)) co_return false;
  bool any = false;
  while (co_await reader.comes(row.call_open)) {
    XmlCall call(reader, row, section);
    if (!co_await call.read()) co_return any;
    any = true;
    if (section.open.empty()) break;  // the next call begins a section of its own
  }
  if (any) {
    if (co_await reader.comes(section.close)) reader.accept();
  }
  co_return any;
}

}  // namespace

Reading<bool> xml_calls(CallReader& reader, const FormatRow& row, const Section& section) {
  return read_xml_section(reader, row, section);
}

}  // namespace flyball::api::calls
