#include "daemon/fleet/loans.hpp"

#include <algorithm>
#include <utility>

namespace flyball::fleet {

using std::chrono::steady_clock;

class Loans::LentMemory final : public Loan {
 public:
  LentMemory(Loans& loans, Governor::Id id, std::uint64_t kv_bytes)
      : loans_(loans), alive_(loans.alive_), id_(id), kv_bytes_(kv_bytes) {}
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;
  ~LentMemory() override {
    if (alive_.expired()) return;
    loans_.lent_.erase(id_);
    loans_.memory_.governor().gone(id_);
    loans_.changed_();
  }
  std::uint64_t kv_bytes() const override { return kv_bytes_; }
  void holds(std::uint64_t bytes) override {
    if (alive_.expired()) return;
    loans_.holds(id_, bytes);
  }

 private:
  Loans& loans_;
  const std::weak_ptr<bool> alive_;
  const Governor::Id id_;
  const std::uint64_t kv_bytes_;
};

void Loans::ask(Governor::Id id, const config::ModelEntry& model, const std::string& backend,
                const MemoryNeed& need, std::function<void(const std::string&)> give_back) {
  Asked& asked = lent_[id];
  asked.model = model.id;
  asked.backend = backend;
  asked.give_back = std::move(give_back);
  asked.margin_bytes = memory_.ask_spare(id, model, backend, need, steady_clock::now());
}

bool Loans::act(Governor::Action& action) {
  const auto at = lent_.find(action.id);
  if (at == lent_.end()) return false;
  Asked& asked = at->second;
  if (action.kind == Governor::Action::Kind::load) {
    asked.kv_bytes = action.kv_bytes;
    asked.granted = steady_clock::now();
  }
  if (action.kind == Governor::Action::Kind::refuse)
    asked.refused = NotLent{std::move(*action.error), action.for_good};
  if (action.kind == Governor::Action::Kind::end) asked.give_back(action.why);
  return true;
}

Lent Loans::answer(Governor::Id id) {
  const auto at = lent_.find(id);
  if (!at->second.refused) return std::make_unique<LentMemory>(*this, id, at->second.kv_bytes);
  NotLent why = std::move(*at->second.refused);
  lent_.erase(at);
  return std::unexpected(std::move(why));
}

void Loans::holds(Governor::Id id, std::uint64_t bytes) {
  const auto now = steady_clock::now();
  const Asked& asked = lent_.at(id);
  const std::uint64_t granted = memory_.governor().bytes(id);
  memory_.governor().ready(id, {}, bytes, now);
  // A measuring process loads otherwise than an engine starts: its time says nothing.
  if (loaded_)
    loaded_({asked.model, asked.backend, granted - std::min(granted, asked.margin_bytes), bytes, {}});
  changed_();
}

}  // namespace flyball::fleet
