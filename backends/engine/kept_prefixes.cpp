#include "backends/engine/kept_prefixes.hpp"

#include <algorithm>

#include "config/kept_prefix.hpp"

namespace flyball::engine {

Result<void> KeptPrefixes::keep(Scheduler& scheduler, const std::string& owner, const std::string& name,
                                std::span<const Token> tokens, std::uint64_t limit) {
  std::uint64_t of_owner = 0, of_all = 0;
  std::size_t names = 0;
  for (const auto& [key, prefix] : prefixes_) {
    if (key == Name(owner, name)) continue;
    of_all += prefix.tokens.size();
    if (key.first != owner) continue;
    of_owner += prefix.tokens.size();
    ++names;
  }
  const auto beside = [](std::uint64_t others) {
    return others == 0 ? std::string() : ", beside " + std::to_string(others) + " of other kept prefixes";
  };
  const std::string size = "The prefix " + name + " has " + std::to_string(tokens.size()) + " tokens";
  if (limit > 0 && of_owner + tokens.size() > limit)
    return fail(ErrorCode::token_limit_exceeded,
                size + beside(of_owner) + "; limits.kv_tokens is " + std::to_string(limit) + ".", "keep");
  const std::uint64_t most = std::uint64_t{kv_blocks_} / 2 * block_size_;
  if (of_all + tokens.size() > most)
    return fail(ErrorCode::insufficient_memory,
                size + beside(of_all) + "; kept prefixes may take half of the engine's KV, " +
                    std::to_string(most) + " tokens.",
                "keep");
  const auto known = prefixes_.find({owner, name});
  if (known == prefixes_.end() && (names >= config::kMaxKeptPrefixes || prefixes_.size() >= kMostInEngine))
    return fail(ErrorCode::overloaded,
                "The engine keeps " + std::to_string(prefixes_.size()) + " prefixes, " +
                    std::to_string(names) + " of this app; at most " + std::to_string(kMostInEngine) +
                    " are kept, and " + std::to_string(config::kMaxKeptPrefixes) + " of an app.",
                "keep");
  if (known != prefixes_.end() && std::ranges::equal(known->second.tokens, tokens)) return {};

  Prefix prefix{{tokens.begin(), tokens.end()}, {}, 0, 0};
  if (keyed_ && tokens.size() / block_size_ >= keyed_->least_blocks) {
    kv::ChainKey key = kv::root_key(keyed_->space, owner);
    for (; !tokens.empty(); tokens = tokens.subspan(block_size_))
      prefix.keys.push_back(key = kv::next_key(key, tokens.first(block_size_)));
  }
  scheduler.keep_prefix(owner, name, prefix.tokens);
  prefixes_.insert_or_assign({owner, name}, std::move(prefix));
  return {};
}

void KeptPrefixes::drop(Scheduler& scheduler, const std::string& owner, const std::string& name) {
  scheduler.drop_prefix(owner, name);
  prefixes_.erase({owner, name});
}

void KeptPrefixes::keep_again(Scheduler& scheduler) const {
  for (const auto& [key, prefix] : prefixes_) scheduler.keep_prefix(key.first, key.second, prefix.tokens);
}

void KeptPrefixes::used(const std::string& owner, std::string_view name, std::uint32_t tokens) {
  const auto it = prefixes_.find({owner, std::string(name)});
  if (it == prefixes_.end()) return;
  ++it->second.uses;
  it->second.saved_tokens += tokens;
}

std::vector<KeptPrefixState> KeptPrefixes::states(
    const kv::KvAccountant& kv, const std::function<bool(const kv::ChainKey&)>& on_disk) const {
  std::vector<KeptPrefixState> all;
  for (const auto& [key, prefix] : prefixes_) {
    KeptPrefixState state{key.first, key.second, static_cast<std::uint32_t>(prefix.tokens.size())};
    state.tokens_in_memory = kv.prefix_blocks(key.first, key.second) * block_size_;
    std::uint32_t there = state.tokens_in_memory / block_size_;  // the first ones: an index has whole runs
    for (std::uint32_t block = 0; on_disk && block < prefix.keys.size(); ++block) {
      if (!on_disk(prefix.keys[block])) continue;
      state.tokens_on_disk += block_size_;
      if (block == there) ++there;
    }
    state.tokens_there = there * block_size_;
    state.uses = prefix.uses;
    state.saved_tokens = prefix.saved_tokens;
    all.push_back(std::move(state));
  }
  return all;
}

}  // namespace flyball::engine
