#include "backends/engine/shared_beginning.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace flyball::engine {
namespace {

// Texts that people's messages might begin with, and that share no token.
constexpr std::array<std::string_view, 2> kContinuations{"A", "7"};
// At least as long as the JSON text of what is added.
constexpr std::uint32_t kAddedJsonBytes = 64;

// The messages, with `more` as a user message behind a system message, or behind the content of a last user
// message. Absent: they end otherwise.
std::optional<PackedJson> continued(JsonView messages, std::string_view more) {
  if (!messages.is_array() || messages.size() == 0) return std::nullopt;
  JsonPacker out;
  out.open(JsonKind::array);
  std::uint32_t left = messages.size();
  bool goes_on = false;
  for (const auto& [key, message] : messages.members()) {
    if (--left > 0) {
      out.value(message);
      continue;
    }
    const JsonView role = message.is_object() ? message.find("role") : JsonView();
    const JsonView content = message.is_object() ? message.find("content") : JsonView();
    if (!role.is_string() || !content.is_string()) return std::nullopt;
    goes_on = role.text() == "user";
    if (!goes_on && role.text() != "system" && role.text() != "developer") return std::nullopt;
    if (!goes_on) out.value(message);
    out.open(JsonKind::object);
    out.key("role");
    out.string("user");
    out.key("content");
    out.string((goes_on ? std::string(content.text()) : std::string()).append(more));
    out.close(goes_on ? message.json_bytes() + kAddedJsonBytes : kAddedJsonBytes);
  }
  out.close(messages.json_bytes() + kAddedJsonBytes);
  return out.take();
}

std::optional<Prompt> continued(const Prompt& prompt, std::string_view more) {
  if (const auto* text = std::get_if<TextPrompt>(&prompt))
    return TextPrompt{text->text + std::string(more), text->add_special};
  const auto* const chat = std::get_if<ChatPrompt>(&prompt);
  auto messages = chat ? continued(chat->messages.view(), more) : std::nullopt;
  if (!messages) return std::nullopt;
  ChatPrompt longer = *chat;
  longer.messages = std::move(*messages);
  return longer;
}

}  // namespace

Result<std::array<Prompt, 2>> continued_in_two_ways(const Prompt& prompt) {
  auto one = continued(prompt, kContinuations[0]);
  auto other = continued(prompt, kContinuations[1]);
  if (one && other) return std::array<Prompt, 2>{std::move(*one), std::move(*other)};
  return fail(ErrorCode::invalid_value,
              "A kept prefix is a chat that ends with a system or user message of text, or a text.", "keep");
}

std::size_t common_length(std::span<const Token> a, std::span<const Token> b) noexcept {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace flyball::engine
