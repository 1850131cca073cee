#include "daemon/cli/operators_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>

#include "config/ascii_lower.hpp"
#include "config/descriptor.hpp"
#include "config/table.hpp"
#include "config/write_all.hpp"

namespace flyball::cli {
namespace {

// `text` in single quotes, each of its own written as `quote`.
std::string in_single_quotes(const std::string& text, std::string_view quote) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string(quote) : std::string(1, c);
  return out + "'";
}

std::string remedy_of(int error) {
  return error == EACCES || error == EPERM ? ". Run this command with sudo" : "";
}

}  // namespace

Result<void> write_new(const std::filesystem::path& file, const std::string& text, const std::string& taken) {
  const std::filesystem::path folder = file.parent_path();
  std::error_code failed;
  if (std::filesystem::create_directories(folder, failed)) ::chmod(folder.c_str(), 0755);
  if (failed)
    return fail(ErrorCode::io_error,
                folder.string() + " cannot be made: " + failed.message() + remedy_of(failed.value()));
  Descriptor out(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!out && errno == EEXIST) return fail(ErrorCode::io_error, file.string() + " exists: " + taken);
  const bool written = out && ::fchmod(out.get(), 0644) == 0 && write_all(out.get(), text);
  if (written) return {};
  const int error = errno;
  if (out) ::unlink(file.c_str());
  return fail(ErrorCode::io_error,
              file.string() + " cannot be written: " + std::strerror(error) + remedy_of(error));
}

std::string file_stem(std::string id) {
  std::ranges::replace_if(
      id, [](char c) { return c == '/' || c == ':'; }, '-');
  return id;
}

Result<void> check_id(const std::string& id, const char* what) {
  config::Findings findings;
  config::Node node;
  node.kind = config::Node::Kind::scalar;
  node.text = id;
  config::check_shape(node, config::id(), what, findings);
  if (findings.empty()) return {};
  return fail(ErrorCode::unsupported_value, findings.front().message, what);
}

std::string yaml_id(const std::string& id) {
  constexpr std::array<std::string_view, 8> kWords{"null", "true", "false", "yes", "no", "on", "off", "y"};
  const bool plain = std::isalpha(static_cast<unsigned char>(id.front())) &&
                     id.find(':') == std::string::npos &&
                     std::ranges::find(kWords, ascii_lower(id)) == kWords.end();
  return plain ? id : "'" + id + "'";  // an id holds no quote
}

std::string yaml_quoted(const std::string& text) {
  return in_single_quotes(text, "''");
}

std::string shell_word(const std::string& text) {
  return in_single_quotes(text, "'\\''");
}

}  // namespace flyball::cli
