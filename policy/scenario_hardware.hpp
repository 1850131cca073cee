// Reads the hardware in a text: the machine that the advice is for, its cards, their counts and their memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "policy/scenario_machines.hpp"
#include "policy/scenario_scan.hpp"

namespace flyball::policy {

// Whether the pattern describes a machine or a part of one.
bool is_hardware(const Pattern& pattern);

class HardwareReader {
 public:
  explicit HardwareReader(Scan& scan) : scan_(scan) {}

  // Ends an alternative machine, which does not outlast its phrase.
  void end_phrase();
  // "and a 4090 pc" behind "mac mini": what follows is of another machine.
  void look_for_another_machine(std::size_t at);

  // The read_ functions return the number of atoms that they read; 0: no such words are here.

  // "x2", "2x" and "two of them" behind a card or a machine and its size.
  std::size_t read_count_behind(std::size_t at);
  // "8 H100 across 2 servers", "2 servers with 8 H100 in total": those of all machines.
  std::size_t read_spread(std::size_t at);
  // "2 x 24GB GPUs", "two 12 GB RTX 3060", "2x32GB RAM": so many, each of this size.
  std::size_t read_counted_size(std::size_t at);
  // A bare size: of the machine or card before it, else of the one behind it. `longest`: atoms of the longest
  // pattern here.
  std::size_t read_size(std::size_t at, std::size_t longest);
  // A year, which tells Macs apart. The caller finds it.
  std::size_t read_year(std::size_t at, int year);

  // Whether these words are of a machine that the answer leaves out; they are kept with its name.
  bool set_aside(std::size_t at, std::size_t length);
  // Settles which machine the pattern describes. Returns whether the answer leaves it out.
  bool place(const Match& found, std::size_t at, const std::string& words);
  // The match with the count that stands before its size: "2 x 24GB GPUs".
  Match with_count(const Match& found) const;
  void take_machine(const Match& found, const std::string& words);
  // "48 GB total". Returns false for any other row.
  bool take_total(const Match& found, const std::string& words);
  // "M4 Max with a 40 core GPU": whether this GPU is the one of its chip.
  bool is_gpu_of_chip(const Match& found) const;
  // The counts, sizes and processors of a row of the vocabulary. The caller adds the row's facts before.
  void take_word(const Match& found, const std::string& words);
  // Adds the facts of the first machine, when the whole text is read.
  void settle();

 private:
  enum class Last : std::uint8_t { nothing, named, card, machine };
  enum class Aside : std::uint8_t { none, alternative, other };  // an alternative ends with its phrase

  // A machine or a card of the table, as often as the words name it.
  struct Named {
    const Machine* machine = nullptr;
    double count = 1;
    bool counted = false;
    double memory = 0;  // GiB of each, as the words say it; 0: they do not
    std::string words;

    bool is_card() const noexcept { return machine->kind == Machine::Class::discrete; }
  };
  // A machine that the answer leaves out.
  struct Other {
    std::string words;
    bool alternative = false;
  };
  struct Total {
    double gib = 0;
    std::string words;
  };

  Named* last_named() { return !named_.empty() && last_ == Last::named ? &named_.back() : nullptr; }
  double count_at(std::size_t at) const;
  double gib_at(std::size_t at) const;
  std::size_t size_of_card(Named& named, double gib, std::size_t at, std::size_t length, bool each,
                           bool adjacent);
  std::size_t ambiguous(std::size_t at, std::size_t length);
  void count_cards(double count, const std::string& words);

  void begin_aside(Aside aside);
  void end_aside();
  void describe(const Match& found, std::size_t at, const std::string& words);

  bool is_intel_mac(const MachineWords& mac) const;
  void forget_apple_silicon();
  double memory_of(const Named& named) const;
  double nodes() const;
  void settle_others();
  void settle_mac();
  void settle_machines();
  void settle_cards(const std::vector<Named*>& cards);
  void share_cards(const std::vector<Named*>& cards);
  void settle_total();

  Scan& scan_;
  std::vector<Named> named_;
  Named generic_;  // GPUs that are counted without a name of their own
  Last last_ = Last::nothing;
  std::size_t hardware_end_ = 0;                 // the atom behind the last words of the first machine
  double pending_size_ = 0, pending_count_ = 0;  // of the machine or card that follows

  MachineWords now_, first_;  // what the words say of the machine at this place, and of the first one
  std::string first_words_, mac_words_;
  std::vector<Other> others_;
  Aside aside_ = Aside::none;

  Total total_;
  int year_ = 0;
  bool intel_ = false, spread_ = false, laptop_ = false;
};

}  // namespace flyball::policy
