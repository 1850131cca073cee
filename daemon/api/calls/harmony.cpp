#include "daemon/api/calls/harmony.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "daemon/api/calls/format_table.hpp"

namespace flyball::api::calls {
namespace {

constexpr std::size_t kMaxHeaderParts = 16;  // words and markers; known headers have at most 10
constexpr std::size_t kMaxWordBytes = 160;   // "functions." and a name of kMaxToolNameBytes
constexpr std::array<std::string_view, 5> kRoles{"assistant", "user", "system", "developer", "tool"};
constexpr std::array<std::string_view, 3> kChannels{kHarmonyReasoning, kHarmonyPreamble, kHarmonyAnswer};

constexpr std::array<std::string_view, 3> kEnds{kHarmonyEnd, "<|call|>", "<|return|>"};
constexpr std::array<std::string_view, 4> kHeaderBegins{kHarmonyChannel, kHarmonyStart, kHarmonyMessage,
                                                        kHarmonyRecipient};
constexpr std::string_view kRoleAndChannel = "assistant<|channel|>";
// A message may also end at the header of the next one.
constexpr std::array<std::string_view, 5> kBodyEnds{kEnds[0], kEnds[1], kEnds[2], kHarmonyStart,
                                                    kHarmonyChannel};

class HarmonyAnswer {
 public:
  HarmonyAnswer(CallReader& reader, bool& in_reasoning) : reader_(reader), in_reasoning_(in_reasoning) {}

  Reading<bool> read() {
    for (;;) {
      channel_.clear();
      recipient_.clear();
      reader_.feed.keep();
      const bool headed = co_await header();
      if (!headed) reader_.text(std::string(reader_.feed.kept()));
      reader_.feed.forget();
      if (headed && reader_.tools && is_call()) {
        co_await call();
      } else if (!co_await body()) {
        co_return true;
      }
      for (const std::string_view end : kEnds)
        if (co_await reader_.comes(end)) break;
      if (co_await reader_.feed.peek() == ByteFeed::kEnd) co_return true;
    }
  }

 private:
  // Up to and with <|message|>. False: it is none.
  Reading<bool> header() {
    if (!co_await begins_header()) co_return false;
    std::string* word = nullptr;  // the one that comes next, if it matters
    std::string role;
    for (std::size_t parts = 0; parts < kMaxHeaderParts; ++parts) {
      const int byte = co_await reader_.next_solid();
      if (byte == ByteFeed::kEnd) co_return false;
      if (byte == '<') {
        if (co_await reader_.literal(kHarmonyMessage)) co_return true;
        if (co_await reader_.literal(kHarmonyStart))
          word = &role;
        else if (co_await reader_.literal(kHarmonyChannel))
          word = &channel_;
        else if (!co_await reader_.literal(kHarmonyConstrain))
          co_return false;
        continue;
      }
      std::string ignored;
      if (co_await reader_.literal(kHarmonyRecipient)) {
        if (!co_await this->word(recipient_)) co_return false;
        continue;
      }
      std::string& out = word != nullptr ? *word : ignored;
      if (!co_await this->word(out)) co_return false;
      if (word == &role && std::ranges::find(kRoles, role) == kRoles.end()) co_return false;
      if (word == &channel_ && std::ranges::find(kChannels, channel_) == kChannels.end()) co_return false;
      word = nullptr;
    }
    co_return false;
  }

  Reading<bool> begins_header() {
    for (const std::string_view begin : kHeaderBegins)
      if (co_await reader_.sees(begin)) co_return true;
    // The role behind a message's end, without <|start|>.
    const bool result = co_await reader_.sees(kRoleAndChannel);
    co_return result;
  }

  // Bytes up to white space or a marker.
  Reading<bool> word(std::string& out) {
    out.clear();
    for (;;) {
      const int byte = co_await reader_.feed.peek();
      if (byte == ByteFeed::kEnd || byte == '<' || is_json_space(static_cast<char>(byte))) co_return true;
      if (out.size() == kMaxWordBytes) co_return false;
      out += static_cast<char>(byte);
      reader_.feed.take(1);
    }
  }

  std::string_view called() const noexcept {
    std::string_view name = recipient_;
    if (name.starts_with(kHarmonyFunctions)) name.remove_prefix(kHarmonyFunctions.size());
    return name;
  }
  bool is_call() const {
    return is_tool_name(called()) &&
           (recipient_.starts_with(kHarmonyFunctions) || reader_.is_tool(recipient_));
  }

  Reading<bool> call() {
    reader_.begin_call(called(), "");
    for (const std::string_view end : kEnds)
      if (co_await reader_.sees(end)) {
        reader_.events.arguments("{}");
        reader_.end_call(true);
        co_return true;
      }
    const bool whole = co_await reader_.arguments(nullptr);
    reader_.end_call(whole);
    if (!whole) co_await reader_.text_until(kBodyEnds);
    co_return whole;
  }

  // False: the answer ended in it.
  Reading<bool> body() {
    if (reader_.or_json && channel_ == kHarmonyAnswer) {
      co_await reader_.text_until({});
      co_return false;
    }
    if (channel_ != kHarmonyReasoning) {
      const bool result = co_await reader_.text_until(kBodyEnds);
      co_return result;
    }
    in_reasoning_ = true;
    if (reasoned_) {
      bool empty = false;
      for (const std::string_view end : kBodyEnds)
        if (co_await reader_.sees(end)) empty = true;
      if (!empty) reader_.events.reasoning("\n");
    }
    reasoned_ = true;
    const bool ended = co_await reader_.reasoning_until(kBodyEnds);
    in_reasoning_ = false;
    co_return ended;
  }

  CallReader& reader_;
  bool& in_reasoning_;
  bool reasoned_ = false;  // a message of analysis has come
  std::string channel_, recipient_;
};

Reading<bool> read_answer(CallReader& reader, bool& in_reasoning) {
  HarmonyAnswer answer(reader, in_reasoning);
  const bool result = co_await answer.read();
  co_return result;
}

}  // namespace

Reading<bool> harmony_answer(CallReader& reader, bool& in_reasoning) {
  return read_answer(reader, in_reasoning);
}

}  // namespace flyball::api::calls
