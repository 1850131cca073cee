#include "daemon/api/calls/parser.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/call_markers.hpp"
#include "daemon/api/calls/harmony.hpp"
#include "daemon/api/calls/notations.hpp"

namespace flyball::api::calls {
namespace {

class Parser final : public TextParser {
 public:
  Parser(std::shared_ptr<const ToolSet> tools, const AnswerForm& form, std::string_view ids, bool or_json)
      : form_(form),
        row_(row_of(form.calls)),
        reader_(std::move(tools), ids, or_json),
        reasoning_(form.in_reasoning) {
    find_triggers();
    answer_.start();
  }

  void begin_batch() override { reader_.events.begin(); }
  void parse(std::string_view text, bool control, AnswerEvents& out) override {
    if (control && !is_marker(text)) return;
    reader_.feed.add(text);
    answer_.check();
    reader_.events.move_to(out);
  }
  void end(AnswerEvents& out) override {
    reader_.feed.end();
    answer_.check();
    reader_.events.move_to(out);
  }
  bool in_reasoning() const noexcept override { return reasoning_; }

 private:
  using ReadCalls = Reading<bool> (*)(CallReader&, const FormatRow&, const Section&);
  // The beginning of a section, or a silent string.
  struct Trigger {
    std::string_view text;
    const Section* section = nullptr;  // null: a silent string
  };

  bool is_marker(std::string_view text) const noexcept {
    const auto has = [&](std::span<const std::string_view> markers) {
      return std::ranges::find(markers, text) != markers.end();
    };
    return has(markers_of(form_.calls)) || has(markers_of(form_.reasoning));
  }

  void find_triggers() {
    for (const Silent& silent : row_.silent)
      if (silent.place == Place::anywhere) triggers_.push_back({silent.text});
    if (reader_.tools)
      for (const Section& section : row_.sections)
        if (section.place == Place::anywhere)
          triggers_.push_back({section.open.empty() ? row_.call_open : section.open, &section});
    for (const Trigger& trigger : triggers_) begins_[static_cast<unsigned char>(trigger.text[0])] = true;
  }

  Reading<bool> answer() {
    if (row_.notation == Notation::harmony) {
      const bool result = co_await harmony_answer(reader_, reasoning_);
      co_return result;
    }
    if (co_await reasoning()) co_await reader_.next_solid();
    co_await start();
    if (reader_.or_json) {
      if (!co_await begins_with_calls()) {
        co_await reader_.text_until({});
        co_return true;
      }
    }
    for (;;) {
      if (co_await section_on_line()) continue;
      const int byte = co_await reader_.feed.peek();
      if (byte == ByteFeed::kEnd) break;
      if (begins_[static_cast<unsigned char>(byte)]) {
        if (co_await trigger()) continue;
      }
      plain();
    }
    if (!after_call_) reader_.text(std::exchange(reader_.space, {}));
    co_return true;
  }

  // Behind start(). False: the answer is JSON, whatever markers it has in it. Where text was shown, that is
  // the JSON's beginning, and white space behind it belongs to the JSON.
  Reading<bool> begins_with_calls() {
    if (!has_calls_or_text()) co_await section_on_line();
    if (!has_calls_or_text()) {
      const int byte = co_await reader_.next_solid();
      if (byte != ByteFeed::kEnd && begins_[static_cast<unsigned char>(byte)]) co_await trigger();
    }
    co_return reader_.events.calls() > 0;
  }

  bool has_calls_or_text() const noexcept { return reader_.events.calls() > 0 || showed_text_; }

  // Reads text that begins no trigger: at least a byte.
  void plain() {
    const std::string_view bytes = reader_.feed.here();
    std::size_t n = 0;
    if (is_json_space(bytes[0]) && reader_.tools) {
      reader_.space += bytes[0];
      n = 1;
    } else {
      do ++n;
      while (n < bytes.size() && !is_json_space(bytes[n]) && !begins_[static_cast<unsigned char>(bytes[n])]);
      reader_.text(bytes.substr(0, n));
      after_call_ = false;
    }
    line_start_ = bytes[n - 1] == '\n';
    reader_.feed.take(n);
  }

