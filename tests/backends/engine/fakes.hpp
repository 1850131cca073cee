// A device whose model is a function of the tokens it finds in its KV blocks, a tokenizer of bytes, and a
// client.
#pragma once

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "backends/engine/engine_backend.hpp"
#include "kernels/reference/top_k.hpp"

namespace flyball::test {

inline constexpr Token kEos = 256, kBos = 257;
inline constexpr Token kArrow = 258, kSpaced = 259;  // three bytes in one token; " no"
inline constexpr std::uint32_t kVocab = 260;

// Tokens 0 to 255 are bytes.
class ByteTokenizer final : public text::Tokenizer {
 public:
  // on_encode: told of each text before it is encoded.
  // tells_first: a byte is a token of its own, if another one is known to follow it, or nothing.
  // infill: tokens that no text becomes.
  explicit ByteTokenizer(bool adds_bos = false, std::function<void(std::string_view)> on_encode = {},
                         bool tells_first = false, std::string bos = "<bos>",
                         std::optional<text::InfillTokens> infill = {})
      : adds_bos_(adds_bos),
        on_encode_(std::move(on_encode)),
        tells_first_(tells_first),
        bos_piece_(std::move(bos)) {
    vocab_size_ = kVocab;
    kinds_.assign(kVocab, text::TokenKind::normal);
    kinds_[kEos] = kinds_[kBos] = text::TokenKind::control;
    bos_ = kBos;
    eos_ = kEos;
    infill_ = infill;
    end_of_generation_ = {kEos};
    bound_.covers(bos_piece_);
    for (int i = 0; i < 256; ++i) bytes_.emplace_back(1, static_cast<char>(i));
    bytes_.insert(bytes_.end(), {"", "", "\xE2\x86\x92", " no"});
  }
  std::optional<std::vector<Token>> encode_within(std::string_view text, EncodeOptions options,
                                                  std::size_t most) const override {
    if (on_encode_) on_encode_(text);
    std::vector<Token> tokens;
    if (adds_bos_ && options.add_special) tokens.push_back(kBos);
    const auto recognised = [&](std::size_t at) {
      if (!options.parse_special || !text.substr(at).starts_with(bos_piece_)) return false;
      return options.control_in == nullptr ||
             std::ranges::any_of(*options.control_in, [&](const text::TextSpan& span) {
               return span.begin <= at && at + bos_piece_.size() <= span.end;
             });
    };
    for (std::size_t i = 0; i < text.size() && tokens.size() <= most; ++i) {
      if (recognised(i)) {
        tokens.push_back(kBos);
        i += bos_piece_.size() - 1;
      } else {
        tokens.push_back(static_cast<unsigned char>(text[i]));
      }
    }
    if (tokens.size() > most) return std::nullopt;
    return tokens;
  }
  std::unique_ptr<FirstToken> first_token() const override {
    struct FirstByte final : FirstToken {
      std::optional<Token> of(std::string_view text, bool whole) override {
        if (text.size() < (whole ? 1 : 2)) return std::nullopt;
        return static_cast<unsigned char>(text.front());
      }
    };
    return tells_first_ ? std::make_unique<FirstByte>() : nullptr;
  }
  std::string_view normal_bytes(Token t) const noexcept override {
    return bytes_[static_cast<std::size_t>(t)];
  }
  bool strips_leading_space() const noexcept override { return false; }
  std::string_view piece(Token t) const noexcept override {
    return t == kBos ? std::string_view(bos_piece_) : t == kEos ? "<eos>" : normal_bytes(t);
  }

