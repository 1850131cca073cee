#include "daemon/fleet/loans.hpp"

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
    loans_.memory_.governor().ready(id_, {}, bytes, steady_clock::now());
    loans_.changed_();
  }

 private:
  Loans& loans_;
  const std::weak_ptr<bool> alive_;
  const Governor::Id id_;
  const std::uint64_t kv_bytes_;
};

void Loans::ask(Governor::Id id, const config::ModelEntry& model, const std::string& backend,
                const MemoryNeed& need, std::function<void(const std::string&)> give_back) {
  lent_[id].give_back = std::move(give_back);
  memory_.ask_spare(id, model, backend, need, steady_clock::now());
}

bool Loans::act(Governor::Action& action) {
  const auto at = lent_.find(action.id);
  if (at == lent_.end()) return false;
  Lent& lent = at->second;
  if (action.kind == Governor::Action::Kind::load) lent.kv_bytes = action.kv_bytes;
  if (action.kind == Governor::Action::Kind::refuse) lent.refused = std::move(action.error);
  if (action.kind == Governor::Action::Kind::end) lent.give_back(action.why);
  return true;
}

Result<std::unique_ptr<Loan>> Loans::answer(Governor::Id id) {
  const auto at = lent_.find(id);
  if (!at->second.refused) return std::make_unique<LentMemory>(*this, id, at->second.kv_bytes);
  const Error why = std::move(*at->second.refused);
  lent_.erase(at);
  return std::unexpected(why);
}

}  // namespace flyball::fleet
