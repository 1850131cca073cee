#include "config/table.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "config/units.hpp"

namespace flyball::config {
namespace {

constexpr std::size_t kMaxShownBytes = 60;  // of a file's own text in a message

bool matches_any(std::string_view) {
  return true;
}
bool matches_id(std::string_view s) {
  if (s.empty() || s.size() > 128 || !std::isalnum(static_cast<unsigned char>(s[0]))) return false;
  return std::ranges::all_of(s, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == ':' || c == '/' ||
           c == '-';
  });
}
bool matches_sha256(std::string_view s) {
  return s.size() == 64 &&
         std::ranges::all_of(s, [](char c) { return std::isxdigit(static_cast<unsigned char>(c)); });
}

std::string shown(std::string_view s) {
  std::size_t n = std::min(s.size(), kMaxShownBytes);
  while (n < s.size() && n > 0 && (static_cast<unsigned char>(s[n]) & 0xC0) == 0x80)
    --n;  // whole UTF-8 sequences
  return "\"" + std::string(s.substr(0, n)) + (n < s.size() ? "..." : "") + "\"";
}

std::string described(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return "nothing";
    case Node::Kind::scalar:
      return shown(node.text);
    case Node::Kind::list:
      return "a list";
    case Node::Kind::map:
      return "a map";
  }
  return {};
}

std::string quantity(std::int64_t n, std::string_view noun) {
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : noun == "entry" ? "" : "s");
}

