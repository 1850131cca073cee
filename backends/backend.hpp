// All that the daemon sees of an engine, local or remote: start a completion, receive text-delta events.
// In process it is backends/local/local_backend; across a process line, backends/worker/client.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "backends/answer_form.hpp"
#include "backends/constraint.hpp"
#include "config/error.hpp"
#include "config/packed_json.hpp"
#include "config/request_settings.hpp"

namespace flyball {

using Token = std::int32_t;
using TimePoint = std::chrono::steady_clock::time_point;

// ---- what is asked ----------------------------------------------------------------------------------------

// Messages and tools as the client sent them, checked by the API: rendered by the model's own chat template
// on the engine's side of the line.
struct ChatPrompt {
  PackedJson messages;       // array of {role, content, ...}
  PackedJson tools;          // array, or empty
  PackedJson template_args;  // object of extra template variables, or empty
  bool add_generation_prompt = true;
  // False: what the client sent is text, and control tokens come of the template's own text alone. True: text
  // that spells one, such as <|im_end|> in a message, becomes it.
  bool control_tokens_in_content = false;
};
struct TextPrompt {
  std::string text;
  bool add_special = true;  // BOS and EOS where the model's file says so
};
struct TokenPrompt {
  std::vector<Token> tokens;
};
// A document with a gap, which the answer fills. Both parts are text: no token in them is a control token.
struct InfillPrompt {
  std::string before;
  std::shared_ptr<const std::string> after;  // not null; the prompts of a batch share it
  std::size_t bytes() const noexcept { return before.size() + after->size(); }
};
using Prompt = std::variant<ChatPrompt, TextPrompt, TokenPrompt, InfillPrompt>;

// Ranges are checked by the API against one table (daemon/api) and again by check(): the engine trusts
// nobody.
struct SamplingParams {
  float temperature = 1.0F;         // 0: greedy. [0, 2]
  std::int32_t top_k = 0;           // 0: off
  float top_p = 1.0F;               // (0, 1]
  float min_p = 0.0F;               // [0, 1]
  float typical_p = 1.0F;           // (0, 1]; 1: off
  float repetition_penalty = 1.0F;  // (0, 2]; 1: off
  float frequency_penalty = 0.0F;   // [-2, 2]
  float presence_penalty = 0.0F;    // [-2, 2]
  std::uint64_t seed = 0;  // always set by whoever starts the request: the draw of token i is a function
                           // of (seed, i) alone, so that a resumed stream draws the same tokens
  std::map<Token, float> logit_bias;  // [-100, 100]
  std::int32_t top_logprobs = -1;     // -1: no logprobs; 0: of the chosen token; k <= 20: and the k likeliest
};
Result<void> check(const SamplingParams& params);

// The part of a completion that a request is for. All but an answer ends with the request's preparation: it
// takes no KV and no step.
enum class Wanted : std::uint8_t {
  answer,
  prompt_tokens,  // the prompt's tokens, as Delta::prompt
  prompt_text,    // the text that the tokens of a TokenPrompt spell, control tokens too
  // The KV of the tokens that every prompt beginning with this one shares, whole blocks of them, computed and
  // kept under CompletionRequest::kept. A chat ends with a system message, or with a user message that goes
  // on; a text goes on. Ends with Done, without a delta: Usage::prompt_tokens are those of the prefix.
  kept_prefix,
};
inline constexpr Wanted kLastWanted = Wanted::kept_prefix;
constexpr const char* to_string(Wanted wanted) noexcept {
  return wanted == Wanted::answer          ? "answer"
         : wanted == Wanted::prompt_tokens ? "prompt_tokens"
         : wanted == Wanted::prompt_text   ? "prompt_text"
                                           : "kept_prefix";
}

struct CompletionRequest {
  std::string id;     // unique in the process; appears in logs and receipts
  std::string owner;  // whose prompts may share KV with it, and tell so by their time: the app
  Prompt prompt;
  Wanted wanted = Wanted::answer;
  SamplingParams sampling;
  std::uint32_t max_tokens = 0;  // 0: as many as the context leaves
  // The answer has no token and ends with reason `length`. max_tokens is then the room that is kept for it.
  bool empty_answer = false;
  // The answer begins with its prompt, which is a text or tokens: with the text of the prompt's tokens, and
  // with their log probabilities where top_logprobs asks for those of the answer.
  bool echo = false;
  // Prompt and answer together: the answer ends there with reason `length`, and a prompt that leaves no room
  // for one is refused (token_limit_exceeded) before any of it is computed. 0: no such limit.
  std::uint32_t total_tokens = 0;
  std::vector<std::string> stop;  // at most 16 of at most 256 bytes
  bool ignore_eos = false;
  // The answer's text shows control tokens, and its deltas mark them. No stop string is met across one.
  bool marks_control = false;
  // Every text that is sent begins a word of it, and an answer that ends by `stop`, a stop string apart, is a
  // word.
  // ignore_eos has no effect then: the answer ends where its word does.
  std::optional<Constraint> constraint;
  // Resumption of a stream whose engine died: tokens already generated, and the bytes of text already
  // delivered. Greedy (and seeded) continuations are byte-equal to an uninterrupted run.
  std::vector<Token> resume_tokens;
  std::uint64_t resume_text_bytes = 0;
  std::uint32_t resume_echo = 0;  // tokens of the prompt already delivered; all of them behind a token
  // Wanted::kept_prefix: the prefix's name among those of its owner. It replaces the one of that name.
  std::string kept = {};
  // Wanted::kept_prefix: tokens that all kept prefixes of the owner may have together; 0: no limit.
  std::uint64_t kept_limit = 0;
  // How the engine computes it beside others; an upstream ignores them.
  config::RequestSettings settings = {};
};

// ---- what comes back --------------------------------------------------------------------------------------

struct TokenLogprob {
  Token token = 0;
  std::string bytes;  // the token's bytes; not always valid UTF-8 by themselves
  float logprob = 0.0F;
  std::vector<std::pair<std::string, float>> top;  // bytes, logprob; likeliest first
  bool in_text = true;  // false: a control token, which the answer's text leaves out
  bool known = true;    // false: an echoed prompt's first token, which has no logprob
};

// A part of a delta's text, in bytes.
struct ControlSpan {
  std::uint32_t begin = 0, end = 0;
  bool operator==(const ControlSpan&) const = default;
};

// Newly generated tokens and the text they released. Text is whole UTF-8 sequences only, and may be empty
// while a sequence or a possible stop string is incomplete. Upstreams leave tokens empty.
struct Delta {
  std::string text;
  std::vector<Token> tokens;
  std::vector<TokenLogprob> logprobs;
  std::uint32_t prompt_tokens = 0;  // with the first token an engine computes, as in Usage; 0 in other events
  std::uint32_t cached_tokens = 0;
  // The parts of `text` that are the spellings of control tokens, in order, apart, none empty. Empty unless
  // the request marks them.
  std::vector<ControlSpan> control = {};
  // With an engine's first delta of a request that marks control tokens; nullopt in others, and of upstreams.
  std::optional<AnswerForm> form = {};
  std::vector<Token> prompt = {};  // where Wanted::prompt_tokens are asked for: all of them
  // The prompt's next tokens, where it is echoed: `text` is theirs, and `logprobs` have one for each or none.
  // Such a delta has no token of the answer. It comes before all that have.
  std::uint32_t echoed = 0;
};

enum class FinishReason : std::uint8_t { stop, length, tool_calls, cancelled };
const char* to_string(FinishReason reason) noexcept;

struct Usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::uint32_t cached_tokens = 0;  // prompt tokens whose KV was reused
};