  // A silent string or calls at the beginning of the answer. False: something else begins.
  Reading<bool> start() {
    for (const Silent& silent : row_.silent) {
      if (silent.place != Place::start) continue;
      if (co_await reader_.comes(silent.text)) co_return true;
    }
    if (!reader_.tools) co_return false;
    for (const Section& section : row_.sections) {
      if (section.place != Place::start) continue;
      // Calls beside JSON have the marker of their format, if it has one.
      if (reader_.or_json && !row_.sections[0].open.empty()) continue;
      if (!co_await begins(section)) continue;
      if (co_await calls(section)) co_return true;
    }
    co_return false;
  }

  Reading<bool> begins(const Section& section) {
    if (!section.open.empty()) {
      const bool result = co_await reader_.sees(section.open);
      co_return result;
    }
    if (row_.notation != Notation::json) co_return true;
    if (co_await reader_.sees("{")) co_return true;
    const bool result = co_await reader_.sees("[");
    co_return result;
  }

  // Calls that begin a line without a marker. False: none does.
  Reading<bool> section_on_line() {
    if (!line_start_ || !reader_.tools) co_return false;
    line_start_ = false;
    for (const Section& section : row_.sections) {
      if (section.place != Place::line_start) continue;
      if (co_await calls(section)) co_return true;
    }
    co_return false;
  }

  // False: none begins here.
  Reading<bool> trigger() {
    for (const Trigger& each : triggers_) {
      if (each.section == nullptr) {
        if (!co_await reader_.literal(each.text)) continue;
        line_start_ = true;
        co_return true;
      }
      if (co_await reader_.sees(each.text)) {
        const bool result = co_await calls(*each.section);
        co_return result;
      }
    }
    co_return false;
  }

  // True: it has read calls, or text that is none.
  Reading<bool> calls(const Section& section) {
    static constexpr std::array<ReadCalls, 3> kReaders{json_calls, named_calls, xml_calls};
    reader_.feed.keep();
    const std::uint32_t before = reader_.events.calls();
    const ReadCalls read =
        row_.either_notation ? calls_of_either_notation : kReaders[static_cast<std::size_t>(row_.notation)];
    co_await read(reader_, row_, section);
    const bool any = reader_.events.calls() != before;
    const std::string rest(reader_.feed.kept());
    reader_.feed.forget();
    if (any) after_call_ = line_start_ = true;
    if (rest.empty()) co_return any;
    reader_.text(rest);
    showed_text_ = true;
    after_call_ = false;
    line_start_ = rest.ends_with('\n');
    co_return true;
  }

  // Reasoning at the beginning of the answer. False: there was none.
  Reading<bool> reasoning() {
    const auto markers = markers_of(form_.reasoning);
    const std::string_view open = markers.empty() ? row_.reasoning_open : markers[0];
    const std::string_view close = markers.empty() ? row_.reasoning_close : markers[1];
    if (open.empty()) {
      reasoning_ = false;
      co_return false;
    }
    if (!co_await reader_.comes(open)) {
      if (!form_.in_reasoning) co_return false;
    }
    reasoning_ = true;
    co_await reader_.next_solid();
    co_await reader_.reasoning_until(std::span(&close, 1));
    co_await reader_.literal(close);
    reasoning_ = false;
    co_return true;
  }

  const AnswerForm form_;
  const FormatRow& row_;
  CallReader reader_;
  bool reasoning_;
  std::vector<Trigger> triggers_;
  std::array<bool, 256> begins_{};
  bool line_start_ = true;
  bool showed_text_ = false;  // calls() has: it was no call, or one that broke
  bool after_call_ = false;   // nothing but white space has come behind a call
  Reading<bool> answer_ = answer();
};

}  // namespace

std::unique_ptr<TextParser> make_parser(std::shared_ptr<const ToolSet> tools, const AnswerForm& form,
                                        std::string_view ids, bool or_json) {
  return std::make_unique<Parser>(std::move(tools), form, ids, or_json);
}

}  // namespace flyball::api::calls
