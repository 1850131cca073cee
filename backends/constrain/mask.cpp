#include "backends/constrain/mask.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <utility>

#include "backends/constrain/safe_text.hpp"

namespace flyball::constrain {
namespace {

// How many frames of the stack a mask is first sought with. Tokens rarely close more than three levels.
constexpr std::array<std::uint32_t, 12> kDepths{1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 256, Automaton::kWhole};

// Places that a look at text keeps at one time. A string has one; more come of grammars that differ by what
// was read, whose text a walk sees better.
constexpr std::size_t kPlaces = 16;

}  // namespace

Masks::Masks(std::shared_ptr<Automaton> automaton, std::shared_ptr<const Vocabulary> vocabulary,
             MaskLimits limits)
    : automaton_(std::move(automaton)),
      vocabulary_(std::move(vocabulary)),
      limits_(limits),
      found_(vocabulary_->words()) {}

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
  const auto found = known != by_set_.end() ? Result<const Mask*>(known->second) : find(at.now());
  if (!found) return pass(found);
  const Mask* const mask = *found;
  if (mask->bits.empty()) {
    std::ranges::copy(vocabulary_->bits(mask->text), bits.begin());
    for (const TokenId token : mask->tokens) bits[token / 64] |= std::uint64_t{1} << token % 64;
  } else {
    std::ranges::copy(mask->bits, bits.begin());
  }
  if (!at.can_end()) return mask->count;
  for (const TokenId token : vocabulary_->ends()) bits[token / 64] |= std::uint64_t{1} << token % 64;
  return mask->count + vocabulary_->ends().size();
}

Result<const Masks::Mask*> Masks::find(SetId at) {
  begun_ = automaton_->work();
  walked_ = 0;
  collected_ = false;
  const Mask* mask = nullptr;
  Outcome outcome = find(at, mask);
  if (outcome == Outcome::overflow && automaton_->met() == Overflow::memory) {
    forget();
    collect({});
    outcome = find(at, mask);
  }
  all_work_ += spent();
  if (outcome == Outcome::overflow) return overflow(*automaton_);
  if (outcome == Outcome::costly) {
    return fail(ErrorCode::unsupported_feature, "a mask of the grammar takes more than " +
                                                    std::to_string(limits_.work) +
                                                    " steps; make it less ambiguous");
  }
  // A collection in between renumbers the sets that by_set_ knows.
  if (collections_ == automaton_->collections()) by_set_.emplace(at, mask);
  return mask;
}

// A mask's first collection is not charged to it: others may have filled the automaton.
void Masks::collect(std::span<const SetId> keep) {
  const std::uint64_t before = automaton_->work();
  automaton_->collect(keep);
  if (!std::exchange(collected_, true)) begun_ += automaton_->work() - before;
}

Masks::Outcome Masks::find(SetId at, const Mask*& found) {
  for (const std::uint32_t depth : kDepths) {
    const SetId view = automaton_->view(at, depth, vocabulary_->longest());
    if (view == Automaton::kOverflow) return Outcome::overflow;
    if (spent() > limits_.work) return Outcome::costly;
    auto known = masks_.find(view);
    if (known == masks_.end()) {
      automaton_->hold(view);
      Mask mask;
      const Outcome outcome = make(view, mask);
      if (outcome == Outcome::overflow || outcome == Outcome::costly) {
        automaton_->release(view);
        return outcome;
      }
      if (outcome == Outcome::cut) {
        mask = {};
        mask.cut = true;
      }
      pack(mask);
      if (used_ + bytes_of(mask) > limits_.memory) forget();
      used_ += bytes_of(mask);
      known = masks_.emplace(view, std::move(mask)).first;
    }
    found = &known->second;
    if (!found->cut) return Outcome::done;
  }
  std::unreachable();  // a whole stack is never cut
}

