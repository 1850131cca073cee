#include "backends/worker/codec.hpp"

#include <algorithm>
#include <cmath>

#include "backends/worker/wire.hpp"

namespace flyball::worker {
namespace {

// What a well-behaved peer may send at most; a frame's size already bounds the total.
constexpr std::size_t kMaxName = 4096;  // ids, names, error texts
constexpr std::size_t kMaxText = kMaxFrameBytes;
constexpr std::size_t kMaxTokens = 1U << 22;
constexpr std::size_t kMaxStops = 16;
constexpr std::size_t kMaxStopBytes = 256;
constexpr std::size_t kMaxLogitBias = 1U << 20;
constexpr std::size_t kMaxTopLogprobs = 64;
constexpr std::size_t kMaxTokenBytes = 64 * 1024;
constexpr std::size_t kMaxKeptStates = 4096;
// Of each part of what a model takes: sums of a few fit 64 bits.
constexpr std::uint64_t kMaxModelBytes = 1ULL << 56;
constexpr std::uint64_t kMaxDrainMs = 24ULL * 3600 * 1000;

enum Kind : std::uint64_t {
  kHello = 1,
  kStart = 2,
  kCancel = 3,
  kPause = 4,
  kResume = 5,
  kDrain = 6,
  kGrant = 7,
  kDropPrefix = 8,
  kHold = 9,
  kReady = 16,
  kFailed = 17,
  kLoad = 18,
  kDelta = 19,
  kDone = 20,
  kError = 21,
  kNeedMemory = 22,
  kKeptPrefixes = 23,
};
enum PromptKind : std::uint64_t { kChatPrompt = 0, kTextPrompt = 1, kTokenPrompt = 2, kInfillPrompt = 3 };

void put(WireWriter& w, const std::vector<Token>& tokens) {
  w.u64(tokens.size());
  for (const Token t : tokens) w.i32(t);
}
std::vector<Token> get_tokens(WireReader& r, const char* field) {
  std::vector<Token> tokens(r.count(kMaxTokens, 1, field));
  for (Token& t : tokens) {
    t = r.i32(field);
    if (t < 0) r.refuse(field, "holds a negative token");
  }
  return tokens;
}

void put(WireWriter& w, const SamplingParams& p) {
  for (const float f : {p.temperature, p.top_p, p.min_p, p.typical_p, p.repetition_penalty,
                        p.frequency_penalty, p.presence_penalty}) {
    w.f32(f);
  }
  w.i32(p.top_k);
  w.u64(p.seed);
  w.i32(p.top_logprobs);
  w.u64(p.logit_bias.size());
  for (const auto& [token, bias] : p.logit_bias) {
    w.i32(token);
    w.f32(bias);
  }
}
SamplingParams get_sampling(WireReader& r) {
  SamplingParams p;
  p.temperature = r.f32("temperature");
  p.top_p = r.f32("top_p");
  p.min_p = r.f32("min_p");
  p.typical_p = r.f32("typical_p");
  p.repetition_penalty = r.f32("repetition_penalty");
  p.frequency_penalty = r.f32("frequency_penalty");
  p.presence_penalty = r.f32("presence_penalty");
  p.top_k = r.i32("top_k");
  p.seed = r.u64(UINT64_MAX, "seed");
  p.top_logprobs = r.i32("top_logprobs");
  const std::size_t n = r.count(kMaxLogitBias, 5, "logit_bias");
  for (std::size_t i = 0; i < n && r.ok(); ++i) {
    const Token token = r.i32("logit_bias");
    const float bias = r.f32("logit_bias");
    if (token < 0) r.refuse("logit_bias", "holds a negative token");
    p.logit_bias.insert_or_assign(token, bias);
  }
  return p;
}

// 0: not set.
void put(WireWriter& w, const config::RequestSettings& s) {
  using std::chrono::milliseconds;
  const milliseconds budget =
      std::clamp(s.step_budget.value_or(milliseconds(0)), milliseconds(0), config::kMaxStepBudget);
  w.u64(static_cast<std::uint64_t>(budget.count()));
  w.u64(static_cast<std::uint64_t>(s.place));
}
config::RequestSettings get_settings(WireReader& r) {
  config::RequestSettings s;
  const std::uint64_t budget = r.u64(config::kMaxStepBudget.count(), "step budget");
  if (budget > 0) s.step_budget = std::chrono::milliseconds(budget);
  s.place =
      static_cast<config::QueuePlace>(r.u64(static_cast<std::uint64_t>(config::QueuePlace::behind), "place"));
  return s;
}

PackedJson get_json(WireReader& r, const char* field) {
  std::string bytes = r.bytes(kMaxText, field);
  if (bytes.empty()) return {};
  auto json = PackedJson::from_bytes(std::move(bytes));
  if (json) return std::move(*json);
  r.refuse(field, "is not packed JSON: " + json.error().message);
  return {};
}

void put(WireWriter& w, const std::optional<Constraint>& constraint) {
  w.flag(constraint.has_value());
  if (!constraint) return;
  w.u64(static_cast<std::uint64_t>(constraint->kind));
  w.bytes(constraint->source.shared());
  w.flag(constraint->compact);
}
std::optional<Constraint> get_constraint(WireReader& r) {
  if (!r.flag("constraint")) return std::nullopt;
  Constraint constraint;
  constraint.kind = static_cast<Constraint::Kind>(
      r.u64(static_cast<std::uint64_t>(Constraint::kLastKind), "constraint kind"));
  constraint.source = get_json(r, "constraint source");
  constraint.compact = r.flag("constraint compact");
  return constraint;
}

void put(WireWriter& w, const CompletionRequest& q) {
  w.bytes(q.id);
  w.u64(q.prompt.index());
  if (const auto* chat = std::get_if<ChatPrompt>(&q.prompt)) {
    for (const PackedJson* json : {&chat->messages, &chat->tools, &chat->template_args})
      w.bytes(json->shared());
    w.flag(chat->add_generation_prompt);
    w.flag(chat->control_tokens_in_content);
  } else if (const auto* text = std::get_if<TextPrompt>(&q.prompt)) {
    w.bytes(text->text);
    w.flag(text->add_special);
  } else if (const auto* infill = std::get_if<InfillPrompt>(&q.prompt)) {
    w.bytes(infill->before);
    w.bytes(infill->after);
  } else {
    put(w, std::get<TokenPrompt>(q.prompt).tokens);
  }
  w.u64(static_cast<std::uint64_t>(q.wanted));
  put(w, q.sampling);
  w.u64(q.max_tokens);
  w.u64(q.total_tokens);
  w.flag(q.empty_answer);
  w.flag(q.echo);
  w.u64(q.stop.size());
  for (const std::string& s : q.stop) w.bytes(s);
  w.flag(q.ignore_eos);
  w.flag(q.marks_control);
  put(w, q.constraint);
  put(w, q.resume_tokens);
  w.u64(q.resume_text_bytes);
  w.u64(q.resume_echo);
  w.bytes(q.owner);
  w.bytes(q.kept);
  w.u64(q.kept_limit);
  put(w, q.settings);
}
CompletionRequest get_request(WireReader& r) {
  CompletionRequest q;
  q.id = r.text(kMaxName, "id");
  switch (r.u64(kInfillPrompt, "prompt kind")) {
    case kChatPrompt: {
      ChatPrompt chat;
      chat.messages = get_json(r, "messages");
      chat.tools = get_json(r, "tools");
      chat.template_args = get_json(r, "template arguments");
      chat.add_generation_prompt = r.flag("add_generation_prompt");
      chat.control_tokens_in_content = r.flag("control_tokens_in_content");
      q.prompt = std::move(chat);
      break;
    }
    case kTextPrompt: {
      TextPrompt text;
      text.text = r.bytes(kMaxText, "prompt");  // tokenizers take any bytes
      text.add_special = r.flag("add_special");
      q.prompt = std::move(text);
      break;
    }
    case kInfillPrompt: {
      InfillPrompt infill;
      infill.before = r.bytes(kMaxText, "prompt");
      infill.after = std::make_shared<const std::string>(r.bytes(kMaxText, "suffix"));
      q.prompt = std::move(infill);
      break;
    }
    default:
      q.prompt = TokenPrompt{get_tokens(r, "prompt tokens")};
  }
  q.wanted = static_cast<Wanted>(r.u64(static_cast<std::uint64_t>(kLastWanted), "wanted"));
  q.sampling = get_sampling(r);
  q.max_tokens = r.u32("max_tokens");
  q.total_tokens = r.u32("total_tokens");
  q.empty_answer = r.flag("empty answer");
  q.echo = r.flag("echo");
  q.stop.resize(r.count(kMaxStops, 1, "stop"));
  for (std::string& s : q.stop) s = r.text(kMaxStopBytes, "stop");
  q.ignore_eos = r.flag("ignore_eos");
  q.marks_control = r.flag("marks control");
  q.constraint = get_constraint(r);
  q.resume_tokens = get_tokens(r, "resume tokens");
  q.resume_text_bytes = r.u64(UINT64_MAX, "resume bytes");
  q.resume_echo = r.u32("resume echo");
  if (r.ok() && q.resume_echo > 0 && !q.echo) r.refuse("resume echo", "is of a request that echoes nothing");
  q.owner = r.text(kMaxName, "owner");
  q.kept = r.text(kMaxName, "kept prefix");
  q.kept_limit = r.u64(UINT64_MAX, "kept limit");
  q.settings = get_settings(r);
  return q;
}

// Names and sentences may quote a hostile model file: they are cut to what the reader takes, and made UTF-8.
void put_text(WireWriter& w, std::string_view text) {
  std::size_t size = std::min(text.size(), kMaxName);
  while (size < text.size() && size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  std::string clean(text.substr(0, size));
  if (!is_utf8(clean)) {
    std::ranges::replace_if(
        clean, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
  }
  w.bytes(clean);
}
// What the other end wrote goes to logs and terminals, as one line: no control character (C0, DEL, C1) stays.
std::string get_line(WireReader& r, const char* field) {
  std::string text = r.text(kMaxName, field);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 || c == 0x7F) text[i] = ' ';
    if (c == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0) text[i] = text[i + 1] = ' ';
  }
  return text;
}
// A probability of zero has no finite logarithm; OpenAI's API writes it this way too.
float finite_logprob(float logprob) {
  return std::isfinite(logprob) ? logprob : -9999.0F;
}

void put(WireWriter& w, const DeviceShare& s) {
  put_text(w, s.device);
  w.u64(s.first_layer);
  w.u64(s.n_layers);
  for (const std::uint64_t v : {s.weight_bytes, s.kv_bytes, s.scratch_bytes}) w.u64(v);
  put_text(w, s.weights);
}
DeviceShare get_share(WireReader& r) {
  DeviceShare s;
  s.device = get_line(r, "device");
  s.first_layer = r.u32("first layer");
  s.n_layers = r.u32("layers");
  for (std::uint64_t* v : {&s.weight_bytes, &s.kv_bytes, &s.scratch_bytes})
    *v = r.u64(UINT64_MAX, "device bytes");
  s.weights = get_line(r, "where weights lie");
  return s;
}

void put(WireWriter& w, const AnswerForm& f) {
  w.u64(static_cast<std::uint64_t>(f.calls));
  w.u64(static_cast<std::uint64_t>(f.reasoning));
  w.flag(f.in_reasoning);
}
AnswerForm get_form(WireReader& r) {
  AnswerForm f;
  f.calls = static_cast<CallFormat>(r.u64(static_cast<std::uint64_t>(kLastCallFormat), "call format"));
  f.reasoning = static_cast<ReasoningFormat>(
      r.u64(static_cast<std::uint64_t>(kLastReasoningFormat), "reasoning format"));
  f.in_reasoning = r.flag("in reasoning");
  return f;
}

void put(WireWriter& w, const BackendInfo& i) {
  for (const auto* s :
       {&i.backend, &i.model, &i.architecture, &i.model_name, &i.quantization, &i.kv_type, &i.digest})
    put_text(w, *s);
  for (const std::uint64_t v : {i.parameters, i.weight_bytes, i.kv_bytes, i.scratch_bytes}) w.u64(v);
  w.u64(i.context_length);
  w.u64(i.vocab_size);
  w.u64(i.max_sequences);
  w.flag(i.has_chat_template);
  put(w, i.form);
  w.flag(i.mixture_of_experts);
  w.u64(i.token_weight_bytes);
  w.u64(i.devices.size());
  for (const DeviceShare& s : i.devices) put(w, s);
  w.flag(i.memory_locked.has_value());
  w.flag(i.memory_locked.value_or(false));
}
BackendInfo get_info(WireReader& r) {
  BackendInfo i;
  i.backend = get_line(r, "backend");
  i.model = get_line(r, "model");
  i.architecture = get_line(r, "architecture");
  i.model_name = get_line(r, "model name");
  i.quantization = get_line(r, "quantization");
  i.kv_type = get_line(r, "kv type");
  i.digest = get_line(r, "digest");
  i.parameters = r.u64(UINT64_MAX, "parameters");
  i.weight_bytes = r.u64(UINT64_MAX, "weight bytes");
  i.kv_bytes = r.u64(UINT64_MAX, "kv bytes");
  i.scratch_bytes = r.u64(UINT64_MAX, "scratch bytes");
  i.context_length = r.u32("context length");
  i.vocab_size = r.u32("vocabulary size");
  i.max_sequences = r.u32("max sequences");
  i.has_chat_template = r.flag("has chat template");
  i.form = get_form(r);
  i.mixture_of_experts = r.flag("mixture of experts");
  i.token_weight_bytes = r.u64(UINT64_MAX, "token weight bytes");
  i.devices.resize(r.count(kMaxDevices, 7, "devices"));
  for (DeviceShare& s : i.devices) s = get_share(r);
  const bool locks = r.flag("locks memory"), locked = r.flag("memory locked");
  if (locks) i.memory_locked = locked;
  return i;
}

void put(WireWriter& w, const BackendLoad& l) {
  for (const std::uint64_t v :
       {std::uint64_t{l.waiting}, std::uint64_t{l.running}, std::uint64_t{l.kv_blocks_total},
        std::uint64_t{l.kv_blocks_used}, l.steps, l.prompt_tokens, l.completion_tokens, l.cached_tokens,
        l.preemptions, l.restored_tokens, l.spilled_bytes}) {
    w.u64(v);
  }
  w.flag(l.spills);
}
BackendLoad get_load(WireReader& r) {
  BackendLoad l;
  l.waiting = r.u32("waiting");
  l.running = r.u32("running");
  l.kv_blocks_total = r.u32("kv blocks total");
  l.kv_blocks_used = r.u32("kv blocks used");
  l.steps = r.u64(UINT64_MAX, "steps");
  l.prompt_tokens = r.u64(UINT64_MAX, "prompt tokens");
  l.completion_tokens = r.u64(UINT64_MAX, "completion tokens");
  l.cached_tokens = r.u64(UINT64_MAX, "cached tokens");
  l.preemptions = r.u64(UINT64_MAX, "preemptions");
  l.restored_tokens = r.u64(UINT64_MAX, "restored tokens");
  l.spilled_bytes = r.u64(UINT64_MAX, "spilled bytes");
  l.spills = r.flag("spills");
  return l;
}

void put(WireWriter& w, const Error& e) {
  w.bytes(to_string(e.code));
  put_text(w, e.message);
  put_text(w, e.param);
  put_text(w, e.where);
}
Error get_error(WireReader& r) {
  Error e;
  e.code = error_code_from(r.text(kMaxName, "error code"));
  e.message = get_line(r, "error message");
  e.param = get_line(r, "error param");
  e.where = get_line(r, "error place");
  return e;
}

std::vector<ControlSpan> get_control(WireReader& r, std::size_t text_bytes) {
  std::vector<ControlSpan> control(r.count(kMaxText, 2, "control spans"));
  std::uint32_t at = 0;
  for (ControlSpan& span : control) {
    span.begin = r.u32("control span");
    span.end = r.u32("control span");
    if (r.ok() && (span.begin < at || span.end <= span.begin || span.end > text_bytes))
      r.refuse("control span", "is not within the text, behind the one before it");
    at = span.end;
  }
  return control;
}

void put(WireWriter& w, const Delta& d) {
  w.bytes(d.text);
  w.u64(d.control.size());
  for (const ControlSpan& span : d.control) {
    w.u64(span.begin);
    w.u64(span.end);
  }
  w.flag(d.form.has_value());
  if (d.form) put(w, *d.form);
  put(w, d.tokens);
  w.u64(d.prompt_tokens);
  w.u64(d.cached_tokens);
  put(w, d.prompt);
  w.u64(d.echoed);
  w.u64(d.logprobs.size());
  for (const TokenLogprob& l : d.logprobs) {
    w.i32(l.token);
    w.bytes(l.bytes);
    w.f32(finite_logprob(l.logprob));
    w.u64(l.in_text ? 1 : 0);
    w.flag(l.known);
    w.u64(l.top.size());
    for (const auto& [bytes, logprob] : l.top) {
      w.bytes(bytes);
      w.f32(finite_logprob(logprob));
    }
  }
}
Delta get_delta(WireReader& r) {
  Delta d;
  d.text = r.text(kMaxText, "text");
  d.control = get_control(r, d.text.size());
  if (r.flag("answer form")) d.form = get_form(r);
  d.tokens = get_tokens(r, "tokens");
  d.prompt_tokens = r.u32("prompt tokens");
  d.cached_tokens = r.u32("cached tokens");
  d.prompt = get_tokens(r, "prompt");
  d.echoed = r.u32("echoed");
  if (r.ok() && d.echoed > 0 && !d.tokens.empty()) r.refuse("echoed", "stands beside tokens of the answer");
  const std::size_t n = r.count(kMaxTokens, 9, "logprobs");
  if (r.ok() && d.echoed > 0 && n != 0 && n != d.echoed)
    r.refuse("logprobs", "are not those of the tokens echoed");
  for (std::size_t i = 0; i < n && r.ok(); ++i) {
    TokenLogprob& l = d.logprobs.emplace_back();
    l.token = r.i32("logprob token");
    l.bytes = r.bytes(kMaxTokenBytes, "logprob bytes");
    l.logprob = r.f32("logprob");
    l.in_text = r.u64(1, "logprob in text") == 1;
    l.known = r.flag("logprob known");
    if (r.ok() && !l.known && d.echoed == 0) r.refuse("logprob known", "is false of a token of the answer");
    const std::size_t n_top = r.count(kMaxTopLogprobs, 5, "top logprobs");
    for (std::size_t k = 0; k < n_top && r.ok(); ++k) {
      std::string bytes = r.bytes(kMaxTokenBytes, "top logprob bytes");
      l.top.emplace_back(std::move(bytes), r.f32("top logprob"));
    }
  }
  return d;
}

void put(WireWriter& w, const Done& d) {
  w.u64(static_cast<std::uint64_t>(d.reason));
  for (const std::uint64_t v :
       {std::uint64_t{d.usage.prompt_tokens}, std::uint64_t{d.usage.completion_tokens},
        std::uint64_t{d.usage.cached_tokens}, d.timings.queue_us, d.timings.prefill_us, d.timings.decode_us,
        d.timings.compile_us, d.timings.mask_us}) {
    w.u64(v);
  }
  w.bytes(d.stop_text);
  w.bytes(d.kept);
  w.u64(d.kept_tokens);
}
Done get_done(WireReader& r) {
  Done d;
  d.reason =
      static_cast<FinishReason>(r.u64(static_cast<std::uint64_t>(FinishReason::cancelled), "finish reason"));
  d.usage.prompt_tokens = r.u32("usage");
  d.usage.completion_tokens = r.u32("usage");
  d.usage.cached_tokens = r.u32("usage");
  d.timings.queue_us = r.u64(UINT64_MAX, "timings");
  d.timings.prefill_us = r.u64(UINT64_MAX, "timings");
  d.timings.decode_us = r.u64(UINT64_MAX, "timings");
  d.timings.compile_us = r.u64(UINT64_MAX, "timings");
  d.timings.mask_us = r.u64(UINT64_MAX, "timings");
  d.stop_text = r.text(kMaxStopBytes, "stop text");
  d.kept = get_line(r, "kept prefix");
  d.kept_tokens = r.u32("kept tokens");
  return d;
}

void put(WireWriter& w, const KeptPrefixes& kept) {
  w.u64(kept.states.size());
  for (const KeptPrefixState& s : kept.states) {
    w.bytes(s.owner);
    w.bytes(s.name);
    for (const std::uint64_t v :
         {std::uint64_t{s.tokens}, std::uint64_t{s.tokens_in_memory}, std::uint64_t{s.tokens_on_disk},
          std::uint64_t{s.tokens_there}, s.uses, s.saved_tokens})
      w.u64(v);
  }
}
KeptPrefixes get_kept_prefixes(WireReader& r) {
  KeptPrefixes kept;
  kept.states.resize(r.count(kMaxKeptStates, 8, "kept prefixes"));
  for (KeptPrefixState& s : kept.states) {
    s.owner = get_line(r, "owner");
    s.name = get_line(r, "kept prefix");
    s.tokens = r.u32("tokens");
    s.tokens_in_memory = r.u32("tokens in memory");
    s.tokens_on_disk = r.u32("tokens on disk");
    s.tokens_there = r.u32("tokens there");
    if (r.ok() && std::max({s.tokens_in_memory, s.tokens_on_disk, s.tokens_there}) > s.tokens)
      r.refuse("kept prefix", "has more tokens there than it has");
    s.uses = r.u64(UINT64_MAX, "uses");
    s.saved_tokens = r.u64(UINT64_MAX, "saved tokens");
  }
  return kept;
}

void put(WireWriter& w, const Hello& hello) {
  w.u64(hello.version);
  w.u64(hello.heartbeat_ms);
}
Hello get_hello(WireReader& r) {
  Hello hello;
  hello.version = r.u32("protocol version");
  hello.heartbeat_ms = r.u32("heartbeat");
  if (r.ok() && hello.version != kProtocolVersion) {
    r.refuse("protocol version", "is " + std::to_string(hello.version) + ", this binary speaks " +
                                     std::to_string(kProtocolVersion));
  }
  if (r.ok() && hello.heartbeat_ms == 0) r.refuse("heartbeat", "is 0 ms");
  return hello;
}
void put(WireWriter& w, const MemoryNeed& need) {
  for (const std::uint64_t bytes :
       {need.weight_bytes, need.scratch_bytes, need.kv_bytes, need.least_kv_bytes})
    w.u64(std::min(bytes, kMaxModelBytes));
}
MemoryNeed get_need(WireReader& r) {
  MemoryNeed need;
  for (std::uint64_t* bytes : {&need.weight_bytes, &need.scratch_bytes, &need.kv_bytes, &need.least_kv_bytes})
    *bytes = r.u64(kMaxModelBytes, "bytes needed");
  return need;
}
TicketId get_ticket(WireReader& r) {
  const TicketId ticket = r.u64(UINT64_MAX, "ticket");
  if (ticket == 0) r.refuse("ticket", "is 0");
  return ticket;
}

Result<void> check_length(const WireWriter& w) {
  if (w.payload_bytes() <= kMaxFrameBytes) return {};
  return fail(ErrorCode::body_too_large, "The request takes " + std::to_string(w.payload_bytes()) +
                                             " bytes on its way to the engine; the limit is " +
                                             std::to_string(kMaxFrameBytes) + ".");
}

struct Encoder {
  WireWriter& w;
  void operator()(const Hello& m) { w.u64(kHello), put(w, m); }
  void operator()(const Start& m) { w.u64(kStart), w.u64(m.ticket), put(w, m.request); }
  void operator()(const Cancel& m) { w.u64(kCancel), w.u64(m.ticket); }
  void operator()(const Pause& m) { w.u64(kPause), w.u64(m.ticket); }
  void operator()(const Resume& m) { w.u64(kResume), w.u64(m.ticket); }
  void operator()(const Drain& m) { w.u64(kDrain), w.u64(std::min(m.within_ms, kMaxDrainMs)); }
  void operator()(const Grant& m) { w.u64(kGrant), w.u64(m.kv_bytes); }
  void operator()(const DropPrefix& m) { w.u64(kDropPrefix), w.bytes(m.owner), w.bytes(m.name); }
  void operator()(const Hold& m) { w.u64(kHold), w.flag(m.held); }
  void operator()(const NeedMemory& m) { w.u64(kNeedMemory), put(w, m.need); }
  void operator()(const Ready& m) { w.u64(kReady), put(w, m.info); }
  void operator()(const Failed& m) { w.u64(kFailed), put(w, m.error); }
  void operator()(const BackendLoad& m) { w.u64(kLoad), put(w, m); }
  void operator()(const KeptPrefixes& m) { w.u64(kKeptPrefixes), put(w, m); }
  void operator()(const TicketEvent& m) {
    w.u64(kDelta + m.event.index());
    w.u64(m.ticket);
    std::visit([this](const auto& event) { put(w, event); }, m.event);
  }
};

Result<std::string> whole(const auto& message) {
  WireWriter w;
  std::visit(Encoder{w}, message);
  if (auto fits = check_length(w); !fits) return pass(fits);
  return w.framed();
}

}  // namespace

Result<std::string> encode(const ToWorker& message) {
  return whole(message);
}
Result<std::string> encode(const ToDaemon& message) {
  return whole(message);
}

Result<std::vector<FramePiece>> encode_in_pieces(const ToWorker& message) {
  WireWriter w;
  std::visit(Encoder{w}, message);
  if (auto fits = check_length(w); !fits) return pass(fits);
  return w.pieces();
}

Result<ToWorker> decode_to_worker(std::string_view payload) {
  WireReader r(payload);
  ToWorker message;
  switch (r.u64(kHold, "kind")) {
    case kHello:
      message = get_hello(r);
      break;
    case kStart: {
      Start start;
      start.ticket = get_ticket(r);
      start.request = get_request(r);
      message = std::move(start);
      break;
    }
    case kCancel:
      message = Cancel{get_ticket(r)};
      break;
    case kPause:
      message = Pause{get_ticket(r)};
      break;
    case kResume:
      message = Resume{get_ticket(r)};
      break;
    case kDrain:
      message = Drain{r.u64(kMaxDrainMs, "drain time")};
      break;
    case kGrant:
      message = Grant{r.u64(kMaxModelBytes, "granted bytes")};
      break;
    case kDropPrefix: {
      DropPrefix drop;
      drop.owner = r.text(kMaxName, "owner");
      drop.name = r.text(kMaxName, "kept prefix");
      message = std::move(drop);
      break;
    }
    case kHold:
      message = Hold{r.flag("held")};
      break;
    default:
      r.refuse("kind", "is not one the daemon sends");
  }
  if (auto end = r.finish(); !end) return pass(end);
  return message;
}

Result<ToDaemon> decode_to_daemon(std::string_view payload) {
  WireReader r(payload);
  ToDaemon message;
  const std::uint64_t kind = r.u64(kKeptPrefixes, "kind");
  switch (kind) {
    case kHello:
      message = get_hello(r);
      break;
    case kNeedMemory:
      message = NeedMemory{get_need(r)};
      break;
    case kReady:
      message = Ready{get_info(r)};
      break;
    case kFailed:
      message = Failed{get_error(r)};
      break;
    case kLoad:
      message = get_load(r);
      break;
    case kKeptPrefixes:
      message = get_kept_prefixes(r);
      break;
    case kDelta:
    case kDone:
    case kError: {
      TicketEvent event;
      event.ticket = get_ticket(r);
      if (kind == kDelta) event.event = get_delta(r);
      if (kind == kDone) event.event = get_done(r);
      if (kind == kError) event.event = get_error(r);
      message = std::move(event);
      break;
    }
    default:
      r.refuse("kind", "is not one a worker sends");
  }
  if (auto end = r.finish(); !end) return pass(end);
  return message;
}

}  // namespace flyball::worker
