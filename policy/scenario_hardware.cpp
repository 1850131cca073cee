// How counts and sizes find their machine or card, and which machine the advice is for.
#include "policy/scenario_hardware.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>
#include <string_view>

namespace flyball::policy {
namespace {

constexpr std::string_view kTotals = "# gb across|";  // the row of sizes that several share
// "x2" as "two of them".
constexpr std::array<std::string_view, 4> kThem{"them", "those", "these", "it"};
constexpr std::array<std::string_view, 3> kJoins{"and", "plus", "und"};
// Before the name of another machine: "and a 4090 pc".
constexpr std::array<std::string_view, 10> kArticles{"a",    "an",  "my",  "one",    "another",
                                                     "also", "the", "our", "second", "his"};
// Adjectives that stand before a machine's name.
constexpr std::array<std::string_view, 16> kOfMachines{
    "gaming", "home",  "old",       "older", "new",    "used",   "big",   "small",
    "spare",  "other", "dedicated", "cheap", "second", "little", "beefy", "separate"};
constexpr std::array<std::string_view, 3> kInside{"in", "inside", "on"};  // "one 3090 in my server"
// "8 H100 across 2 servers": behind cards.
constexpr std::array<std::string_view, 7> kSpread{"across",   "over",        "total", "altogether",
                                                  "combined", "distributed", "spread"};

// Owner of a bare size behind a pattern.
enum class Sizes : std::uint8_t { none, card, machine };

Sizes sizes_of(const Pattern& pattern) {
  if (pattern.machine)
    return pattern.machine->kind == Machine::Class::discrete ? Sizes::card : Sizes::machine;
  if (!pattern.word) return Sizes::none;
  if (pattern.word->facts.contains("hardware.gpu.discrete_count=#")) return Sizes::card;
  return pattern.word->facts.contains("hardware.gpu.integrated_count") ||
                 pattern.word->facts.contains("hardware.gpu.count") ||
                 pattern.word->facts.contains("topic=phone") || pattern.word->words.starts_with("pc|") ||
                 pattern.word->facts == kMachines
             ? Sizes::machine
             : Sizes::none;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (text.ends_with('s')) text.pop_back();
  return text;
}

MachineWords machine_words_of(const Match& found, const std::string& said) {
  if (!found.pattern || (!found.pattern->machine && !found.pattern->word)) return {};
  return machine_words(found.pattern->word, found.pattern->machine, said);
}

}  // namespace

bool is_hardware(const Pattern& pattern) {
  if (pattern.machine) return true;
  if (!pattern.word) return false;
  const std::string_view facts = pattern.word->facts, words = pattern.word->words;
  if (facts.empty()) return !words.starts_with("coding|") && !words.starts_with("user|");
  return facts.starts_with("hardware.") || facts.contains("topic=phone");
}

// ---- counts and sizes -------------------------------------------------------------------------------------

std::size_t HardwareReader::read_size(std::size_t at, std::size_t longest) {
  const double gib = longest > 2 ? 0 : gib_at(at);
  if (gib == 0) return 0;
  const bool each = scan_.text.next(at + 2) == "each" || scan_.text.next(at + 2) == "apiece";
  const std::size_t length = each ? 3 : 2;
  const std::string words = scan_.text.said(at, length);
  if (scan_.negated) return scan_.understand(at, length, "denied");
  const bool adjacent = scan_.text.before(at) != Break::hard;
  if (set_aside(at, length)) return length;
  Named* const named = last_named();
  if (named && named->is_card()) return size_of_card(*named, gib, at, length, each, adjacent);
  const bool card = last_ == Last::card;
  if (named || card || last_ == Last::machine) {
    const bool card_before =
        !named && !named_.empty() && named_.back().memory == 0 && named_.back().is_card();
    if (!each && card_before && named_.back().machine->has_memory(gib))  // "4060 laptop 8 GB"
      return ambiguous(at, length);
    if (named && named->memory == 0) named->memory = gib;
    const std::string fact = (card ? "hardware.gpu.memory=" : "hardware.memory.total=") + gib_text(gib);
    scan_.sayings.add(fact, words);
    return scan_.understand(at, length, fact);
  }
  // "4GB gtx 1650"
  Match ahead;
  if (scan_.text.next(at + length) != "") ahead = scan_.text.longest(at + length);
  if (ahead.pattern && sizes_of(*ahead.pattern) != Sizes::none) {
    pending_size_ = gib;
    return scan_.understand(at, length,
                            sizes_of(*ahead.pattern) == Sizes::card
                                ? "hardware.gpu.memory=" + gib_text(gib)
                                : "hardware.memory.total=" + gib_text(gib));
  }
  return ambiguous(at, length);
}

// Behind a card: its memory where it was sold with as much, that of all of them together, or the machine's.
std::size_t HardwareReader::size_of_card(Named& named, double gib, std::size_t at, std::size_t length,
                                         bool each, bool adjacent) {
  const Machine& machine = *named.machine;
  const std::string fact = "hardware.gpu.memory=" + gib_text(gib);
  if (named.memory == 0) {
    if (each || machine.memory.empty() || machine.has_memory(gib)) {
      named.memory = gib;
      return scan_.understand(at, length, fact);
    }
    if (named.counted && machine.has_memory(gib / named.count)) {  // "2x3090 48 GB"
      named.memory = gib / named.count;
      return scan_.understand(at, length, "hardware.gpu.memory_total=" + gib_text(gib));
    }
    constexpr double kMostOfAVariant = 2;  // "2080 Ti 22 GB": boards are sold with twice the memory
    if (adjacent && gib <= kMostOfAVariant * machine.memory.back()) return ambiguous(at, length);
  }
  scan_.sayings.add("hardware.memory.total=" + gib_text(gib), scan_.text.said(at, length));
  return scan_.understand(at, length, "hardware.memory.total=" + gib_text(gib));
}

std::size_t HardwareReader::ambiguous(std::size_t at, std::size_t length) {
  const std::string words = scan_.text.said(at, length);
  scan_.flush();
  scan_.reading.skipped.push_back(words);
  scan_.reading.notes.push_back("\"" + words + "\" may be a card's memory or the machine's: say VRAM or RAM");
  return length;
}

std::size_t HardwareReader::read_counted_size(std::size_t at) {
  const double count = count_at(at);
  if (count == 0 || scan_.negated || (at > 0 && scan_.text.before(at) == Break::none)) return 0;
  const bool times = scan_.text.next(at + 1) == "x";
  const std::size_t size_at = at + 1 + (times ? 1 : scan_.text.of_the(at + 1));
  const double gib = scan_.text.next(size_at).empty() ? 0 : gib_at(size_at);
  if (gib == 0 || (scan_.in_model_name && !times)) return 0;
  const std::size_t length = size_at + 2 - at;
  const Match unit = scan_.text.longest(size_at);
  if (unit.length > 2 && unit.pattern->word) {
    const std::string_view facts = unit.pattern->word->facts;
    const bool memory = facts.starts_with("hardware.memory.total="),
               vram = facts.starts_with("hardware.gpu.memory=");
    if (!times || (!memory && !vram)) return 0;
    const std::size_t all = size_at + unit.length - at;
    const std::string words = scan_.text.said(at, all);
    if (set_aside(at, all)) return all;
    const std::string fact =
        memory ? "hardware.memory.total=" + gib_text(count * gib) : "hardware.gpu.memory=" + gib_text(gib);
    scan_.sayings.add(fact, words);
    if (vram) count_cards(count, words);
    return scan_.understand(at, all, fact);
  }
  Named* const named = last_named();
  if (times && named && named->is_card() && !named->counted && named->memory == 0 &&
      named->machine->has_memory(gib) && !set_aside(at, length)) {
    named->count = count;
    named->counted = true;
    named->memory = gib;
    return scan_.understand(at, length, "hardware.gpu.memory=" + gib_text(gib));
  }
  Match ahead;
  if (scan_.text.next(size_at + 2) != "") ahead = scan_.text.longest(size_at + 2);
  if (!ahead.pattern || ahead.counted || !ahead.pattern->counted) return 0;
  const Sizes sizes = sizes_of(*ahead.pattern);
  if (sizes == Sizes::none) return 0;
  if (set_aside(at, length)) return length;
  pending_size_ = gib;
  pending_count_ = count;
  return scan_.understand(
      at, length, (sizes == Sizes::card ? "hardware.gpu.memory=" : "hardware.memory.total=") + gib_text(gib));
}

std::size_t HardwareReader::read_count_behind(std::size_t at) {
  if (hardware_end_ == 0 || aside_ != Aside::none) return 0;
  for (std::size_t i = hardware_end_; i < at; ++i)
    if (!is_filler(scan_.text.word(i))) return 0;
  std::size_t length = 0;
  double count = count_at(at);
  const auto unit = [&](std::size_t i) {
    return among(std::array<std::string_view, 4>{"gb", "tb", "b", "k"}, scan_.text.next(i));
  };
  if (at == hardware_end_ && scan_.text.word(at) == "x" && !scan_.text.next(at + 1).empty() &&
      !unit(at + 2)) {
    count = count_at(at + 1);
    length = 2;
  } else if (scan_.text.next(at + 1) == "of" && among(kThem, scan_.text.next(at + 2))) {
    length = 3;
  } else if (at == hardware_end_ && scan_.text.next(at + 1) == "x" && scan_.text.next(at + 2).empty()) {
    length = 2;
  }
  if (length == 0 || count == 0) return 0;
  const std::string words = scan_.text.said(at, length);
  if (Named* const named = last_named()) {
    if (named->counted) return 0;
    named->count = count;
    named->counted = true;
  } else if (last_ == Last::card) {
    if (generic_.counted) return 0;
    count_cards(count, words);
  } else if (last_ == Last::machine) {
    scan_.sayings.add(filled("hardware.cluster.nodes=#", count), words);
  } else {
    return 0;
  }
  hardware_end_ = at + length;
  return scan_.understand(at, length, "a count");
}

void HardwareReader::count_cards(double count, const std::string& words) {
  scan_.sayings.add(filled("hardware.gpu.discrete_count=#", count), words);
  generic_ = {nullptr, count, true, 0, words};
  last_ = Last::card;
}

std::size_t HardwareReader::read_spread(std::size_t at) {
  const Named* const named = last_named();
  const bool cards = named ? named->is_card() && named->counted : last_ == Last::card && generic_.counted;
  if (!cards || aside_ != Aside::none || at < hardware_end_) return 0;
  for (std::size_t i = hardware_end_; i < at; ++i)
    if (!is_filler(scan_.text.word(i))) return 0;
  if (!among(kSpread, scan_.text.word(at)) || scan_.text.before(at) == Break::hard) return 0;
  spread_ = true;
  hardware_end_ = at + 1;
  return 1;
}

std::size_t HardwareReader::read_year(std::size_t at, int year) {
  if (set_aside(at, 1)) return 1;
  year_ = year;
  return scan_.understand(at, 1, "a year");
}

// A whole number of machines or cards; 0: none stands here.
double HardwareReader::count_at(std::size_t at) const {
  const auto count = at < scan_.text.size() ? number_of(scan_.text.word(at)) : std::nullopt;
  return count && *count == std::floor(*count) && *count >= 1 && *count <= kMostOfACount ? *count : 0;
}

// "24 GB"; 0: no size stands here.
double HardwareReader::gib_at(std::size_t at) const {
  const auto number = number_of(scan_.text.word(at));
  if (!number || (scan_.text.next(at + 1) != "gb" && scan_.text.next(at + 1) != "tb")) return 0;
  const double gib = scan_.text.next(at + 1) == "tb" ? *number * 1024 : *number;
  return gib > 0 && gib <= kMaxScenarioNumber ? gib : 0;
}

// ---- several machines -------------------------------------------------------------------------------------

void HardwareReader::end_phrase() {
  if (aside_ == Aside::alternative) end_aside();
}

void HardwareReader::look_for_another_machine(std::size_t at) {
  const bool alternative = among(kAlternatives, scan_.text.word(at)),
             joins = among(kJoins, scan_.text.word(at));
  const bool sign = scan_.text.has_between(at, "+&"), listed = scan_.text.before(at) == Break::hard;
  if (now_.empty() || (!alternative && !joins && !sign && !listed)) return;
  constexpr std::size_t kMostModifiers = 12;
  std::size_t i = at + (alternative || joins ? 1 : 0);
  const std::size_t begin = i;
  Apart apart = alternative || joins || sign ? Apart::joined : Apart::no;
  if (apart == Apart::joined && among(kArticles, scan_.text.next(i))) apart = Apart::joined_with_article;
  MachineWords next;
  for (std::size_t n = 0; n < kMostModifiers && i < scan_.text.size() && next.host == Host::none; ++n) {
    if (i > begin && scan_.text.before(i) == Break::hard) break;
    const std::string& word = scan_.text.word(i);
    const Match found = scan_.text.longest(i);
    if (found.pattern && is_hardware(*found.pattern)) {
      add_words(next, machine_words_of(found, lower(scan_.text.said(i, found.length))));
      i += found.length;
    } else if (number_of(word) || word == "gb" || word == "tb" || word == "x" || among(kArticles, word) ||
               among(kOfMachines, word)) {
      ++i;
    } else if (apart != Apart::no && now_.host != Host::none && among(kInside, word) && !next.card.empty()) {
      ++i;  // "and one 3090 in my server"
    } else {
      break;
    }
  }
  if (next.empty() || !another_machine(now_, next, apart)) return;
  begin_aside(alternative ? Aside::alternative : Aside::other);
}

void HardwareReader::begin_aside(Aside aside) {
  scan_.flush();
  if (aside_ == Aside::none) first_ = now_;
  aside_ = aside;
  now_ = {};
  pending_size_ = pending_count_ = 0;
  others_.push_back({"", aside == Aside::alternative});
}

void HardwareReader::end_aside() {
  aside_ = Aside::none;
  now_ = first_;
}

bool HardwareReader::set_aside(std::size_t at, std::size_t length) {
  if (aside_ == Aside::none) {
    hardware_end_ = at + length;
    return false;
  }
  scan_.flush();
  std::string& words = others_.back().words;
  words += (words.empty() ? "" : " ") + scan_.text.said(at, length);
  return true;
}

bool HardwareReader::place(const Match& found, std::size_t at, const std::string& words) {
  const Pattern& pattern = *found.pattern;
  if (pattern.machine && scan_.alternative && !named_.empty() && aside_ == Aside::none)
    begin_aside(Aside::alternative);
  describe(found, at, words);
  if (pattern.machine) scan_.alternative = false;
  return is_hardware(pattern) && set_aside(at, found.length);
}

// Adds the words to those of the machine that they describe. They may begin another machine.
void HardwareReader::describe(const Match& found, std::size_t at, const std::string& words) {
  const MachineWords says = machine_words_of(found, lower(words));
  if (says.empty()) return;
  if (aside_ == Aside::none && now_.host == Host::apple && says.card == "amd" && is_intel_mac(now_)) {
    now_.intel = true;
    forget_apple_silicon();
  }
  const bool again = at > 0 && scan_.text.word(at - 1) == "the";
  if (aside_ == Aside::other && again && same_machine(first_, says))
    end_aside();
  else if (another_machine(now_, says, Apart::no))
    begin_aside(scan_.alternative ? Aside::alternative : Aside::other);
  add_words(now_, says);
  if (aside_ == Aside::none && says.host == Host::apple && mac_words_.empty()) mac_words_ = words;
  constexpr std::size_t kMostOfAName = 60;
  if (aside_ == Aside::none && first_words_.size() < kMostOfAName)
    first_words_ += (first_words_.empty() ? "" : " ") + words;
}

void HardwareReader::settle_others() {
  if (aside_ == Aside::none) first_ = now_;
  for (const Other& other : others_) {
    if (other.words.empty()) continue;
    if (other.alternative) {
      scan_.reading.notes.push_back("\"" + other.words + "\" is an alternative to \"" + first_words_ +
                                    "\": the advice is for " + first_words_ +
                                    ", ask for each alone to compare");
      scan_.reading.understood.push_back({other.words, "an alternative"});
    } else {
      scan_.reading.notes.push_back("\"" + other.words +
                                    "\" is another machine and is skipped: the advice is for \"" +
                                    first_words_ + "\", ask for each alone");
      scan_.reading.skipped.push_back(other.words);
    }
  }
}

// ---- patterns ---------------------------------------------------------------------------------------------

Match HardwareReader::with_count(const Match& found) const {
  Match counted = found;
  if (pending_count_ > 0 && found.pattern->counted && !found.counted) {
    counted.number = pending_count_;
    counted.counted = true;
  }
  return counted;
}

void HardwareReader::take_machine(const Match& found, const std::string& words) {
  const Machine& machine = *found.pattern->machine;
  named_.push_back({&machine, found.number, found.counted, pending_size_, words});
  if (machine.kind != Machine::Class::discrete && pending_size_ > 0)
    scan_.sayings.add("hardware.memory.total=" + gib_text(pending_size_), words);
  pending_size_ = pending_count_ = 0;
  last_ = Last::named;
  scan_.reading.understood.push_back({words, machine.names.front()});
}

bool HardwareReader::take_total(const Match& found, const std::string& words) {
  if (!found.pattern->word->words.starts_with(kTotals)) return false;
  total_ = {found.number, words};
  return true;
}

bool HardwareReader::is_gpu_of_chip(const Match& found) const {
  const bool one_memory = now_.host == Host::apple || now_.host == Host::unified || now_.host == Host::deck;
  return one_memory && !now_.intel && found.pattern->word->words.starts_with("gpu|") && !found.counted;
}

void HardwareReader::take_word(const Match& found, const std::string& words) {
  const ScenarioWord& row = *found.pattern->word;
  const std::string small = lower(words);
  intel_ |= small == "intel" || small.starts_with("xeon") || small.starts_with("core ") ||
            (small.size() > 1 && small.front() == 'i' && is_digit(small[1]));
  for (const std::string_view assignment : split_at(row.facts, ' '))
    if (found.counted && assignment.starts_with("hardware.gpu.discrete_count"))
      generic_ = {nullptr, found.number, true, 0, words};
  const Sizes sizes = sizes_of(*found.pattern);
  if (sizes != Sizes::none &&
      !(last_ == Last::named && row.facts.contains("hardware.gpu.discrete_count=#"))) {
    const bool beside = last_ == Last::named && !named_.empty() && named_.back().is_card();
    if (!beside || sizes == Sizes::machine) last_ = sizes == Sizes::card ? Last::card : Last::machine;
    if (pending_size_ > 0) {
      scan_.sayings.add((sizes == Sizes::card ? "hardware.gpu.memory=" : "hardware.memory.total=") +
                            gib_text(pending_size_),
                        words);
      pending_size_ = pending_count_ = 0;
    }
  }
  laptop_ |= machine_words(&row, nullptr, small).host == Host::laptop;
}

// ---- all sayings together ---------------------------------------------------------------------------------

void HardwareReader::settle() {
  settle_others();
  settle_mac();
  settle_machines();
}

// Macs had processors of Intel's up to 2020, the Mac Pro up to 2023.
bool HardwareReader::is_intel_mac(const MachineWords& mac) const {
  constexpr int kLastOfIntel = 2020, kLastOfIntelMacPro = 2022;
  if (mac.host != Host::apple || mac.chip) return false;
  const int last = mac.form == "mac pro" ? kLastOfIntelMacPro
                   : mac.form == "imac"  ? kLastOfIntel
                                         : kLastOfIntel - 1;
  return mac.intel || intel_ || (year_ > 0 && year_ <= last);
}

void HardwareReader::forget_apple_silicon() {
  scan_.sayings.forget("hardware.gpu.integrated_count");
  const Saying* vendor = scan_.sayings.get("hardware.gpu.vendor");
  if (vendor && vendor->text == "apple") scan_.sayings.forget("hardware.gpu.vendor");
}

void HardwareReader::settle_mac() {
  constexpr int kTurn = 2020;
  if (first_.host != Host::apple || first_.chip) return;
  if (is_intel_mac(first_)) {
    const bool said = first_.intel && scan_.sayings.get("hardware.gpu.count");  // "intel mac"
    if (!said) forget_apple_silicon();
    scan_.sayings.add("hardware.gpu.count~=0", mac_words_);
    if (!said)
      scan_.reading.notes.push_back("\"" + mac_words_ +
                                    "\" is read as a Mac with an Intel processor, not Apple silicon");
  } else if (year_ == kTurn && first_.form != "studio") {
    forget_apple_silicon();
    scan_.reading.notes.push_back("a Mac of 2020 has an Intel processor or an M1: say which");
  }
}

void HardwareReader::settle_machines() {
  std::vector<Named*> cards;
  for (Named& named : named_) {
    if (named.is_card()) {
      cards.push_back(&named);
      continue;
    }
    const Machine& machine = *named.machine;
    if (machine.kind == Machine::Class::no_gpu) {
      scan_.sayings.add("hardware.gpu.count~=0", named.words);
    } else {
      scan_.sayings.add("hardware.gpu.integrated_count=1", named.words);
      scan_.sayings.add("hardware.gpu.vendor=" + machine.vendor, named.words);
      if (machine.vendor == "apple") scan_.sayings.add("hardware.os~=macos", named.words);
      scan_.reading.generation = machine.generation;
    }
    if (named.counted) scan_.sayings.add(filled("hardware.cluster.nodes=#", named.count), named.words);
    if (named.memory > 0)
      scan_.sayings.add("hardware.memory.total=" + gib_text(named.memory), named.words);
    else if (machine.only_memory() > 0)
      scan_.sayings.add("hardware.memory.total~=" + gib_text(machine.only_memory()), named.words);
  }
  share_cards(cards);
  settle_cards(cards);
  settle_total();
  if (scan_.reading.oses.size() > 1) scan_.sayings.forget("hardware.os");
  const Saying* none = scan_.sayings.get("hardware.gpu.count");
  const Saying* discrete = scan_.sayings.get("hardware.gpu.discrete_count");
  const Saying* integrated = scan_.sayings.get("hardware.gpu.integrated_count");
  if (!discrete &&
      (scan_.sayings.get("hardware.gpu.memory") || scan_.sayings.get("hardware.gpu.memory_total")) && !none &&
      !integrated)
    scan_.sayings.add("hardware.gpu.discrete_count~=1", "VRAM");
  if (!none || (!discrete && !integrated)) return;
  if (!none->guess) {
    const Saying& gpu = discrete ? *discrete : *integrated;
    scan_.reading.notes.push_back("\"" + none->words + "\" and \"" + gpu.words +
                                  "\" contradict each other: neither is taken");
    scan_.reading.undecided = true;
    for (const char* fact : {"hardware.gpu.vendor", "hardware.gpu.memory", "hardware.gpu.memory_total",
                             "hardware.gpu.discrete_count", "hardware.gpu.integrated_count"})
      scan_.sayings.forget(fact);
  }
  scan_.sayings.forget("hardware.gpu.count");
}

// The memory of one card, in GiB: as it is said, or as its name has it; in a laptop as its laptop's row has
// it. 0: not known.
double HardwareReader::memory_of(const Named& named) const {
  if (named.memory > 0) return named.memory;
  const Machine& machine = *named.machine;
  const std::string& name = machine.names.front();
  if (!laptop_ || name.ends_with("laptop")) return machine.only_memory();
  for (const Machine& other : shipped_machines())
    if (other.names.front() == name + " laptop") return other.only_memory();
  return 0;
}

void HardwareReader::settle_cards(const std::vector<Named*>& cards) {
  if (cards.empty()) return;
  // "RTX 3090, two GPUs"
  if (cards.size() == 1 && !cards.front()->counted && generic_.counted) {
    cards.front()->count = generic_.count;
    cards.front()->counted = true;
  }
  double count = 0, total = 0, most = 0;
  bool counted = false, all_known = true;
  std::string words;
  for (const Named* card : cards) {
    const double memory = memory_of(*card);
    count += card->count;
    counted |= card->counted;
    all_known &= memory > 0;
    total += memory * card->count;
    most = std::max(most, memory);
    words += (words.empty() ? "" : " + ") + card->words;
    scan_.sayings.add("hardware.gpu.vendor=" + card->machine->vendor, card->words);
  }
  scan_.reading.generation = cards.front()->machine->generation;
  const bool exact = counted || cards.size() > 1;
  if (!(generic_.counted && cards.size() > 1))
    scan_.sayings.add(
        filled(exact ? "hardware.gpu.discrete_count=#" : "hardware.gpu.discrete_count~=#", count), words);
  if (all_known) {
    const bool said = std::ranges::any_of(cards, [](const Named* card) { return card->memory > 0; });
    scan_.sayings.add((said ? "hardware.gpu.memory=" : "hardware.gpu.memory~=") + gib_text(most), words);
    if (cards.size() > 1) scan_.sayings.add("hardware.gpu.memory_total~=" + gib_text(total), words);
  }
}

double HardwareReader::nodes() const {
  const Saying* nodes = scan_.sayings.get("hardware.cluster.nodes");
  return nodes ? static_cast<double>(std::max<std::int64_t>(std::get<std::int64_t>(nodes->value), 1)) : 1;
}

// hardware.gpu.discrete_count is that of one machine.
void HardwareReader::share_cards(const std::vector<Named*>& cards) {
  if (!spread_ || nodes() <= 1) return;
  const auto share = [&](double& count, const std::string& words) {
    const double all = count;
    count = std::max(std::floor(all / nodes()), 1.0);
    if (count * nodes() != all)
      scan_.reading.notes.push_back("\"" + words + "\" cannot be shared evenly by the machines: " +
                                    std::to_string(std::llround(count)) + " in each are taken");
  };
  for (Named* card : cards) share(card->count, card->words);
  if (!cards.empty() || !generic_.counted) return;
  share(generic_.count, generic_.words);
  scan_.sayings.forget("hardware.gpu.discrete_count");
  scan_.sayings.add(filled("hardware.gpu.discrete_count=#", generic_.count), generic_.words);
}

// "48 GB total": of the cards where there are some, else of the machines.
void HardwareReader::settle_total() {
  if (total_.words.empty()) return;
  const double gib = total_.gib / nodes();
  const auto integer = [&](const char* fact) {
    const Saying* said = scan_.sayings.get(fact);
    return said ? static_cast<double>(std::get<std::int64_t>(said->value)) : 0.0;
  };
  constexpr double kGib = 1024.0 * 1024 * 1024, kNear = 0.1;
  const double cards = integer("hardware.gpu.discrete_count");
  const double all = integer("hardware.gpu.memory_total") > 0 ? integer("hardware.gpu.memory_total")
                                                              : integer("hardware.gpu.memory") * cards;
  const bool of_cards = cards > 0 && (all == 0 || std::abs(all / kGib - gib) <= kNear * gib);
  if (of_cards || (cards == 0 && first_.host != Host::none)) {
    const std::string fact =
        (of_cards ? "hardware.gpu.memory_total=" : "hardware.memory.total=") + gib_text(gib);
    scan_.sayings.add(fact, total_.words);
    scan_.reading.understood.push_back({total_.words, fact});
  } else {
    scan_.reading.skipped.push_back(total_.words);
    scan_.reading.notes.push_back("\"" + total_.words +
                                  "\" may be the memory of the cards or of the machine: say VRAM or RAM");
  }
}

}  // namespace flyball::policy
