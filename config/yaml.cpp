// The event handler that builds the value tree from yaml-cpp's events, with every bound checked on the way.
#include "config/yaml.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <sstream>
#include <unordered_set>

#include "config/descriptor.hpp"
#include "config/file_error.hpp"
#include "config/yaml_mistakes.hpp"

namespace flyball::config {
namespace {

// Thrown by the handler through yaml-cpp and caught in parse_yaml: yaml-cpp has no other way to stop early.
struct Stop {
  std::string message;
  Mark at;
};

class TreeBuilder final : public YAML::EventHandler {
 public:
  // `text`: what yaml-cpp reads, without a byte-order mark.
  TreeBuilder(std::shared_ptr<const std::string> file, std::string_view text)
      : file_(std::move(file)), text_(text) {}

  Node take() { return std::move(root_); }
  TextPlace document_at() const { return {start_.line, start_.column}; }

  // The beginning of the innermost list or map that is open.
  TextPlace open_at(Node::Kind kind) const {
    for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame)
      if (frame->node.kind == kind) return {frame->node.at.line, frame->node.at.column};
    return {};
  }

  void OnDocumentStart(const YAML::Mark& mark) override { start_ = place(mark); }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    if (expects_key()) throw Stop{"a key must be plain text, got null", place(mark)};
    // yaml-cpp places an empty value at the next token; its key is where a reader looks.
    Node node;
    node.at = frames_.empty() || !frames_.back().has_key ? place(mark) : frames_.back().key_at;
    add(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Stop{"aliases are not allowed: put a text that begins with * in quotes", place(mark)};
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    refuse_open_quote(mark);
    if (value.size() > kMaxYamlScalarBytes)
      throw Stop{"a value of " + std::to_string(value.size()) + " bytes is over the limit of " +
                     std::to_string(kMaxYamlScalarBytes),
                 place(mark)};
    if (expects_key()) {
      Frame& frame = frames_.back();
      if (!frame.keys.insert(value).second) throw Stop{"duplicate key \"" + value + "\"", place(mark)};
      frame.has_key = true;
      frame.key = value;
      frame.key_at = place(mark);
      count(mark);
      return;
    }
    Node node;
    node.kind = Node::Kind::scalar;
    node.quoted = tag == "!";
    node.text = value;
    node.at = place(mark);
    add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::list);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {  // a list or map that is still open
    Node node;
    std::unordered_set<std::string> keys;
    bool has_key = false;
    std::string key;
    Mark key_at;
  };

  Mark place(const YAML::Mark& mark) const {
    const auto from_one = [](int zero_based) {
      return zero_based < 0 ? 1U : static_cast<std::uint32_t>(zero_based) + 1;
    };
    return Mark{file_, from_one(mark.line), from_one(mark.column)};
  }

