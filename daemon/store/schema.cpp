#include "daemon/store/schema.hpp"

#include <array>

namespace flyball::store {

std::span<const std::string_view> schema_versions() noexcept {
  static constexpr std::array<std::string_view, 15> kVersions = {
      // 1: who wrote the file.
      R"(CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;)",
      // 2: decided requests (daemon/route/records.hpp). Digests name texts that many records share.
      R"(CREATE TABLE decision_policies (digest INTEGER PRIMARY KEY, file TEXT NOT NULL, text TEXT NOT NULL);
         CREATE TABLE decision_frames (digest INTEGER PRIMARY KEY, facts TEXT NOT NULL);
         CREATE TABLE decisions (id INTEGER PRIMARY KEY, request TEXT NOT NULL, at INTEGER NOT NULL,
           app TEXT NOT NULL, model TEXT NOT NULL, operation TEXT NOT NULL, rule TEXT NOT NULL,
           target TEXT NOT NULL, state TEXT NOT NULL, attempts TEXT NOT NULL, policy_us REAL NOT NULL,
           router_us REAL NOT NULL, queue_ms REAL NOT NULL, ttft_ms REAL NOT NULL, total_ms REAL NOT NULL,
           prompt_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL,
           facts TEXT NOT NULL, frame INTEGER NOT NULL, policy INTEGER NOT NULL);
         CREATE INDEX decisions_by_request ON decisions (request);
         CREATE INDEX decisions_by_time ON decisions (at);)",
      // 3: what each app used on each day (since the epoch, UTC); the lengths as daemon/usage writes them.
      R"(CREATE TABLE usage (
           app TEXT NOT NULL, day INTEGER NOT NULL,
           requests INTEGER NOT NULL, refused INTEGER NOT NULL, errors INTEGER NOT NULL,
           cancelled INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,
           generated_tokens INTEGER NOT NULL, guessed_tokens INTEGER NOT NULL,
           streamed INTEGER NOT NULL, with_tools INTEGER NOT NULL,
           prompt_lengths TEXT NOT NULL, cached_lengths TEXT NOT NULL,
           answer_lengths TEXT NOT NULL, open_at_arrival TEXT NOT NULL,
           PRIMARY KEY (app, day)) WITHOUT ROWID;)",
      // 4: what was measured here (daemon/measure): `figure` of a model's file on a device, by prompt's
      // tokens or streams (`at`).
      R"(CREATE TABLE measured (model TEXT NOT NULL, backend TEXT NOT NULL, device TEXT NOT NULL, driver TEXT NOT NULL,
           setup TEXT NOT NULL, figure TEXT NOT NULL, at INTEGER NOT NULL, value REAL NOT NULL,
           measured_at INTEGER NOT NULL,
           PRIMARY KEY (model, backend, device, driver, setup, figure, at)) WITHOUT ROWID;)",
      // 5: what was predicted and what then was (daemon/measure/prediction_ledger.hpp), the latest.
      R"(CREATE TABLE prediction_outcomes (id INTEGER PRIMARY KEY, at INTEGER NOT NULL, model TEXT NOT NULL,
           backend TEXT NOT NULL, quantity TEXT NOT NULL, basis TEXT NOT NULL, predicted REAL NOT NULL,
           actual REAL NOT NULL);)",
      // 6: days (since the epoch, UTC) on which the use of an app is unknown: a damaged file has lost it.
      R"(CREATE TABLE lost_usage (app TEXT NOT NULL, day INTEGER NOT NULL, PRIMARY KEY (app, day)) WITHOUT ROWID;)",
      // 7: decisions taken again while a request waited (daemon/route/slo.hpp), as JSON; "" without any.
      R"(ALTER TABLE decisions ADD COLUMN redecisions TEXT NOT NULL DEFAULT '';)",
      // 8: a load's outcome counts from the start of its process, and its prediction has the pages that it
      // takes.
      R"(DELETE FROM prediction_outcomes WHERE quantity = 'load_ms';)",
      // 9: the load that a request began in the background (daemon/route/background_load.hpp); "" for none.
      R"(ALTER TABLE decisions ADD COLUMN background_load TEXT NOT NULL DEFAULT '';)",
      // 10: unknown fields of a request that its app's manifest let pass, as JSON; "" without any.
      R"(ALTER TABLE decisions ADD COLUMN ignored_fields TEXT NOT NULL DEFAULT '';)",
      // 11: the engines that a request began on (route::EngineRecord), as JSON; 0 for none.
      R"(CREATE TABLE decision_engines (digest INTEGER PRIMARY KEY, engines TEXT NOT NULL) WITHOUT ROWID;
         ALTER TABLE decisions ADD COLUMN engines INTEGER NOT NULL DEFAULT 0;)",
      // 12: the constraint of a request's answers (route::ConstraintRecord), as JSON; "" for none.
      R"(ALTER TABLE decisions ADD COLUMN answer_constraint TEXT NOT NULL DEFAULT '';)",
      // 13: whether the model was told its tools in a system message; 0 or 1.
      R"(ALTER TABLE decisions ADD COLUMN tools_in_system_message INTEGER NOT NULL DEFAULT 0;)",
      // 14: where an answer began while its engine loaded (daemon/route/head_start.hpp); "" for nowhere.
      R"(ALTER TABLE decisions ADD COLUMN head_start TEXT NOT NULL DEFAULT '';)",
      // 15: the app's kept prefixes at the engine of a request, and the one that its prompt began with, as
      // JSON; "" for an app without any.
      R"(ALTER TABLE decisions ADD COLUMN kept_prefixes TEXT NOT NULL DEFAULT '';)",
  };
  return kVersions;
}

}  // namespace flyball::store