 private:
  bool adds_bos_;
  std::function<void(std::string_view)> on_encode_;
  bool tells_first_;
  std::string bos_piece_;
  std::vector<std::string> bytes_;
};

// The likeliest token after these.
using FakeModel = std::function<Token(std::span<const Token>)>;

// Depends on every token before: a wrong block, position or missing recompute changes it.
inline Token hash_model(std::span<const Token> history) {
  std::uint64_t h = 1469598103934665603ULL;
  for (const Token t : history) h = (h ^ static_cast<std::uint64_t>(t + 1)) * 1099511628211ULL;
  return static_cast<Token>('a' + (h >> 33) % 26);
}

// Its row of logits behind these.
inline std::vector<float> fake_row(const FakeModel& model, std::span<const Token> history) {
  const Token next = model(history);
  std::uint64_t noise = static_cast<std::uint64_t>(next) + history.size();
  std::vector<float> row;
  for (Token t = 0; t < static_cast<Token>(kVocab); ++t) {
    noise = noise * 6364136223846793005ULL + 1442695040888963407ULL;
    const float value = static_cast<float>(noise >> 40) * 0x1p-24F;  // [0, 1)
    row.push_back(t == next ? 9.0F : value);
  }
  return row;
}

struct FakeControl {
  FakeModel model = hash_model;
  std::uint32_t block_size = 4;
  std::mutex mutex;
  std::condition_variable changed;
  // guarded by mutex
  std::uint64_t steps_allowed = UINT64_MAX;  // submit waits for its turn
  std::uint64_t submits = 0, waits = 0;
  std::uint64_t fail_submit_at = 0, fail_wait_at = 0, throw_at = 0;  // 1: the first
  ErrorCode failure = ErrorCode::internal;
  Token poisoned = -1;  // rows whose sequence begins with this token become NaN
  std::size_t most_rows = 0;
  std::uint32_t max_candidates = 0;              // set before the engine is made
  std::uint64_t whole_rows = 0, candidates = 0;  // handed over so far
  std::uint64_t tokens = 0;                      // computed so far
  bool stops = false;                            // a step that may be given up is; it waits for that
  std::uint64_t stopped = 0, stoppable = 0;

  void allow(std::uint64_t steps) {
    {
      const std::lock_guard lock(mutex);
      steps_allowed = steps;
    }
    changed.notify_all();
  }
};

class FakeExecutor final : public device::Executor {
 public:
  FakeExecutor(std::shared_ptr<FakeControl> control, std::uint32_t blocks, std::uint32_t max_step_tokens)
      : control_(std::move(control)),
        kv_(blocks * control_->block_size, -1),
        max_step_tokens_(max_step_tokens) {}

  graph::MemoryPlan memory() const override { return {}; }
  Result<void> reserve_kv(const graph::KvLayout&, std::uint32_t) override { return {}; }
  std::uint32_t max_step_tokens() const override { return max_step_tokens_; }
  std::uint32_t max_candidates() const override { return control_->max_candidates; }
  bool can_stop() const noexcept override { return true; }

  std::uint64_t block_bytes() const override { return sizeof(Token) * control_->block_size; }
  Result<void> read_blocks(std::span<const device::BlockRead> blocks) override {
    for (const auto& read : blocks) std::memcpy(read.to.data(), block(read.block), block_bytes());
    return {};
  }
  Result<void> write_blocks(std::span<const device::BlockWrite> blocks) override {
    for (const auto& write : blocks) std::memcpy(block(write.block), write.from.data(), block_bytes());
    return {};
  }

  Result<device::StepId> submit(const device::StepBatch& batch,
                                std::span<const device::BlockCopy> copies) override {
    std::unique_lock lock(control_->mutex);
    ++control_->submits;
    control_->changed.notify_all();
    control_->changed.wait(lock, [this] { return control_->submits <= control_->steps_allowed; });
    if (control_->submits == control_->throw_at) throw std::runtime_error("driver");
    if (control_->submits == control_->fail_submit_at) return fail(control_->failure, "injected at submit");
    logits_.clear();
    chosen_.clear();
    candidates_.clear();
    chosen_.reserve(batch.sequences.size() * control_->max_candidates);
    for (const device::BlockCopy& copy : copies)
      std::copy_n(kv_.begin() + copy.from * control_->block_size, control_->block_size,
                  kv_.begin() + copy.to * control_->block_size);
    if (batch.stop != nullptr && control_->stops) {
      ++control_->stoppable;
      control_->changed.notify_all();
      lock.unlock();
      while (!batch.stop->load()) std::this_thread::yield();
      lock.lock();
      ++control_->stopped;
      control_->changed.notify_all();
      for (const auto& s : batch.sequences)  // what it wrote is void
        for (std::uint32_t i = 0; i < s.n_tokens; ++i) slot(s, s.first_position + i) = -7;
      return fail(ErrorCode::cancelled, "Stopped.");
    }
    control_->tokens += batch.tokens.size();
    control_->most_rows = std::max(control_->most_rows, batch.sequences.size());
    for (const auto& s : batch.sequences) {
      for (std::uint32_t i = 0; i < s.n_tokens; ++i)
        slot(s, s.first_position + i) = batch.tokens[s.first_token + i];
      const std::uint32_t end = s.first_position + s.n_tokens;
      for (std::uint32_t behind = s.n_wanted; behind > 0; --behind) give_row(batch, s, end + 1 - behind);
    }
    return ++step_;
  }

