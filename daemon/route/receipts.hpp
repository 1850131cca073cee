// Why recent requests went where they went: a bounded ring of decisions with the facts they were taken on.
// JSON is written when somebody asks, not while the request waits.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "backends/backend.hpp"
#include "daemon/route/kept_prefixes.hpp"
#include "daemon/route/run_state.hpp"
#include "daemon/route/turns.hpp"
#include "policy/decide.hpp"
#include "policy/facts.hpp"

namespace flyball::route {

// An engine that was asked, for whoever has to find out what was wrong with an answer.
struct EngineRecord {
  std::string backend;
  std::string model_path;  // of config.yaml; "": the embedded demo model
  std::string digest, quantization, kv_type;
  std::uint32_t context = 0;   // tokens that one sequence may hold
  std::string device, driver;  // as the probe found them; "": it did not
};

struct AttemptRecord {
  std::string backend;
  RunState outcome = {};
  std::uint32_t choice = 0;
  std::uint32_t resumed_tokens = 0;       // it continued behind so many
  std::vector<std::string> devices = {};  // what each of the engine's holds, once it has begun
  std::string profile = {};               // of its target
  std::string settings = {};              // that the profile sent with it: "step budget 20ms"
};

// One decision taken again while its request waited.
struct Redecision {
  double after_ms = 0;   // since the admission
  std::string from, to;  // targets; the same where the request stayed
  std::string why;  // "400.0 ms waited and 180.0 ms expected at cpu pass the 500.0 ms to the first token"
};

// The constraint of a request's answers, and what it took.
struct ConstraintRecord {
  std::string kind;              // constrain::to_string
  std::string digest;            // constrain::digest_of
  std::uint64_t compile_us = 0;  // in the daemon, after admission; next to nothing where it was remembered
  // The engines' Timings, all answers that are done together.
  std::uint64_t engine_compile_us = 0, mask_us = 0;
};

// Whose request it was, and what became of it.
struct RequestRecord {
  std::string request_id, app, model, operation;
  // Unknown fields of the request, which the app's manifest lets pass: the first of them, and how many more.
  std::vector<std::string> ignored_fields = {};
  // The model is told its tools in a system message: its chat template has no place for them.
  bool tools_in_system_message = false;
  std::optional<ConstraintRecord> constraint = {};  // nullopt: none
  std::vector<AttemptRecord> attempts;
  std::vector<EngineRecord> engines = {};  // each one once, in the order of the attempts that began
  std::vector<Redecision> redecisions;     // every move, and the latest of several in a row that stayed
  // The app's kept prefixes of the model, at the engine that a request began on last, as they were then.
  std::vector<KeptPrefixRecord> kept_prefixes = {};
  std::string kept_prefix = {};            // the one of them that the prompt begins with; "": none
  std::uint32_t kept_prefix_tokens = 0;    // cached tokens of the prompt that are its
  std::string background_load = {};        // that it began, or would begin (background_load_text()); "": none
  std::string head_start = {};  // its answer began elsewhere while the chosen engine loaded, or would; "": no
  RunState state;
  std::int64_t created = 0;  // seconds since the epoch
  double policy_us = 0, router_us = -1, queue_ms = -1, ttft_ms = -1, total_ms = -1;  // -1: not known yet
  Usage usage;
};

struct Receipt : RequestRecord {
  std::shared_ptr<const void> keep;  // holds the tree that the decision points into
  policy::Decision decision;
  policy::Facts facts;
  std::optional<Error> refused;  // at once, because no target is predicted to hold a hard SLO
  std::function<std::optional<PlaceInLine>()>
      in_line;  // of its first answer that waits; empty once it is over

  // "backend=cpu; rule=...; model=..." for the x-flyball-route header.
  std::string summary() const;
};

nlohmann::json to_json(const EngineRecord& engine);
nlohmann::json to_json(const ConstraintRecord& constraint);
// Without the app.
nlohmann::json to_json(const KeptPrefixRecord& kept);
nlohmann::json to_json(const Receipt& receipt);
nlohmann::json refusal_json(const Error& refused);  // its code and message

class Receipts {
 public:
  static constexpr std::size_t kKept = 256;  // about 2 MiB: a copy of the facts each

  std::shared_ptr<Receipt> add(Receipt receipt);
  // nullptr where it is unknown, forgotten, or another app's (not told apart).
  std::shared_ptr<const Receipt> find(std::string_view request_id, std::string_view app) const;

 private:
  std::deque<std::shared_ptr<Receipt>> ring_;
  std::unordered_map<std::string_view, std::shared_ptr<Receipt>> by_id_;  // keys point into the receipts
};

}  // namespace flyball::route
