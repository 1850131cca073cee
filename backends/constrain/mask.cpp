#include "backends/constrain/mask.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "backends/constrain/safe_text.hpp"

namespace flyball::constrain {
namespace {

// How many frames of the stack a mask is first sought with. Tokens rarely close more than three levels.
constexpr std::array<std::uint32_t, 12> kDepths{1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 256, Automaton::kWhole};

// Pairs of places in the grammar and in a character that a look at safe text may meet. Without bounds on
// lengths a string has 8; with a bound each character has its own 8.
constexpr std::size_t kPairs = 64, kPairsBounded = 512;

}  // namespace

Masks::Masks(std::shared_ptr<Automaton> automaton, std::shared_ptr<const Vocabulary> vocabulary,
             std::size_t memory)
    : automaton_(std::move(automaton)), vocabulary_(std::move(vocabulary)), memory_(memory) {}

Masks::~Masks() {
  forget();
}

void Masks::forget() {
  for (const auto& [view, mask] : masks_) automaton_->release(view);
  masks_.clear();
  by_set_.clear();
  used_ = 0;
}

Result<std::size_t> Masks::fill(const Matcher& at, std::span<std::uint64_t> bits) {
  if (automaton_->is_full()) automaton_->collect({});
  if (collections_ != automaton_->collections()) by_set_.clear();
  collections_ = automaton_->collections();
  const auto known = by_set_.find(at.now());
  const Mask* mask = known != by_set_.end() ? known->second : find(at.now());
  if (mask == nullptr) return overflow(*automaton_);
  if (mask->bits.empty()) {
    std::ranges::copy(vocabulary_->bits(mask->slices), bits.begin());
    for (const TokenId token : mask->tokens) bits[token / 64] |= std::uint64_t{1} << token % 64;
  } else {
    std::ranges::copy(mask->bits, bits.begin());
  }
  if (!at.can_end()) return mask->count;
  for (const TokenId token : vocabulary_->ends()) bits[token / 64] |= std::uint64_t{1} << token % 64;
  return mask->count + vocabulary_->ends().size();
}

const Masks::Mask* Masks::find(SetId at) {
  for (const std::uint32_t depth : kDepths) {
    const SetId view = automaton_->view(at, depth, vocabulary_->longest());
    if (view == Automaton::kOverflow) return nullptr;
    auto known = masks_.find(view);
    if (known == masks_.end()) {
      automaton_->hold(view);
      Mask mask;
      const Outcome outcome = make(view, mask);
      if (outcome == Outcome::overflow) {
        automaton_->release(view);
        return nullptr;
      }
      if (outcome == Outcome::cut) {
        mask = {};
        mask.cut = true;
      }
      pack(mask);
      if (used_ + bytes_of(mask) > memory_) forget();
      used_ += bytes_of(mask);
      known = masks_.emplace(view, std::move(mask)).first;
    }
    if (known->second.cut) continue;
    if (collections_ == automaton_->collections()) by_set_.emplace(at, &known->second);
    return &known->second;
  }
  return nullptr;
}

Masks::Outcome Masks::make(SetId view, Mask& mask) {
  // The rest first: its tokens close strings and objects, so that a stack that is cut too short shows early.
  Outcome outcome = walk(vocabulary_->rest(), view, mask);
  if (outcome != Outcome::done) return outcome;
  for (std::size_t slice = Vocabulary::kSlices; slice > 0; --slice) {
    const std::size_t characters = Vocabulary::kCharacters[slice - 1];
    const auto [looked, allowed] =
        allows_text(view, characters, slice == Vocabulary::kSlices ? kPairs : kPairsBounded);
    if (looked != Outcome::done) return looked;
    if (!allowed) continue;
    mask.slices = static_cast<std::uint32_t>(slice);
    break;
  }
  for (std::size_t slice = mask.slices; slice < Vocabulary::kSlices; ++slice) {
    outcome = walk(vocabulary_->slice(slice), view, mask);
    if (outcome != Outcome::done) return outcome;
  }
  mask.count = static_cast<std::uint32_t>(vocabulary_->count(mask.slices) + mask.tokens.size());
  return Outcome::done;
}

Masks::Outcome Masks::walk(const Trie& trie, SetId from, Mask& mask) {
  if (path_.size() <= trie.depth) path_.resize(trie.depth + 1);
  path_[0] = from;
  const Trie::Node* const nodes = trie.nodes.data();
  const auto end = static_cast<std::uint32_t>(trie.nodes.size());
  for (std::uint32_t i = 0; i < end;) {
    const Trie::Node node = nodes[i];
    const SetId to = automaton_->next(path_[node.depth - 1], static_cast<std::uint8_t>(node.byte));
    if (to == Automaton::kDead) {
      i = node.after;
      continue;
    }
    if (to == Automaton::kOverflow) return Outcome::overflow;
    const bool goes_on = node.after > i + 1;
    if (goes_on && automaton_->is_cut(to)) return Outcome::cut;
    path_[node.depth] = to;
    if (node.token != Trie::kNone) {
      mask.tokens.push_back(node.token);
      if (node.has_twins)
        vocabulary_->each_twin(node.token, [&](TokenId twin) { mask.tokens.push_back(twin); });
    }
    if (automaton_->is_full()) automaton_->collect(std::span(path_).first(node.depth + 1));
    ++i;
  }
  return Outcome::done;
}

// Whether every safe text of up to so many characters goes on from here; false, too, if that takes more
// pairs.
std::pair<Masks::Outcome, bool> Masks::allows_text(SetId from, std::size_t characters, std::size_t pairs) {
  struct Pair {
    SetId set = 0;
    safe_text::State state = safe_text::kBetween;
    std::size_t characters = 0;
  };
  const auto& class_of = automaton_->program().class_of;
  std::vector<Pair> work{{from}};
  std::map<std::pair<SetId, safe_text::State>, std::size_t> seen{{{from, safe_text::kBetween}, 0}};
  for (std::size_t i = 0; i < work.size(); ++i) {
    const Pair at = work[i];
    const bool begins = at.state == safe_text::kBetween;
    if (begins && at.characters == characters) continue;
    // An unbounded look counts nothing, so that it ends.
    const std::size_t count =
        begins && characters != Vocabulary::kCharacters.back() ? at.characters + 1 : at.characters;
    for (const auto& edge : safe_text::edges(at.state)) {
      for (std::size_t byte = edge.from; byte <= edge.to; ++byte) {
        if (byte > edge.from && class_of[byte] == class_of[byte - 1]) continue;
        const SetId to = automaton_->next(at.set, static_cast<std::uint8_t>(byte));
        if (to == Automaton::kDead) return {Outcome::done, false};
        if (to == Automaton::kOverflow) return {Outcome::overflow, false};
        if (automaton_->is_cut(to)) return {Outcome::cut, false};
        const auto [known, is_new] = seen.try_emplace({to, edge.next}, count);
        if (!is_new && known->second <= count) continue;
        known->second = count;
        if (seen.size() > pairs) return {Outcome::done, false};
        work.push_back({to, edge.next, count});
      }
    }
  }
  return {Outcome::done, true};
}

void Masks::pack(Mask& mask) const {
  if (mask.tokens.size() * sizeof(TokenId) <= vocabulary_->words() * sizeof(std::uint64_t)) {
    mask.tokens.shrink_to_fit();
    return;
  }
  const auto slices = vocabulary_->bits(mask.slices);
  mask.bits.assign(slices.begin(), slices.end());
  for (const TokenId token : mask.tokens) mask.bits[token / 64] |= std::uint64_t{1} << token % 64;
  mask.tokens = {};
}

std::size_t Masks::bytes_of(const Mask& mask) const {
  constexpr std::size_t kIndex = 96;  // of the entries of masks_ and by_set_
  return sizeof(Mask) + kIndex + mask.tokens.capacity() * sizeof(TokenId) +
         mask.bits.capacity() * sizeof(std::uint64_t);
}

}  // namespace flyball::constrain
