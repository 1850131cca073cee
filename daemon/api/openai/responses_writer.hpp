// Events to the JSON of OpenAI's Responses API: the events of a stream, or one response. Pure.
//
// A response is a list of items: reasoning, a message, calls. In a stream an item begins with the first piece
// of it, so that there is none for a text that is empty, and ends where another one begins. A whole response
// has its reasoning first, then its message, then its calls. A stream ends with the whole response, so the
// writer keeps what it has sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/api/openai/responses_echo.hpp"
#include "daemon/api/openai/responses_namespaces.hpp"
#include "daemon/api/operation.hpp"

namespace flyball::api::openai::responses {

struct Shape {             // what the client wants in its answer
  bool logprobs = false;   // of the message's text
  bool summaries = false;  // reasoning stands in `summary`, where clients of OpenAI's models look for it
  bool encrypted = false;  // reasoning has its text once more as `encrypted_content`, too
  bool streamed = false;
};

struct Words;  // the API's, for a text

class Writer final : public AnswerWriter {
 public:
  Writer(Shape shape, Echo echo, Namespaces namespaces = {})
      : shape_(shape), echo_(std::move(echo)), namespaces_(std::move(namespaces)) {}

  void begin(const AnswerHead& head) override;
  // A request asks for one choice. The first two events leave out Echo::texts() that are not short.
  void write(std::size_t choice, std::span<const AnswerEvent> events, Frames& out) override;
  bool whole(std::span<Choice> choices, const Totals& totals, std::string& out) override;
  // The answer's text, and the copies of it in the last events, none of which the client may have read. Both
  // are bounded by the model's context and by the app's share.
  std::size_t bytes(std::span<const AnswerEvent> events) const override;
  Remedy remedy() const noexcept override {
    return {"max_output_tokens",
            "Ask for fewer tokens or top_logprobs, or send shorter 'instructions' and 'tools'."};
  }

 private:
  struct Item {
    enum class Kind : std::uint8_t { reasoning, message, call };
    enum class State : std::uint8_t { begun, completed, incomplete };
    Kind kind = Kind::message;
    State state = State::begun;
    std::string id, call_id = {}, name_space = {}, name = {};
    std::string text = {};      // of a call: its arguments
    std::string logprobs = {};  // of a message's text, as JSON with commas between them
  };
  // JSON text, then the inside of a JSON string, which is not escaped yet, then JSON text of the item or the
  // echo.
  struct Segment {
    std::string json;
    std::string_view text = {}, more_json = {};
    bool has_logprobs = false;  // a whole answer's are behind the three
  };

  Item new_item(Item::Kind kind, std::size_t index) const;
  Item new_call(std::string_view id, std::string_view name, std::size_t index) const;
  // The item as JSON. Views into it.
  void append_segments(const Item& item, std::string_view text, std::vector<Segment>& out) const;
  void append_item(std::string& out, const Item& item) const;
  // The response up to the items of its output. is_cut: by its length.
  std::string head_json(std::string_view status, bool is_cut, const Error* error) const;
  // The bytes that an event adds to what bytes() counts, but for logprobs, which are counted when their text
  // comes.
  std::size_t cost(const AnswerEvent& event) const;

  std::string& open_event(std::string_view name, Frames& out);
  std::string& open_item_event(std::string_view name, Frames& out);  // of the last item, as all below
  std::string& open_part_event(std::string_view name, Frames& out);
  void part_event(std::string_view happened, std::string_view text, std::string_view logprobs, Frames& out);
  void item_event(std::string_view happened, Frames& out);
  void last_event(std::string_view status, const Totals* totals, const Error* error, Frames& out);
  const Words& words() const noexcept;

  void start(Frames& out);
  void start_item(Item item, Frames& out);
  void add_text(Item::Kind kind, std::string_view piece, Frames& out);
  void add_logprobs(std::span<const TokenLogprob> tokens);
  void delta(std::string_view piece, Frames& out);
  void end_item(Item::State state, Frames& out);
  void fail(const Error& error, Frames& out);

  void lay_out(const Choice& choice, const Totals& totals);
  bool whole_part(const Choice& choice, std::string& out);

  const Shape shape_;
  const Echo echo_;
  const Namespaces namespaces_;
  const std::size_t namespaces_bytes_ = namespaces_.bytes();
  std::string id_;  // the hexadecimal digits of the request's
  std::string model_;
  std::int64_t created_ = 0;
  bool started_ = false, open_ = false;  // open_: the last item
  std::uint64_t sequence_ = 0;           // of the next event
  std::vector<Item> items_;
  std::size_t held_ = 0;  // bytes(), but for the echo and the next line
  std::string logprobs_;  // of tokens whose text has not come yet
  FinishReason reason_ = FinishReason::stop;
  LogprobView token_;  // the one being written

  struct Whole {  // the document of whole(), and how far it has come
    std::vector<Segment> segments = {};
    std::size_t segment = 0, json = 0, text = 0, more_json = 0;  // bytes written of the segment's parts
    std::size_t tokens = 0;                                      // read at the cursor
    PackedLogprobs::Cursor token = {};
    bool any_token = false;
  };
  Whole whole_;
};

}  // namespace flyball::api::openai::responses
