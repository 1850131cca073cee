// The tokens of a vocabulary that may come next at a place of a grammar. Places that agree in all that a walk
// looked at share a mask; a bound limits the masks' memory. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "backends/constrain/automaton.hpp"
#include "backends/constrain/matcher.hpp"
#include "backends/constrain/vocabulary.hpp"
#include "config/error.hpp"

namespace flyball::constrain {

struct MaskLimits {
  std::size_t memory = 16 << 20;  // bytes of masks; all are forgotten over it
  // Work for one mask, in the automaton's units: 33 to 50 ms in the worst case that was found, tokens that
  // each lead to a stack of their own. Masks of plain grammars take some thousands.
  std::uint64_t work = 4'000'000;
};

class Masks {
 public:
  Masks(std::shared_ptr<Automaton> automaton, std::shared_ptr<const Vocabulary> vocabulary,
        MaskLimits limits = {});
  Masks(const Masks&) = delete;
  Masks& operator=(const Masks&) = delete;
  ~Masks();

  // Writes bit t of `bits` (word t / 64, of vocabulary.words()) for every token t: the matcher would accept
  // its bytes, or it is an end token and the word may end here. The number of tokens allowed; 0 is a place
  // that the vocabulary has no way on from. Fails with unsupported_feature where the walk meets a limit of
  // the automaton or takes too much work. Precondition: the matcher plays this automaton. A mask takes counts
  // far from their bounds for one count, so that it sees fewer configurations than the matcher: accept() may
  // still fail with an error (never return false) for an allowed token, if the token leads over a limit of
  // the automaton.
  Result<std::size_t> fill(const Matcher& at, std::span<std::uint64_t> bits);

  std::size_t memory() const noexcept { return used_; }
  std::uint64_t work() const noexcept { return spent(); }  // of the latest mask that was made
  // The work of all masks so far.
  std::uint64_t all_work() const noexcept { return all_work_; }
  std::size_t size() const noexcept { return masks_.size(); }
  // Gives up all masks, and with them the sets of the automaton that they hold.
  void forget();

 private:
  using SetId = Automaton::SetId;
  // cut: the mask depends on frames that are cut off. overflow: of the automaton. costly: over the limit of
  // work.
  enum class Outcome : std::uint8_t { done, cut, overflow, costly };
  struct Mask {
    bool cut = false;
    std::uint32_t text = 0;           // safe tokens of up to so many characters, as in Vocabulary::bits
    std::uint32_t count = 0;          // tokens
    std::vector<TokenId> tokens;      // beside the safe ones
    std::vector<std::uint64_t> bits;  // instead of both where those are many
  };
  // The safe text that goes on from a place: all of up to so many characters, and perhaps some that is
  // longer. `free`: a place that text leads to and that all text leads back to, kDead if none was found. Text
  // is well-formed here: no grammar accepts malformed UTF-8.
  struct Text {
    std::size_t all = 0;
    bool more = true;
    SetId free = Automaton::kDead;
  };

  Result<const Mask*> find(SetId at);
  Outcome find(SetId at, const Mask*& mask);
  std::uint64_t spent() const noexcept { return automaton_->work() - begun_ + walked_; }
  Outcome make(SetId view, Mask& mask);
  // Adds the tokens of the trie that go on from a place to found_. With a free place, whose text needs no
  // look, it takes the other tokens out of found_ instead; then all of the trie's have to be there.
  Outcome walk(const Trie& trie, SetId from, SetId free = Automaton::kDead);
  void take_out(const Trie::Node& node);
  Outcome look_at_text(SetId from, Text& text);
  SetId free_place(const std::set<SetId>& places);
  bool is_free(SetId place);
  void collect(std::span<const SetId> keep);
  void pack(Mask& mask) const;
  std::size_t bytes_of(const Mask& mask) const;

  std::shared_ptr<Automaton> automaton_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  MaskLimits limits_;
  std::size_t used_ = 0;
  std::unordered_map<SetId, Mask> masks_;          // by view, which is held
  std::unordered_map<SetId, const Mask*> by_set_;  // until the automaton collects
  std::uint64_t collections_ = 0;                  // at the time of by_set_
  std::uint64_t all_work_ = 0;
  // Scratch space of one mask.
  std::uint64_t begun_ = 0;   // the automaton's work before it
  std::uint64_t walked_ = 0;  // work of walks beside the automaton's
  bool collected_ = false;    // a collection is paid for: the mask may have met what others left
  std::vector<SetId> path_;   // of the walk, by depth
  std::vector<std::uint64_t> found_;
};

}  // namespace flyball::constrain
