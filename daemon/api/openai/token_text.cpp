#include "daemon/api/openai/token_text.hpp"

#include "backends/text/unicode.hpp"

namespace flyball::api::openai {
namespace {

using text::utf8_step;
using text::Utf8Step;

bool is_utf8(std::string_view bytes) noexcept {
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Step step = utf8_step(bytes, at);
    if (step.kind != Utf8Step::Kind::valid) return false;
    at += step.length;
  }
  return true;
}

}  // namespace

std::string token_text(std::string_view bytes) {
  if (is_utf8(bytes)) return std::string(bytes);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "bytes:";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F && c != '\\') {
      out.push_back(c);
      continue;
    }
    out.append("\\x");
    out.push_back(kHex[byte >> 4]);
    out.push_back(kHex[byte & 15]);
  }
  return out;
}

std::size_t TextOffsets::next(std::string_view bytes) {
  const std::size_t begin = pending_.size();
  pending_.append(bytes);
  std::size_t at = 0, offset = 0;
  bool found = false;
  while (at < pending_.size()) {
    const Utf8Step step = utf8_step(pending_, at);
    if (step.kind == Utf8Step::Kind::incomplete) break;
    at += step.length;
    if (at > begin && !found) {
      offset = characters_;
      found = true;
    }
    ++characters_;
  }
  pending_.erase(0, at);
  return found ? offset : characters_;
}

}  // namespace flyball::api::openai