  bool expects_key() const {
    return !frames_.empty() && frames_.back().node.kind == Node::Kind::map && !frames_.back().has_key;
  }

  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor)
      throw Stop{"anchors are not allowed: put a text that begins with & in quotes", place(mark)};
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!")
      throw Stop{"tags are not allowed: put a text that begins with ! in quotes", place(mark)};
  }
  // yaml-cpp 0.7 takes the end of the file for a closing quote.
  void refuse_open_quote(const YAML::Mark& mark) const {
    const auto first = static_cast<std::size_t>(mark.pos);
    const char quote = first < text_.size() ? text_[first] : ' ';
    if (quote != '"' && quote != '\'') return;
    for (std::size_t i = first + 1; i < text_.size(); ++i) {
      if (text_[i] == '\\' && quote == '"')
        ++i;
      else if (text_[i] == quote && quote == '\'' && text_.substr(i + 1).starts_with(quote))
        ++i;
      else if (text_[i] == quote)
        return;
    }
    throw Stop{std::string("the quote ") + quote + " that begins here is not closed", place(mark)};
  }

  void count(const YAML::Mark& mark) {
    if (++n_nodes_ > kMaxYamlNodes)
      throw Stop{"more than " + std::to_string(kMaxYamlNodes) + " keys and values", place(mark)};
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node::Kind kind) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (expects_key()) throw Stop{"a key must be plain text, not a list or map", place(mark)};
    if (frames_.size() >= kMaxYamlDepth)
      throw Stop{"nested deeper than " + std::to_string(kMaxYamlDepth) + " levels", place(mark)};
    count(mark);
    frames_.emplace_back();
    frames_.back().node.kind = kind;
    frames_.back().node.at = place(mark);
  }

  void close() {
    Node node = std::move(frames_.back().node);
    frames_.pop_back();
    attach(std::move(node));
  }

  void add(Node node) {
    if (++n_nodes_ > kMaxYamlNodes)
      throw Stop{"more than " + std::to_string(kMaxYamlNodes) + " keys and values", node.at};
    attach(std::move(node));
  }

  void attach(Node node) {
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = frames_.back();
    if (frame.node.kind == Node::Kind::list) {
      frame.node.items.push_back(std::move(node));
    } else {
      frame.node.entries.push_back(Entry{std::move(frame.key), std::move(frame.key_at), std::move(node)});
      frame.has_key = false;
    }
  }

  std::shared_ptr<const std::string> file_;
  std::string_view text_;
  Mark start_;  // of the document
  std::vector<Frame> frames_;
  std::size_t n_nodes_ = 0;
  Node root_;
};

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Length in bytes of the UTF-8 sequence at text[i], or 0: overlong forms, surrogates and values past U+10FFFF
// too.
std::size_t utf8_length(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned lead = byte(i);
  if (lead < 0x80) return 1;
  const std::size_t n = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || i + n > text.size()) return 0;
  for (std::size_t k = 1; k < n; ++k)
    if ((byte(i + k) & 0xC0) != 0x80) return 0;
  const unsigned second = byte(i + 1);
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) || (lead == 0xF0 && second < 0x90) ||
      (lead == 0xF4 && second > 0x8F))
    return 0;
  return n;
}

// Refuses text that yaml-cpp must never see: too long, not UTF-8, control characters (yaml-cpp would guess
// UTF-16 from NULs).
Result<void> scan(std::string_view text, const std::shared_ptr<const std::string>& file) {
  if (text.size() > kMaxYamlBytes)
    return fail(ErrorCode::config_invalid,
                "the file has " + std::to_string(text.size()) + " bytes, the limit is " +
                    std::to_string(kMaxYamlBytes),
                {}, *file);
  const auto nul_at = [&](std::size_t i) { return i < text.size() && text[i] == '\0'; };
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF") ||
      (text.size() > 1 && nul_at(0) != nul_at(1)))
    return fail(ErrorCode::config_invalid, "the file is written in UTF-16 or UTF-32: save it as UTF-8", {},
                Mark{file, 1, 1}.where());
  std::uint32_t line = 1;
  std::size_t line_start = 0;
  for (std::size_t i = 0; i < text.size();) {
    const auto where = [&] {
      return Mark{file, line, static_cast<std::uint32_t>(i - line_start) + 1}.where();
    };
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F)
      return fail(ErrorCode::config_invalid, "control character " + std::to_string(c) + ": remove it", {},
                  where());
    const std::size_t n = utf8_length(text, i);
    if (n == 0)
      return fail(ErrorCode::config_invalid,
                  "not valid UTF-8 (byte " + std::to_string(c) + "): save the file as UTF-8", {}, where());
    if (i > 0 && i == line_start && text.substr(i).starts_with(kByteOrderMark))
      return fail(ErrorCode::config_invalid,
                  "a byte-order mark at the beginning of a line: remove it (files that were joined leave it)",
                  {}, where());
    if (i - line_start >= kMaxYamlLineBytes)
      return fail(ErrorCode::config_invalid,
                  "the line is longer than the limit of " + std::to_string(kMaxYamlLineBytes) + " bytes", {},
                  where());
    i += n;
    if (c == '\n') {
      ++line;
      line_start = i;
    }
  }
  return {};
}

}  // namespace

