#include "daemon/measure/outcomes.hpp"

#include <algorithm>
#include <optional>

namespace flyball::measure {
namespace {

void add(std::vector<Outcome>& out, const std::string& model, const std::string& backend, Quantity quantity,
         const std::optional<Book::Expected>& expected, double actual, std::int64_t now) {
  if (expected) out.push_back({model, backend, quantity, expected->basis, expected->value, actual, now});
}

}  // namespace

bool engine_was_idle(const policy::Facts& facts, const std::string& backend) {
  const auto none = [&](policy::TargetFact which) {
    const policy::Fact* fact = facts.get(facts.targets()->fact_of(backend, which));
    return fact != nullptr && std::get<std::int64_t>(fact->value) == 0;
  };
  return facts.targets()->knows(backend) && none(policy::TargetFact::running) &&
         none(policy::TargetFact::queue_waiting);
}

std::vector<Outcome> outcomes_of(const Book& book, const LoadSeen& load, std::int64_t now) {
  std::vector<Outcome> out;
  if (load.predicted_bytes > 0)
    out.push_back({load.model, load.backend, Quantity::bytes, Basis::file,
                   static_cast<double>(load.predicted_bytes), static_cast<double>(load.actual_bytes), now});
  add(out, load.model, load.backend, Quantity::load_ms,
      book.expected(load.model, load.backend, Kind::load_ms, 0, now), load.ms, now);
  return out;
}

std::vector<Outcome> outcomes_of(const Book& book, const AnswerSeen& answer, std::int64_t now) {
  std::vector<Outcome> out;
  const auto& [prompt, completion, cached] = answer.usage;
  if (prompt > cached && answer.timings.prefill_us > 0)
    add(out, answer.model, answer.backend, Quantity::ttft_ms,
        book.expected(answer.model, answer.backend, Kind::ttft_ms, prompt - cached, now),
        static_cast<double>(answer.timings.prefill_us) / 1e3, now);
  if (completion > kLeastDecoded && answer.timings.decode_us > 0)
    add(out, answer.model, answer.backend, Quantity::decode_tps,
        book.expected(answer.model, answer.backend, Kind::decode_tps, 1, now),
        (completion - 1) * 1e6 / static_cast<double>(answer.timings.decode_us), now);
  return out;
}

std::vector<Outcome> outcomes_of(const RequestSeen& request, std::int64_t now) {
  std::vector<Outcome> out;
  const auto add = [&](Quantity quantity, double expected, double actual) {
    if (expected > 0 && actual > 0)
      out.push_back({request.model, request.backend, quantity, Basis::requests, expected, actual, now});
  };
  add(Quantity::request_ttft_ms, request.expected_ttft, request.ttft);
  add(Quantity::request_tpot_ms, request.expected_tpot, request.tpot);
  return out;
}

void Outcomes::loaded(const Book& book, const LoadSeen& load, std::int64_t now) {
  keep(outcomes_of(book, load, now));
}

void Outcomes::answered(const Book& book, const AnswerSeen& answer, std::int64_t now) {
  if (is_due(answers_, answer.model, answer.backend, now)) keep(outcomes_of(book, answer, now));
}

void Outcomes::requested(const RequestSeen& request, std::int64_t now) {
  if (is_due(requests_, request.model, request.backend, now)) keep(outcomes_of(request, now));
}

bool Outcomes::is_due(Sampled& sampled, const std::string& model, const std::string& backend,
                      std::int64_t now) {
  const auto [last, first] = sampled.try_emplace({model, backend}, now);
  if (!first && now >= last->second && now - last->second < kSampleSeconds) return false;
  last->second = now;
  return true;
}

void Outcomes::keep(std::vector<Outcome> outcomes) {
  std::erase_if(outcomes, [&](const Outcome& one) { return !ledger_->add(one); });
  if (writer_ == nullptr || outcomes.empty()) return;
  writer_->post(
      [outcomes = std::move(outcomes)](store::Database& database) { return save(database, outcomes); });
}

Result<void> save(store::Database& database, const std::vector<Outcome>& outcomes) {
  for (const Outcome& o : outcomes)
    if (auto ok = database.run(
            "INSERT INTO prediction_outcomes (at, model, backend, quantity, basis, predicted, actual) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            {o.at, o.model, o.backend, std::string(to_string(o.quantity)), std::string(to_string(o.basis)),
             o.predicted, o.actual});
        !ok)
      return ok;
  return database.run(
      "DELETE FROM prediction_outcomes WHERE (SELECT max(id) - min(id) FROM prediction_outcomes) >= ?1 "
      "AND id <= (SELECT max(id) FROM prediction_outcomes) - ?2",
      {kMaxStored + kForgetEvery, kMaxStored});
}

Result<PredictionLedger> load_ledger(store::Database& database) {
  PredictionLedger ledger;
  const auto read = database.query(
      "SELECT at, model, backend, quantity, basis, predicted, actual FROM prediction_outcomes ORDER BY id",
      {}, [&](store::Row row) {
        const auto quantity = quantity_named(store::text(row[3]));
        const auto basis = basis_named(store::text(row[4]));
        if (quantity && basis)  // else a newer program's
          ledger.add({store::text(row[1]), store::text(row[2]), *quantity, *basis, store::number(row[5]),
                      store::number(row[6]), store::integer(row[0])});
        return true;
      });
  if (!read) return pass(read);
  return ledger;
}

}  // namespace flyball::measure
