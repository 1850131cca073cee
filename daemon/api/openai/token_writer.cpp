#include "daemon/api/openai/token_writer.hpp"

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/api/json_text.hpp"
#include "daemon/http/message.hpp"

namespace flyball::api::openai {

bool TokensWriter::whole(std::span<Choice> choices, const Totals&, std::string& out) {
  const std::size_t full = out.size() + http::BodySource::kPieceBytes;
  const std::vector<Token>& tokens = choices.front().prompt;
  if (!std::exchange(begun_, true)) {
    out.append(R"({"count":)").append(std::to_string(tokens.size())).append(R"(,"max_model_len":)");
    out.append(context_ > 0 ? std::to_string(context_) : "null").append(R"(,"tokens":[)");
  }
  for (; next_ < tokens.size(); ++next_) {
    if (out.size() >= full) return true;
    if (next_ > 0) out.push_back(',');
    out.append(std::to_string(tokens[next_]));
  }
  out.append(R"(],"token_strs":null})");
  return false;
}

bool SpelledWriter::whole(std::span<Choice> choices, const Totals&, std::string& out) {
  constexpr std::size_t kTextPart = 4 * 1024;
  constexpr std::array<std::string_view, 2> kOpen{R"({"prompt":")", R"(,"content":")"};
  const std::size_t full = out.size() + http::BodySource::kPieceBytes;
  const std::string_view text = choices.front().text;
  for (; members_ < kOpen.size(); ++members_, text_ = 0) {
    do {
      if (out.size() >= full) return true;
      if (text_ == 0) out.append(kOpen.at(members_));
      const std::string_view rest = text.substr(text_);
      const std::size_t n = cut_of_text(rest, kTextPart);
      append_json_text(out, rest.substr(0, n));
      text_ += n;
    } while (text_ < text.size());
    out.push_back('"');
  }
  out.push_back('}');
  return false;
}

}  // namespace flyball::api::openai