std::string Mark::where() const {
  return (file ? *file : std::string("<yaml>")) + ":" + std::to_string(line) + ":" + std::to_string(column);
}

const Node* Node::find(std::string_view key) const noexcept {
  for (const Entry& entry : entries)
    if (entry.key == key) return &entry.value;
  return nullptr;
}

Result<Node> parse_yaml(std::string_view text, std::string_view file_name) {
  const auto file = std::make_shared<const std::string>(file_name);
  if (auto ok = scan(text, file); !ok) return pass(ok);
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const auto refuse = [&](YamlMistake mistake) {
    return fail(ErrorCode::config_invalid, std::move(mistake.message), {},
                Mark{file, mistake.at.line, mistake.at.column}.where());
  };
  TreeBuilder builder(file, text);
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    parser.HandleNextDocument(builder);
    Node root = builder.take();
    TreeBuilder second(file, text);
    if (parser.HandleNextDocument(second)) return refuse(second_document(text, second.document_at()));
    if (!root.at.file) root.at = Mark{file, 1, 1};
    return root;
  } catch (const Stop& stop) {
    return fail(ErrorCode::config_invalid, stop.message, {}, stop.at.where());
  } catch (const YAML::Exception& e) {
    TextPlace stopped;
    if (!e.mark.is_null())
      stopped = {static_cast<std::uint32_t>(e.mark.line) + 1, static_cast<std::uint32_t>(e.mark.column) + 1};
    return refuse(yaml_mistake(e.msg, text, stopped, builder.open_at(Node::Kind::list),
                               builder.open_at(Node::Kind::map)));
  } catch (const std::exception& e) {
    return fail(ErrorCode::config_invalid, std::string("not valid YAML: ") + e.what(), {}, *file);
  }
}

void merge(Node& into, Node&& from) {
  if (into.kind != Node::Kind::map || from.kind != Node::Kind::map) {
    into = std::move(from);
    return;
  }
  for (Entry& entry : from.entries) {
    bool found = false;
    for (Entry& standing : into.entries) {
      if (standing.key != entry.key) continue;
      standing.at = entry.at;
      merge(standing.value, std::move(entry.value));
      found = true;
      break;
    }
    if (!found) into.entries.push_back(std::move(entry));
  }
}

namespace {

// Who may not have which right is asked of the open file: a path could name another one by then.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t max_bytes, mode_t forbidden) {
  const auto io_failure = [&](int error) {
    return fail(ErrorCode::io_error, unreadable(path, error), {}, path.string());
  };
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return io_failure(errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return io_failure(errno);
  if (S_ISDIR(info.st_mode)) return io_failure(EISDIR);
  if (!S_ISREG(info.st_mode))
    return fail(ErrorCode::io_error, "cannot be read: not a regular file", {}, path.string());
  if ((info.st_mode & forbidden) != 0)
    return fail(ErrorCode::config_invalid,
                "the key file " + path.string() + " may be " +
                    ((info.st_mode & forbidden & S_IROTH) != 0 ? "read" : "written") +
                    " by everybody; `chmod o-rwx` it");
  std::string text;
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_failure(errno);
    if (n == 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
    if (text.size() > max_bytes)
      return fail(ErrorCode::config_invalid,
                  "the file is larger than the limit of " + std::to_string(max_bytes) + " bytes", {},
                  path.string());
  }
}

}  // namespace

Result<std::string> read_text_file(const std::filesystem::path& path, std::size_t max_bytes) {
  return read_file(path, max_bytes, 0);
}

Result<std::string> read_operators_file(const std::filesystem::path& path) {
  auto text = read_text_file(path);
  if (!text) text.error().code = ErrorCode::config_invalid;
  return text;
}

Result<std::string> read_secret_file(const std::filesystem::path& path, std::size_t max_bytes) {
  return read_file(path, max_bytes, S_IROTH | S_IWOTH);
}

}  // namespace flyball::config