  Result<device::StepOutput> wait(device::StepId) override {
    const std::lock_guard lock(control_->mutex);
    if (++control_->waits == control_->fail_wait_at) return fail(control_->failure, "injected at wait");
    return device::StepOutput{logits_, candidates_};
  }

 private:
  Token* block(device::BlockId id) { return kv_.data() + std::size_t{id} * control_->block_size; }
  Token& slot(const device::StepSequence& s, std::uint32_t position) {
    return kv_.at(s.block_table[position / control_->block_size] * control_->block_size +
                  position % control_->block_size);
  }

  // The row of logits behind the sequence's first `n` tokens.
  void give_row(const device::StepBatch& batch, const device::StepSequence& s, std::uint32_t n) {
    std::vector<Token> history;
    for (std::uint32_t p = 0; p < n; ++p) history.push_back(slot(s, p));
    const auto row = fake_row(control_->model, history);
    if (history[0] == control_->poisoned)
      logits_.insert(logits_.end(), kVocab, NAN);
    else
      logits_.insert(logits_.end(), row.begin(), row.end());
    if (s.n_candidates > 0) {
      cut(s.n_candidates, batch.candidates_of);
    } else {
      ++control_->whole_rows;
    }
  }

  // The last row becomes its candidates.
  void cut(std::uint32_t n, std::uint32_t of) {
    const std::vector<float> row(logits_.end() - kVocab, logits_.end());
    logits_.resize(logits_.size() - kVocab);
    const bool finite = std::isfinite(row[0]);
    const std::size_t begin = chosen_.size();
    std::vector<std::uint32_t> ids(n);
    const double sum = finite ? kernels::reference::top_k(row.data(), of, n, ids.data()) : 0;
    for (const std::uint32_t id : ids) chosen_.push_back({static_cast<Token>(id), row[id]});
    candidates_.push_back({std::span(chosen_).subspan(begin), static_cast<float>(sum), finite});
    control_->candidates += n;
  }

  std::shared_ptr<FakeControl> control_;
  std::vector<Token> kv_;  // one token a position
  std::vector<float> logits_;
  std::vector<decode::Likely> chosen_;
  std::vector<decode::Candidates> candidates_;
  std::uint32_t max_step_tokens_;
  device::StepId step_ = 0;
};

// Collects what arrives; says that it is behind once it holds `room` events.
class Client final : public EventSink {
 public:
  bool push(Event event) noexcept override {
    std::function<void()> hook;
    bool ok = true;
    {
      const std::lock_guard lock(mutex_);
      if (const auto* delta = std::get_if<Delta>(&event)) {
        text_ += delta->text;
        deltas_.push_back(*delta);
        tokens_.insert(tokens_.end(), delta->tokens.begin(), delta->tokens.end());
      } else {
        ++ends_;
        if (const auto* done = std::get_if<Done>(&event)) done_ = *done;
        if (const auto* error = std::get_if<Error>(&event)) error_ = *error;
      }
      ok = deltas_.size() < room_;
      hook = on_push;
    }
    changed_.notify_all();
    if (hook) hook();
    return ok;
  }