Masks::Outcome Masks::make(SetId view, Mask& mask) {
  std::ranges::fill(found_, 0);
  // The rest first: its tokens close strings and objects, so that a stack that is cut too short shows early.
  Outcome outcome = walk(vocabulary_->rest(), view);
  Text text;
  if (outcome == Outcome::done) outcome = look_at_text(view, text);
  if (text.free != Automaton::kDead) {
    automaton_->hold(text.free);  // a walk may collect
    const auto all = vocabulary_->bits(Vocabulary::kAll);
    for (std::size_t word = 0; word < found_.size(); ++word) found_[word] |= all[word];
  }
  for (std::size_t i = 0; i < Vocabulary::kSlices && outcome == Outcome::done; ++i) {
    if (text.more && Vocabulary::kBounds[i + 1] > text.all)
      outcome = walk(vocabulary_->slice(i), view, text.free);
  }
  if (text.free != Automaton::kDead) automaton_->release(text.free);
  mask.text = static_cast<std::uint32_t>(text.all);
  return outcome;
}

Masks::Outcome Masks::walk(const Trie& trie, SetId from, SetId free) {
  constexpr std::uint64_t kNodesPerWork = 3;  // a node takes about 3 ns
  if (path_.size() <= trie.depth) path_.resize(trie.depth + 1);
  SetId* const path = path_.data();
  path[0] = from;
  const Trie::Node* const nodes = trie.nodes.data();
  const auto end = static_cast<std::uint32_t>(trie.nodes.size());
  std::uint64_t visited = 0;
  for (std::uint32_t i = 0; i < end;) {
    const Trie::Node node = nodes[i];
    const SetId at = path[node.depth - 1];
    ++visited;
    SetId to = automaton_->known_next(at, static_cast<std::uint8_t>(node.byte));
    if (to == Automaton::kUnknown) {
      to = automaton_->next(at, static_cast<std::uint8_t>(node.byte));
      path[node.depth] = to;
      if (automaton_->is_full()) collect(std::span(path_).first(node.depth + 1));
      if (spent() + visited / kNodesPerWork > limits_.work) return Outcome::costly;
    }
    if (to == Automaton::kDead) {
      if (free != Automaton::kDead) {
        for (std::uint32_t dead = i; dead < node.after; ++dead) {
          if (nodes[dead].token != Trie::kNone) take_out(nodes[dead]);
        }
        visited += node.after - i;
      }
      i = node.after;
      continue;
    }
    if (to == free) {
      i = node.after;
      continue;
    }
    if (to != at) {
      if (to == Automaton::kOverflow) return Outcome::overflow;
      const bool goes_on = node.after > i + 1;
      if (goes_on && automaton_->is_cut(to)) {
        walked_ += visited / kNodesPerWork;
        return Outcome::cut;
      }
    }
    path[node.depth] = to;
    if (node.token != Trie::kNone && free == Automaton::kDead) {
      found_[node.token / 64] |= std::uint64_t{1} << node.token % 64;
      if (node.has_twins) {
        vocabulary_->each_twin(node.token,
                               [&](TokenId twin) { found_[twin / 64] |= std::uint64_t{1} << twin % 64; });
      }
    }
    ++i;
  }
  walked_ += visited / kNodesPerWork;
  return Outcome::done;
}

void Masks::take_out(const Trie::Node& node) {
  const auto take = [&](TokenId token) { found_[token / 64] &= ~(std::uint64_t{1} << token % 64); };
  take(node.token);
  if (node.has_twins) vocabulary_->each_twin(node.token, take);
}