std::optional<std::int64_t> plain_integer(const Node& node) {
  if (node.kind != Node::Kind::scalar || node.quoted) return std::nullopt;
  if (node.text.size() > 1 && node.text.front() == '0') return std::nullopt;  // YAML 1.1 reads it as octal
  std::int64_t value = 0;
  const char* end = node.text.data() + node.text.size();
  const auto [stop, error] = std::from_chars(node.text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> plain_bytes(const Node& node) {
  if (node.kind != Node::Kind::scalar) return std::nullopt;
  if (const auto parsed = parse_size(node.text); parsed && parsed->percent == 0) return parsed->bytes;
  return std::nullopt;
}

std::string joined(const std::vector<std::string_view>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + std::string(names[i]);
  return out;
}

// Of a text's bytes or an integer: "1 to 128", or the one that it can be.
std::string range(const Shape& shape) {
  const std::string least = std::to_string(shape.min);
  return shape.min == shape.max ? least : least + " to " + std::to_string(shape.max);
}

class Checker {
 public:
  explicit Checker(Findings& findings) : findings_(findings) {}

  void check(const Node& node, const Shape& shape, const std::string& path) {
    const bool outside = std::exchange(hides_, hides_ || shape.secret);
    check_kind(node, shape, path);
    hides_ = outside;
  }

 private:
  void check_kind(const Node& node, const Shape& shape, const std::string& path) {
    switch (shape.kind) {
      case Shape::Kind::boolean:
        if (node.kind != Node::Kind::scalar || node.quoted || (node.text != "true" && node.text != "false"))
          expected(node, path, "true or false");
        return;
      case Shape::Kind::integer:
        return check_integer(node, shape, path);
      case Shape::Kind::text:
        return check_text(node, shape, path);
      case Shape::Kind::choice:
        return check_choice(node, shape, path);
      case Shape::Kind::duration:
        return check_duration(node, shape, path);
      case Shape::Kind::size:
        return check_size(node, shape, path);
      case Shape::Kind::scalar:
        if (node.kind != Node::Kind::scalar) expected(node, path, "true, false, a number or text");
        return;
      case Shape::Kind::list:
        return check_list(node, shape, path);
      case Shape::Kind::map:
        return check_map(node, shape, path);
      case Shape::Kind::object:
        return check_object(node, shape, path);
      case Shape::Kind::reference:
        return check(node, shape.target(), path);
    }
  }

  void add(const Mark& at, const std::string& path, const std::string& message) {
    findings_.push_back(finding(at, path.empty() ? message : path + ": " + message, path));
  }
  void expected(const Node& node, const std::string& path, const std::string& what) {
    const bool hidden = hides_ && node.kind == Node::Kind::scalar;
    add(node.at, path, "expected " + what + ", got " + (hidden ? "text" : described(node)));
  }

  void check_integer(const Node& node, const Shape& shape, const std::string& path) {
    const auto value = plain_integer(node);
    if (!value) return expected(node, path, "a whole number");
    if (*value < shape.min || *value > shape.max)
      add(node.at, path, std::to_string(*value) + " is out of range, expected " + range(shape));
  }

  void check_text(const Node& node, const Shape& shape, const std::string& path) {
    if (node.kind != Node::Kind::scalar) return expected(node, path, "text");
    const auto length = static_cast<std::int64_t>(node.text.size());
    if (length < shape.min || length > shape.max)
      return add(node.at, path,
                 length == 0 ? "must not be empty"
                             : "has " + std::to_string(length) + " bytes, expected " + range(shape));
    if (!shape.form->matches(node.text)) expected(node, path, std::string(shape.form->expected));
  }

  void check_choice(const Node& node, const Shape& shape, const std::string& path) {
    if (node.kind == Node::Kind::scalar && std::ranges::find(shape.names, node.text) != shape.names.end())
      return;
    const std::string guess =
        node.kind == Node::Kind::scalar ? did_you_mean(node.text, shape.names) : std::string();
    expected(node, path, joined(shape.names));
    findings_.back().message += guess;
  }

  void check_duration(const Node& node, const Shape& shape, const std::string& path) {
    const auto value = node.kind == Node::Kind::scalar ? parse_duration(node.text) : std::nullopt;
    if (!value) return expected(node, path, "a duration such as 500ms, 30s, 5m or 2h");
    if (value->count() < shape.min || value->count() > shape.max)
      add(node.at, path,
          node.text + " is out of range, expected " + format_duration(std::chrono::milliseconds(shape.min)) +
              " to " + format_duration(std::chrono::milliseconds(shape.max)));
  }

  void check_size(const Node& node, const Shape& shape, const std::string& path) {
    const auto value = plain_bytes(node);
    if (!value) return expected(node, path, "a size such as 512B, 64KiB, 16MiB or 6GiB");
    if (*value < static_cast<std::uint64_t>(shape.min) || *value > static_cast<std::uint64_t>(shape.max))
      add(node.at, path,
          node.text + " is out of range, expected " + format_bytes(static_cast<std::uint64_t>(shape.min)) +
              " to " + format_bytes(static_cast<std::uint64_t>(shape.max)));
  }

  void check_list(const Node& node, const Shape& shape, const std::string& path) {
    if (shape.or_single && node.kind != Node::Kind::list) return check(node, *shape.element, path);
    if (node.kind != Node::Kind::list) return expected(node, path, "a list");
    check_count(node, shape, path, node.items.size(), "item");
    for (std::size_t i = 0; i < node.items.size(); ++i)
      check(node.items[i], *shape.element, path + "[" + std::to_string(i) + "]");
  }

  void check_map(const Node& node, const Shape& shape, const std::string& path) {
    if (node.kind != Node::Kind::map) return expected(node, path, "a map keyed by id");
    check_count(node, shape, path, node.entries.size(), "entry");
    for (const Entry& entry : node.entries) {
      if (!matches_id(entry.key))
        add(entry.at, path, shown(entry.key) + " is not " + std::string(kId.expected));
      check(entry.value, *shape.element, path.empty() ? entry.key : path + "." + entry.key);
    }
  }

  void check_count(const Node& node, const Shape& shape, const std::string& path, std::size_t n,
                   std::string_view noun) {
    const auto count = static_cast<std::int64_t>(n);
    if (count < shape.min)
      add(node.at, path, "expected at least " + quantity(shape.min, noun));
    else if (count > shape.max)
      add(node.at, path, "has " + std::to_string(count) + ", the limit is " + quantity(shape.max, noun));
  }

  void check_object(const Node& node, const Shape& shape, const std::string& path) {
    if (node.kind != Node::Kind::map) return expected(node, path, "a map");
    std::vector<std::string_view> keys;
    for (const Row& row : shape.rows) keys.push_back(row.key);
    for (const Entry& entry : node.entries) {
      const auto row = std::ranges::find(shape.rows, entry.key, &Row::key);
      if (row == shape.rows.end()) {
        const auto removed = std::ranges::find(shape.removed, entry.key, &RemovedKey::key);
        if (removed != shape.removed.end()) {
          add(entry.at, path, shown(entry.key) + " was removed; " + std::string(removed->remedy));
          continue;
        }
        findings_.push_back(finding(entry.at,
                                    "unknown key" + (hides_ ? "" : " " + shown(entry.key)) +
                                        (path.empty() ? "" : " in " + path) + did_you_mean(entry.key, keys),
                                    path));
        continue;
      }
      check(entry.value, row->shape, path.empty() ? entry.key : path + "." + entry.key);
    }
    for (const Row& row : shape.rows)
      if (row.required && !node.find(row.key))
        add(node.at, path, "missing key \"" + std::string(row.key) + "\"");
  }

  Findings& findings_;
  bool hides_ = false;  // within a secret: messages do not show the file's text
};

Shape bounded(Shape::Kind kind, std::int64_t min, std::int64_t max) {
  Shape shape;
  shape.kind = kind;
  shape.min = min;
  shape.max = max;
  return shape;
}

Shape collection(Shape::Kind kind, Shape element, std::int64_t min, std::int64_t max) {
  Shape shape = bounded(kind, min, max);
  shape.element = std::make_shared<const Shape>(std::move(element));
  return shape;
}

}  // namespace

const Form kAnyText{"text", "", &matches_any};
const Form kId{"an id (letters, digits and . _ : / -, starting with a letter or digit, at most 128)",
               "^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$", &matches_id};
const Form kSha256Hex{"64 hexadecimal digits", "^[0-9A-Fa-f]{64}$", &matches_sha256};

Shape boolean() {
  return bounded(Shape::Kind::boolean, 0, 0);
}
Shape integer(std::int64_t min, std::int64_t max) {
  return bounded(Shape::Kind::integer, min, max);
}
Shape text(std::int64_t min_bytes, std::int64_t max_bytes, const Form& form) {
  Shape shape = bounded(Shape::Kind::text, min_bytes, max_bytes);
  shape.form = &form;
  return shape;
}
Shape id() {
  return text(1, 128, kId);
}
Shape choice(std::vector<std::string_view> names) {
  Shape shape = bounded(Shape::Kind::choice, 0, 0);
  shape.names = std::move(names);
  return shape;
}
Shape duration(std::chrono::milliseconds min, std::chrono::milliseconds max) {
  return bounded(Shape::Kind::duration, min.count(), max.count());
}
Shape size(std::uint64_t min_bytes, std::uint64_t max_bytes) {
  return bounded(Shape::Kind::size, static_cast<std::int64_t>(min_bytes),
                 static_cast<std::int64_t>(max_bytes));
}
Shape scalar() {
  return bounded(Shape::Kind::scalar, 0, 0);
}
Shape list(Shape element, std::int64_t min, std::int64_t max) {
  return collection(Shape::Kind::list, std::move(element), min, max);
}
Shape list_or_single(Shape element, std::int64_t min, std::int64_t max) {
  Shape shape = list(std::move(element), min, max);
  shape.or_single = true;
  return shape;
}
Shape map(Shape element, std::int64_t min, std::int64_t max) {
  return collection(Shape::Kind::map, std::move(element), min, max);
}
Shape object(std::vector<Row> rows) {
  Shape shape = bounded(Shape::Kind::object, 0, 0);
  shape.rows = std::move(rows);
  return shape;
}
Shape secret(Shape shape) {
  shape.secret = true;
  return shape;
}
Shape reference(std::string_view name, std::function<const Shape&()> target) {
  Shape shape = bounded(Shape::Kind::reference, 0, 0);
  shape.name = name;
  shape.target = std::move(target);
  return shape;
}

void check_shape(const Node& node, const Shape& shape, const std::string& path, Findings& findings) {
  Checker(findings).check(node, shape, path);
}

void check_schema_line(const Node& root, std::string_view schema, Findings& findings) {
  const std::string line = "`schema: " + std::string(schema) + "`";
  if (root.kind != Node::Kind::map || root.entries.empty() || root.entries.front().key != "schema") {
    const Mark& at =
        root.kind == Node::Kind::map && !root.entries.empty() ? root.entries.front().at : root.at;
    findings.push_back(finding(at, "the first key must be " + line));
    return;
  }
  const Node& value = root.entries.front().value;
  if (value.kind != Node::Kind::scalar || value.text != schema)
    findings.push_back(finding(value.at, "expected " + line + ", got " + described(value), "schema"));
}

bool as_bool(const Node& node) {
  return node.text == "true";
}
std::int64_t as_integer(const Node& node) {
  return plain_integer(node).value_or(0);
}
std::chrono::milliseconds as_duration(const Node& node) {
  return parse_duration(node.text).value_or(std::chrono::milliseconds{});
}
std::uint64_t as_bytes(const Node& node) {
  return plain_bytes(node).value_or(0);
}
std::vector<std::string> as_texts(const Node& node) {
  if (node.kind != Node::Kind::list) return {node.text};
  std::vector<std::string> out;
  for (const Node& item : node.items) out.push_back(item.text);
  return out;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates) {
  const auto nearest = closest(word, candidates);
  return nearest ? "; did you mean \"" + std::string(*nearest) + "\"?" : std::string();
}

Error finding(const Mark& at, std::string message, std::string path) {
  return Error{ErrorCode::config_invalid, std::move(message), std::move(path), at.where()};
}

Error first_of(const Findings& findings) {
  Error error = findings.front();
  if (findings.size() > 1)
    error.message += " (and " + std::to_string(findings.size() - 1) + " more; `flyball check` lists all)";
  return error;
}

}  // namespace flyball::config
