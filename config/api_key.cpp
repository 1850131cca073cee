#include "config/api_key.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <cstdlib>

#include "config/child_environment.hpp"
#include "config/path.hpp"
#include "config/units.hpp"

namespace flyball::config {
namespace {

constexpr std::size_t kMaxKeyFileBytes = 4096;

Sha256 sha256(std::string_view bytes) {
  Sha256 digest{};
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1)
    std::abort();
  return digest;
}

Sha256 from_hex(std::string_view hex) {
  const auto digit = [](char c) -> unsigned {
    return c <= '9' ? static_cast<unsigned>(c - '0') : (static_cast<unsigned>(c) | 0x20U) - 'a' + 10;
  };
  Sha256 out{};
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::uint8_t>(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
  return out;
}

bool matches_plain_name(std::string_view s) {
  return std::ranges::all_of(s,
                             [](char c) {
                               return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' ||
                                      c == '.';
                             }) &&
         s != "." && s != "..";
}
const Form kPlainName{"a name of letters, digits and . _ -", "^[A-Za-z0-9._-]+$", &matches_plain_name};

}  // namespace

Shape key_source() {
  return secret(object({
      {"file", path(), "a file that holds the key and that others may not read"},
      {"env", text(1, 255, kPlainName), "an environment variable of the daemon"},
      {"credential", text(1, 255, kPlainName), "a systemd credential (LoadCredential=)"},
  }));
}

Shape key_digests() {
  return secret(list_or_single(text(64, 64, kSha256Hex), 1, 16));
}

std::vector<Sha256> as_digests(const Node& node) {
  std::vector<Sha256> out;
  for (const std::string& hex : as_texts(node)) out.push_back(from_hex(hex));
  return out;
}

Result<KeySource> as_key_source(const Node& node, const std::filesystem::path& base) {
  if (node.entries.size() != 1)
    return fail(ErrorCode::config_invalid, "expected exactly one of file, env and credential");
  const Entry& entry = node.entries.front();
  if (entry.key == "env") return KeySource{KeySource::Kind::env, entry.value.text};
  if (entry.key == "credential") return KeySource{KeySource::Kind::credential, entry.value.text};
  const auto file = resolve_path(entry.value.text, base);
  if (!file) return pass(file);
  return KeySource{KeySource::Kind::file, file->string()};
}

Result<std::string> read_key(const KeySource& source) {
  std::string key;
  if (source.kind == KeySource::Kind::env) {
    if (reaches_children(source.name))
      return fail(ErrorCode::config_invalid,
                  "the daemon passes the environment variable " + source.name +
                      " on to its engines: keep a key in a variable of another name (docs/security.md)");
    const char* value = std::getenv(source.name.c_str());
    if (!value)
      return fail(ErrorCode::config_invalid, "the environment variable " + source.name + " is not set");
    key = value;
  } else {
    std::filesystem::path path = source.name;
    if (source.kind == KeySource::Kind::credential) {
      const char* dir = std::getenv("CREDENTIALS_DIRECTORY");
      if (!dir)
        return fail(ErrorCode::config_invalid,
                    "credential " + source.name +
                        ": CREDENTIALS_DIRECTORY is not set (systemd sets it for units with "
                        "LoadCredential=)");
      path = std::filesystem::path(dir) / path;
    }
    auto text = read_secret_file(path, kMaxKeyFileBytes);
    if (!text) return pass(text);
    key = std::move(*text);
    while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
  }
  if (key.size() < kMinKeyBytes || key.size() > kMaxKeyBytes)
    return fail(ErrorCode::config_invalid, "the key has " + std::to_string(key.size()) + " bytes, expected " +
                                               std::to_string(kMinKeyBytes) + " to " +
                                               std::to_string(kMaxKeyBytes));
  if (!std::ranges::all_of(key, [](char c) { return c > 0x20 && c < 0x7F; }))
    return fail(ErrorCode::config_invalid,
                "the key has a character that cannot stand in an Authorization header");
  return key;
}

void add_key(std::vector<Sha256>& keys, const Node& node, const std::string& path,
             const std::filesystem::path& base, Findings& findings) {
  const auto source = as_key_source(node, base);
  const auto key = source ? read_key(*source) : Result<std::string>(pass(source));
  if (key) {
    keys.push_back(sha256(*key));
    return;
  }
  // A map of several sources has no single entry to point at.
  const Mark& at = node.entries.size() == 1 ? node.entries.front().at : node.at;
  const std::string& where = key.error().where;
  findings.push_back(
      finding(at, path + ": " + (where.empty() ? "" : where + ": ") + key.error().message, path));
}

}  // namespace flyball::config