// Character by character, all places together that text of so many characters leads to.
Masks::Outcome Masks::look_at_text(SetId from, Text& text) {
  const auto& class_of = automaton_->program().class_of;
  std::vector<SetId> places{from}, next;
  std::vector<std::pair<SetId, safe_text::State>> within;  // a character
  std::set<SetId> seen{from};
  bool leads_back = false;
  for (text.all = 0; text.all < Vocabulary::kCounted; ++text.all) {
    bool some_dead = false;
    next.clear();
    within.clear();
    for (const SetId place : places) within.emplace_back(place, safe_text::kBetween);
    for (std::size_t i = 0; i < within.size(); ++i) {
      const auto [at, state] = within[i];
      for (const auto& edge : safe_text::edges(state)) {
        for (std::size_t byte = edge.from; byte <= edge.to; ++byte) {
          if (byte > edge.from && class_of[byte] == class_of[byte - 1]) continue;
          const SetId to = automaton_->next(at, static_cast<std::uint8_t>(byte));
          if (to == Automaton::kOverflow) return Outcome::overflow;
          walked_ += 1 + within.size() / 16;  // looks through `within` below
          if (spent() > limits_.work) return Outcome::costly;
          if (automaton_->is_cut(to)) return Outcome::cut;
          const std::pair pair{to, edge.next};
          if (to == Automaton::kDead) {
            some_dead = true;
          } else if (edge.next != safe_text::kBetween) {
            if (std::ranges::find(within, pair) == within.end()) within.push_back(pair);
          } else if (seen.insert(to).second) {
            next.push_back(to);
          } else if (std::ranges::find(next, to) == next.end()) {
            leads_back = true;  // to a place that goes on with all text, as far as was looked
          }
        }
      }
      if ((some_dead && (leads_back || !next.empty())) || within.size() > kPlaces * 8) {
        text.free = free_place(seen);
        return Outcome::done;
      }
    }
    if (some_dead) {
      text.more = false;
      return Outcome::done;
    }
    if (next.empty()) {
      text = {.all = Vocabulary::kAll, .more = false};
      return Outcome::done;
    }
    if (next.size() > kPlaces) {
      ++text.all;
      text.free = free_place(seen);
      return Outcome::done;
    }
    std::swap(places, next);
  }
  return Outcome::done;
}

Masks::SetId Masks::free_place(const std::set<SetId>& places) {
  const auto found = std::ranges::find_if(places, [&](SetId place) { return is_free(place); });
  return found == places.end() ? Automaton::kDead : *found;
}

bool Masks::is_free(SetId place) {
  const auto& class_of = automaton_->program().class_of;
  std::vector<std::pair<SetId, safe_text::State>> within{{place, safe_text::kBetween}};
  for (std::size_t i = 0; i < within.size(); ++i) {
    const auto [at, state] = within[i];
    for (const auto& edge : safe_text::edges(state)) {
      for (std::size_t byte = edge.from; byte <= edge.to; ++byte) {
        if (byte > edge.from && class_of[byte] == class_of[byte - 1]) continue;
        const SetId to = automaton_->next(at, static_cast<std::uint8_t>(byte));
        ++walked_;
        if (to == Automaton::kDead || to == Automaton::kOverflow || automaton_->is_cut(to)) return false;
        if (edge.next == safe_text::kBetween) {
          if (to != place) return false;
        } else if (std::ranges::find(within, std::pair{to, edge.next}) == within.end()) {
          within.emplace_back(to, edge.next);
        }
      }
    }
    if (within.size() > kPlaces) return false;
  }
  return true;
}

// Keeps what was found as a list of tokens, or as bits where the list would be larger.
void Masks::pack(Mask& mask) const {
  if (mask.cut) return;
  const auto text = vocabulary_->bits(mask.text);
  std::size_t beside = 0;
  for (std::size_t word = 0; word < found_.size(); ++word) {
    if (const std::uint64_t more = found_[word] & ~text[word]; more != 0)
      beside += static_cast<std::size_t>(std::popcount(more));
  }
  mask.count = static_cast<std::uint32_t>(vocabulary_->count(mask.text) + beside);
  if (beside * sizeof(TokenId) > found_.size() * sizeof(std::uint64_t)) {
    mask.bits.resize(found_.size());
    for (std::size_t word = 0; word < found_.size(); ++word) mask.bits[word] = found_[word] | text[word];
    return;
  }
  mask.tokens.reserve(beside);
  for (std::size_t word = 0; word < found_.size(); ++word) {
    for (std::uint64_t left = found_[word] & ~text[word]; left != 0; left &= left - 1) {
      mask.tokens.push_back(
          static_cast<TokenId>(word * 64 + static_cast<std::size_t>(std::countr_zero(left))));
    }
  }
}

std::size_t Masks::bytes_of(const Mask& mask) const {
  // The entries of masks_ and by_set_, and the view, which the automaton cannot collect while it is held.
  const std::size_t kept = 400 + automaton_->program().classes * sizeof(SetId);
  return sizeof(Mask) + kept + mask.tokens.capacity() * sizeof(TokenId) +
         mask.bits.capacity() * sizeof(std::uint64_t);
}

}  // namespace flyball::constrain
