// Which words of a text describe one machine: "a mac mini and a 4090 pc" are two.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "policy/machines.hpp"
#include "policy/scenario.hpp"

namespace flyball::policy {

// board: a single-board computer without a GPU. unified: a chip of the table that is not Apple's.
enum class Host : std::uint8_t { none, apple, board, unified, deck, phone, laptop, pc };

// The machine that the words so far describe.
struct MachineWords {
  Host host = Host::none;
  const Machine* chip = nullptr;  // its chip of the table, where it has one
  std::string form;               // of a Mac: "macbook", "mini", "studio", "imac", "pro"; "" where not said
  std::string card;               // vendor of a discrete card, "any" where no vendor is said; "" without one
  bool intel = false;             // a Mac with an Intel processor
  bool strong = false;            // a word that no Mac is called: "gaming pc"

  bool empty() const noexcept { return host == Host::none && card.empty(); }
};

// The words of one pattern about its machine; either `word` or `machine` is set. `said`: the words in small
// letters.
MachineWords machine_words(const ScenarioWord* word, const Machine* machine, std::string_view said);

// The words before a machine: none, "and", "and a".
enum class Apart : std::uint8_t { no, joined, joined_with_article };
// Whether `next` cannot be part of the machine that `now` describes.
bool another_machine(const MachineWords& now, const MachineWords& next, Apart apart);
// Whether `next` is a second mention of `first`.
bool same_machine(const MachineWords& first, const MachineWords& next);
void add_words(MachineWords& now, const MachineWords& next);

}  // namespace flyball::policy
