#include "daemon/api/openai/logprob_json.hpp"

#include <cstddef>
#include <string_view>

#include "daemon/api/json_text.hpp"

namespace flyball::api::openai {
namespace {

void append_bytes(std::string& out, std::string_view bytes) {
  out.push_back('[');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out.push_back(',');
    out.append(std::to_string(static_cast<unsigned char>(bytes[i])));
  }
  out.push_back(']');
}

// Without the closing brace.
void append_bare_logprob(std::string& out, std::string_view bytes, float logprob) {
  out.append(R"({"token":)");
  append_json_string(out, bytes);
  out.append(R"(,"logprob":)");
  append_logprob(out, logprob);
  out.append(R"(,"bytes":)");
  append_bytes(out, bytes);
}

}  // namespace

void append_logprob(std::string& out, float value) {
  append_json_number(out, value >= -9999.0F ? value : -9999.0F);
}

void append_token_logprob(std::string& out, const LogprobView& token) {
  append_bare_logprob(out, token.bytes, token.logprob);
  out.append(R"(,"top_logprobs":[)");
  for (std::size_t k = 0; k < token.top.size(); ++k) {
    if (k > 0) out.push_back(',');
    append_bare_logprob(out, token.top[k].first, token.top[k].second);
    out.push_back('}');
  }
  out.append("]}");
}

std::size_t most_json_bytes(const TokenLogprob& token) noexcept {
  // The names, the punctuation and the number of one; a byte of its token is up to 6 bytes of a JSON string
  // and up to 4 of "bytes".
  constexpr std::size_t kBare = 80, kOfByte = 10;
  std::size_t n = kBare + std::string_view(R"(,"top_logprobs":[])").size() + kOfByte * token.bytes.size();
  for (const auto& [bytes, logprob] : token.top) n += kBare + kOfByte * bytes.size();
  return n;
}

}  // namespace flyball::api::openai