  bool wait_end(std::chrono::seconds limit = std::chrono::seconds(20)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return ends_ > 0; });
  }
  bool wait_deltas(std::size_t n) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20),
                             [&] { return deltas_.size() >= n || ends_ > 0; });
  }
  void set_room(std::size_t n) {
    const std::lock_guard lock(mutex_);
    room_ = n;
  }
  std::string text() const { return locked(text_); }
  std::vector<Token> tokens() const { return locked(tokens_); }
  std::vector<Delta> deltas() const { return locked(deltas_); }
  std::optional<Done> done() const { return locked(done_); }
  std::optional<Error> error() const { return locked(error_); }
  int ends() const { return locked(ends_); }

  std::function<void()> on_push;  // set before start

 private:
  template <class T>
  T locked(const T& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  std::vector<Token> tokens_;
  std::vector<Delta> deltas_;
  std::optional<Done> done_;
  std::optional<Error> error_;
  int ends_ = 0;
  std::size_t room_ = SIZE_MAX;
};

struct FakeEngine {
  std::shared_ptr<FakeControl> control = std::make_shared<FakeControl>();
  std::unique_ptr<Backend> backend;
};

struct FakeShape {
  std::uint32_t blocks = 64, sequences = 4, step_tokens = 16, context = 200, queue = 16;
  std::uint32_t max_candidates = 0, vocab = kVocab;  // vocab: tokens that may be sampled
  bool adds_bos = false, tells_first = false;        // of its tokenizer
  engine::StepObserver observer = {};
  std::filesystem::path spill = {};  // where KV goes; "": nowhere
  std::chrono::milliseconds spill_after = std::chrono::hours(1);
  std::string chat_template = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}";
  std::function<void(std::string_view)> on_encode = {};
  std::string bos = "<bos>";  // its spelling
  std::optional<text::InfillTokens> infill = {};
  bool yields = false;
};

inline FakeEngine make_fake(FakeShape shape = {}) {
  FakeEngine fake;
  fake.control->max_candidates = shape.max_candidates;
  engine::EngineParts parts;
  parts.info.backend = "fake";
  parts.limits.kv_blocks = shape.blocks;
  parts.limits.block_size = fake.control->block_size;
  parts.limits.max_sequences = shape.sequences;
  parts.limits.step_tokens = shape.step_tokens;
  parts.limits.max_waiting = shape.queue;
  parts.executor = std::make_unique<FakeExecutor>(fake.control, shape.blocks, shape.step_tokens);
  parts.logits_per_row = kVocab;
  parts.text =
      engine::make_text_model(std::make_unique<ByteTokenizer>(shape.adds_bos, std::move(shape.on_encode),
                                                              shape.tells_first, shape.bos, shape.infill),
                              text::ChatTemplate::parse(shape.chat_template), shape.vocab, shape.context);
  parts.observer = std::move(shape.observer);
  parts.yields = shape.yields;
  if (!shape.spill.empty()) {
    const std::uint64_t bytes = parts.executor->block_bytes();
    parts.limits.keyed = kv::Keyed{kv::space_key("fake"), 1};
    parts.spill = std::make_unique<spill::KvSpill>(
        spill::SpillStore::open({shape.spill, 1 << 20, {}}, parts.limits.keyed->space, bytes).value(), bytes);
    parts.spill_after = shape.spill_after;
  }
  fake.backend = engine::make_engine_backend(std::move(parts));
  return fake;
}

inline CompletionRequest text_request(std::string prompt, std::uint32_t max_tokens) {
  CompletionRequest request;
  request.prompt = TextPrompt{std::move(prompt)};
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

// What hash_model (or another) says, without any engine.
inline std::string expected_text(const std::string& prompt, std::size_t n,
                                 const FakeModel& model = hash_model) {
  std::vector<Token> history;
  for (const char c : prompt) history.push_back(static_cast<unsigned char>(c));
  std::string text;
  for (std::size_t i = 0; i < n; ++i) {
    history.push_back(model(history));
    text += static_cast<char>(history.back());
  }
  return text;
}

// Says `script` after a prompt of `prompt_tokens`, then ends.
inline FakeModel script_model(std::size_t prompt_tokens, std::vector<Token> script) {
  return [prompt_tokens, script = std::move(script)](std::span<const Token> history) {
    const std::size_t at = history.size() - prompt_tokens;
    return at < script.size() ? script[at] : kEos;
  };
}
inline std::vector<Token> byte_tokens(std::string_view text) {
  std::vector<Token> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

}  // namespace flyball::test
