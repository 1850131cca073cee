#include "tests/daemon/api/fakes.hpp"

#include <openssl/sha.h>

#include <algorithm>

#include <boost/asio/post.hpp>

namespace flyball::testing {

namespace asio = boost::asio;

namespace {
constexpr std::uint32_t kPromptTokens = 7;  // of every prompt
}

struct FakeBackend::Running {
  CompletionRequest request;
  std::shared_ptr<EventSink> sink;
  Script script;
  std::uint32_t next = 0;    // index of the token to come
  std::uint32_t sent = 0;    // tokens of this attempt
  std::uint32_t echoed = 0;  // tokens of the prompt in this attempt
  std::string text;
  bool alive = true, paused = false;
};

struct FakeBackend::TicketImpl final : Ticket::Impl {
  TicketImpl(FakeBackend& owner, std::shared_ptr<Running> r) : backend(owner), running(std::move(r)) {}
  ~TicketImpl() override {
    if (!running->alive) return;
    running->alive = false;
    ++backend.cancelled;
    std::erase(backend.running_, running);
  }
  void resume() noexcept override {
    if (!running->alive || !running->paused) return;
    running->paused = false;
    ++backend.resumed;
    if (!running->script.manual) backend.pump(running);
  }
  FakeBackend& backend;
  std::shared_ptr<Running> running;
};

FakeBackend::FakeBackend(asio::io_context& io, std::string model, std::string id) : io_(io) {
  info_.backend = std::move(id);
  info_.model = std::move(model);
  info_.architecture = "llama";
  info_.model_name = "fake";
  info_.quantization = "Q8_0";
  info_.context_length = 4096;
  info_.vocab_size = 1000;
  info_.max_sequences = 8;
  info_.weight_bytes = 1000;
}

BackendLoad FakeBackend::load() const noexcept {
  BackendLoad out;
  out.running = static_cast<std::uint32_t>(running_.size());
  out.kv_blocks_total = 10;
  out.kv_blocks_used = std::min<std::uint32_t>(out.running, 10);
  out.completion_tokens = emitted;
  out.prompt_tokens = 30;
  out.cached_tokens = 20;
  out.preemptions = 3;
  out.restored_tokens = 16;
  out.spilled_bytes = 4096;
  out.spills = true;
  return out;
}

Result<Ticket> FakeBackend::start(CompletionRequest request, std::shared_ptr<EventSink> sink) {
  auto running = std::make_shared<Running>();
  running->script = script(request);
  if (keeps_started) started.push_back(request);
  if (running->script.refuse) return std::unexpected(*running->script.refuse);
  if (request.total_tokens > 0) {  // as the engine's preparation has it
    if (request.total_tokens <= kPromptTokens)
      return fail(ErrorCode::token_limit_exceeded, "The prompt has 7 tokens; fewer are left.");
    const std::uint32_t left = request.total_tokens - kPromptTokens;
    request.max_tokens = request.max_tokens > 0 ? std::min(request.max_tokens, left) : left;
  }
  running->next = static_cast<std::uint32_t>(request.resume_tokens.size());
  running->request = std::move(request);
  running->sink = std::move(sink);
  running_.push_back(running);
  if (!running->script.manual) pump(running);
  return Ticket(std::make_unique<TicketImpl>(*this, running));
}

void FakeBackend::pump(const std::shared_ptr<Running>& running) {
  asio::post(io_, [this, running] {
    if (running->alive && !running->paused && step(*running)) pump(running);
  });
}

// One token, or the end. False: nothing more to do now.
bool FakeBackend::step(Running& r) {
  const auto end = [&](Event event) {
    r.alive = false;
    const auto keep =
        *std::find_if(running_.begin(), running_.end(), [&](const auto& p) { return p.get() == &r; });
    std::erase(running_, keep);
    r.sink->push(std::move(event));
    return false;
  };
  if (r.script.fail_after && r.sent + r.echoed == *r.script.fail_after) return end(r.script.error);
  if (r.request.wanted == Wanted::kept_prefix) {
    std::erase_if(kept, [&](const KeptPrefixState& one) {
      return one.owner == r.request.owner && one.name == r.request.kept;
    });
    kept.push_back({.owner = r.request.owner,
                    .name = r.request.kept,
                    .tokens = kept_tokens,
                    .tokens_in_memory = kept_tokens,
                    .tokens_there = kept_tokens});
    Done done;
    done.usage.prompt_tokens = kept_tokens;
    return end(done);
  }
  if (r.request.wanted != Wanted::answer) {
    Delta delta;
    if (r.request.wanted == Wanted::prompt_text)
      delta.text = prompt_text;
    else
      delta.prompt = prompt;
    Done done;
    done.usage.prompt_tokens = kPromptTokens;
    r.sink->push(std::move(delta));
    return r.alive && end(done);
  }
  const std::uint32_t limit =
      r.request.max_tokens > 0 ? std::min(r.request.max_tokens, r.script.tokens) : r.script.tokens;
  if (r.next >= limit) {
    Done done;
    done.reason = limit < r.script.tokens ? FinishReason::length : FinishReason::stop;
    done.usage = {kPromptTokens, r.next, 0};
    done.timings = {.queue_us = 10, .prefill_us = 20, .decode_us = 30};
    done.kept = r.script.kept;
    done.kept_tokens = r.script.kept.empty() ? 0 : 4;
    if (r.request.constraint) {
      done.timings.compile_us = kFakeCompileUs;
      done.timings.mask_us = kFakeMaskUs;
    }
    return end(done);
  }
  Delta delta;
  if (const std::uint32_t at = r.request.resume_echo + r.echoed; r.request.echo && at < kPromptTokens) {
    delta.text = "p" + std::to_string(at) + " ";
    delta.echoed = 1;
    ++r.echoed;
    r.paused = !r.sink->push(std::move(delta));
    return r.alive && !r.paused;
  }
  if (!(r.script.empty_first && r.next == 0)) delta.text = "t" + std::to_string(r.next) + " ";
  if (r.next < r.script.texts.size()) delta.text = r.script.texts[r.next];
  if (delta.text.size() < r.script.token_bytes)
    delta.text.append(r.script.token_bytes - delta.text.size(), 'x');
  delta.tokens = {static_cast<Token>(100 + r.next)};
  if (r.sent == 0) delta.prompt_tokens = kPromptTokens;
  if (r.request.sampling.top_logprobs >= 0) {
    TokenLogprob logprob{delta.tokens[0], delta.text, -0.25F, {}};
    for (std::int32_t k = 0; k < r.request.sampling.top_logprobs; ++k)
      logprob.top.emplace_back("alt" + std::to_string(k), -0.25F - static_cast<float>(k));
    delta.logprobs.push_back(std::move(logprob));
  }
  ++r.next;
  ++r.sent;
  ++emitted;
  if (!r.sink->push(std::move(delta))) {
    r.paused = true;
    ++paused;
    return false;
  }
  return true;
}

void FakeBackend::emit(std::uint32_t tokens, std::size_t sequences) {
  for (std::uint32_t i = 0; i < tokens; ++i) {
    auto first = running_;
    first.resize(std::min(first.size(), sequences));
    for (const auto& running : first)
      if (running->alive && !running->paused) step(*running);
  }
}

void FakeFleet::acquire(const std::string& model, const std::string& id, Acquired callback,
                        const fleet::Asker& asker) {
  acquired.push_back(id);
  askers.push_back(asker);
  if (hold_acquires) {
    held.push_back(std::move(callback));
    return;
  }
  if (auto& errors = acquire_errors[id]; !errors.empty()) {
    asio::post(
        io_, [callback = std::move(callback), error = errors.front()] { callback(std::unexpected(error)); });
    errors.pop_front();
    return;
  }
  asio::post(io_, [callback = std::move(callback), found = &backend(model, id)] { callback(found); });
}

std::vector<fleet::WorkerStatus> FakeFleet::status() const {
  std::vector<fleet::WorkerStatus> out;
  for (const auto& [key, b] : backends_) {
    fleet::WorkerStatus one;
    one.model = b->info().model;
    one.backend = b->info().backend;
    one.state = fleet::WorkerState::ready;
    one.info = b->info();
    one.load = b->load();
    if (const auto it = disabled.find(one.backend); it != disabled.end()) {
      one.state = fleet::WorkerState::disabled;
      one.last_error = it->second.message;
    }
    if (stopped.contains(one.backend)) one.state = fleet::WorkerState::stopped;
    out.push_back(std::move(one));
  }
  return out;
}

void FakeFleet::unload(const std::string& model, const std::string& id, Unloaded callback) {
  std::vector<std::string> ended;
  for (auto at = backends_.begin(); at != backends_.end();) {
    const BackendInfo& info = at->second->info();
    if (info.model != model || (!id.empty() && info.backend != id)) {
      ++at;
      continue;
    }
    ended.push_back(info.backend);
    at = backends_.erase(at);
  }
  asio::post(io_, [callback = std::move(callback), ended] { callback(ended); });
}

void FakeFleet::drain(TimePoint, std::function<void()> drained) {
  asio::post(io_, std::move(drained));
}

FakeBackend& FakeFleet::backend(const std::string& model, const std::string& id) {
  auto& slot = backends_[model + "/" + id];
  if (!slot) slot = std::make_unique<FakeBackend>(io_, model, id);
  return *slot;
}

std::shared_ptr<const policy::Tree> tree_of(const std::string& text) {
  return std::make_shared<const policy::Tree>(
      policy::parse_policy("schema: flyball.policy/v1\n" + text, "policy.yaml").value());
}

std::shared_ptr<settings::Settings> make_settings() {
  auto out = std::make_shared<settings::Settings>();
  out->config.listeners.emplace_back();
  out->config.listeners.back().port = 0;
  for (const char* id : {"demo", "small"}) {
    config::ModelEntry model;
    model.id = id;
    out->config.models.push_back(model);
  }
  out->config.models[0].aliases = {"default-demo"};
  out->config.default_model = "demo";
  out->config.operator_access.loopback = true;
  const auto add_app = [&](const char* id, const char* key) -> config::AppManifest& {
    config::AppManifest app;
    app.id = id;
    if (key)
      SHA256(reinterpret_cast<const unsigned char*>(key), std::char_traits<char>::length(key),
             app.keys.emplace_back().data());
    out->apps.push_back(app);
    return out->apps.back();
  };
  add_app("alice", "key-alice").limits.in_flight = 64;
  auto& bob = add_app("bob", "key-bobby");
  bob.models = {"small"};
  bob.limits.in_flight = 2;
  bob.limits.max_tokens = 100;
  add_app("uid", nullptr).unix_uid = 4711;

  const std::string use = "because: There is only one rule., use: [cpu, vulkan]}\n";
  out->tree = tree_of("rules:\n  - {id: everything, " + use + "default: {" + use);
  return out;
}

policy::Facts make_hardware(bool vulkan) {
  policy::Facts facts;
  facts.set("backend.cpu.available", true, "probe");
  facts.set("backend.vulkan.available", vulkan, "probe");
  if (!vulkan) facts.set("backend.vulkan.reason", std::string("no device found"), "probe");
  return facts;
}

}  // namespace flyball::testing