struct Timings {                 // microseconds on the engine's monotonic clock
  std::uint64_t queue_us = 0;    // arrival to first prefill step
  std::uint64_t prefill_us = 0;  // first prefill step to first token (TTFT = queue + prefill)
  std::uint64_t decode_us = 0;   // first token to last
  std::uint64_t compile_us = 0;  // of the constraint; of one that was compiled before, next to nothing
  std::uint64_t mask_us = 0;     // of all its tokens' masks, beside the device's work
};

struct Done {
  FinishReason reason = FinishReason::stop;
  Usage usage;
  Timings timings;
  std::string stop_text;  // the stop string that ended it, "" otherwise
  // The kept prefix that the prompt begins with, and how many of the cached tokens are its; "": none.
  std::string kept = {};
  std::uint32_t kept_tokens = 0;
};

using Event = std::variant<Delta, Done, Error>;  // exactly one Done or Error, last

// Called on the backend's own thread; must not block. Never called after the Ticket is destroyed and the
// destructor has returned.
struct EventSink {
  virtual ~EventSink() = default;
  // false: the client is behind; the backend takes the event but pauses the sequence until Ticket::resume().
  virtual bool push(Event event) noexcept = 0;
};

// A running request. Destruction cancels it (within one step) and frees its KV.
class Ticket {
 public:
  struct Impl {
    virtual ~Impl() = default;  // cancels
    virtual void resume() noexcept = 0;
  };
  Ticket() = default;
  explicit Ticket(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
  explicit operator bool() const noexcept { return impl_ != nullptr; }
  void resume() noexcept {
    if (impl_) impl_->resume();
  }
  void cancel() noexcept { impl_.reset(); }

 private:
  std::unique_ptr<Impl> impl_;
};

// ---- the engine -------------------------------------------------------------------------------------------

inline constexpr std::size_t kMaxDevices = 16;  // of one engine
// What one of an engine's devices holds of the model.
struct DeviceShare {
  std::string device;  // its id, as probed
  std::uint32_t first_layer = 0, n_layers = 0;
  std::uint64_t weight_bytes = 0, kv_bytes = 0, scratch_bytes = 0;
  std::string weights = {};  // where they lie, in words; "": the engine has one way
  std::uint64_t total_bytes() const noexcept { return weight_bytes + kv_bytes + scratch_bytes; }
};
// "NVIDIA H200#1 (NVIDIA CUDA): layers 13 to 24, 6120 MiB, weights copied to shared memory"
inline std::string to_string(const DeviceShare& share) {
  return share.device + ": layers " + std::to_string(share.first_layer + 1) + " to " +
         std::to_string(share.first_layer + share.n_layers) + ", " +
         std::to_string(share.total_bytes() >> 20) + " MiB" +
         (share.weights.empty() ? "" : ", weights " + share.weights);
}

struct BackendInfo {         // fixed once ready
  std::string backend;       // an engine kind
  std::string model;         // the id in config.yaml
  std::string architecture;  // as in model::ModelConfig
  std::string model_name;    // general.name of the file
  std::string quantization;  // "Q8_0", by most bytes
  std::uint64_t parameters = 0;
  bool mixture_of_experts = false;
  std::uint32_t context_length = 0;  // tokens one sequence may hold here (prompt and completion)
  std::uint32_t vocab_size = 0;
  std::uint32_t max_sequences = 0;
  std::uint64_t weight_bytes = 0, kv_bytes = 0, scratch_bytes = 0;
  std::string kv_type;                   // what the KV cache is kept as: "f16", "q8_0"
  std::string digest;                    // of the file that was loaded (model::digest_of)
  std::uint64_t token_weight_bytes = 0;  // that one token reads
  std::uint64_t kv_token_bytes = 0;      // of one token's KV as f16; 0: not known, as of one that is ready
  bool has_chat_template = false;
  std::optional<bool> tool_template;  // the file's chat template has a place for tools; nullopt: not known
  std::optional<bool> infills;        // the file's vocabulary has infill tokens; nullopt: not known
  AnswerForm form = {};               // as the file's chat template tells; the default where it has none
  std::vector<DeviceShare> devices;   // in order of layers; empty: the machine's own processors
  std::optional<bool> memory_locked = {};  // weights and KV (mlock); nullopt: nobody asked for it
};
// KV of one sequence of so many tokens, kept as `kv_type`. 0: not known.
inline std::uint64_t kv_bytes_of(const BackendInfo& info, std::string_view kv_type,
                                 std::uint64_t tokens) noexcept {
  const std::uint64_t bytes = info.kv_token_bytes * tokens;
  return kv_type == "q8_0" ? bytes / 64 * 34 : bytes;  // 32 values: 34 bytes, and 64 as f16
}

struct BackendLoad {  // a snapshot, cheap to take
  std::uint32_t waiting = 0, running = 0;
  std::uint32_t kv_blocks_total = 0, kv_blocks_used = 0;
  std::uint64_t steps = 0;  // scheduler steps so far: progress, for the watchdog
  std::uint64_t prompt_tokens = 0, completion_tokens = 0;
  std::uint64_t cached_tokens = 0;    // of the prompt tokens, those whose KV was there
  std::uint64_t preemptions = 0;      // of a sequence whose KV another one needed: computed again
  std::uint64_t restored_tokens = 0;  // positions with KV from the disk; most are cached tokens, too
  std::uint64_t spilled_bytes = 0;    // of KV, to the disk
  bool spills = false;                // false also once the disk has failed
};

// A kept prefix in one engine. Tokens are those of whole blocks.
struct KeptPrefixState {
  std::string owner, name;
  std::uint32_t tokens = 0;
  std::uint32_t tokens_in_memory = 0, tokens_on_disk = 0;  // of them; some are in both places
  std::uint32_t tokens_there =
      0;  // leading ones, each in memory or on the disk: a prompt computes none of them
  std::uint64_t uses = 0;          // requests that began with it
  std::uint64_t saved_tokens = 0;  // that those requests did not compute, since they are its

  bool operator==(const KeptPrefixState&) const = default;
};

struct Backend {
  virtual ~Backend() = default;
  virtual const BackendInfo& info() const = 0;
  virtual BackendLoad load() const noexcept = 0;
  // Never blocks: queues, or refuses (overloaded, invalid_value, shutting_down). Failures found later
  // (template, context length) arrive as an Error event.
  virtual Result<Ticket> start(CompletionRequest request, std::shared_ptr<EventSink> sink) = 0;
  // The prefixes that Wanted::kept_prefix named and nobody dropped, by owner and name. At most a heartbeat
  // old.
  virtual std::vector<KeptPrefixState> kept_prefixes() const { return {}; }
  // Frees the blocks of a kept prefix that no request uses. One that is unknown is fine.
  virtual void drop_kept_prefix(const std::string& /*owner*/, const std::string& /*name*/) {}
  // While it is held the engine computes nothing: its requests wait, with what was computed of them. A step
  // in flight is given up within a layer or two, or ends where the device cannot stop.
  virtual void hold(bool /*held*/) {}
  // Finish what runs, refuse what is new; cancel what is left at the deadline.
  virtual void drain(TimePoint deadline) = 0;
};

}  // namespace flyball
