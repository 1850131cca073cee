// How a text is read: atoms, then from each place the longest pattern of the vocabulary, the machines, the
// models and the catalogue's systems. Words that no pattern has are skipped and named; nothing is fatal.
#include "policy/scenario.hpp"

#include <algorithm>
#include <array>

#include "config/engine_kinds.hpp"
#include "config/table.hpp"
#include "policy/scenario_hardware.hpp"
#include "policy/scenario_load.hpp"
#include "policy/scenario_model.hpp"
#include "policy/scenario_scan.hpp"

namespace flyball::policy {
namespace {

constexpr std::size_t kMaxScenarioBytes = 2000;
constexpr const char* kDefault = "default";
constexpr std::string_view kTopic = "topic";

constexpr std::array<std::string_view, 13> kNegations{"not",   "no",       "isnt",  "arent",  "without",
                                                      "never", "dont",     "cant",  "cannot", "wont",
                                                      "aint",  "shouldnt", "doesnt"};
// "No idea what to use", "can't decide", "no more than 10 users": nothing that follows is denied.
constexpr std::array<std::string_view, 8> kDenyNothing{"idea", "clue", "sure",  "decide",
                                                       "more", "less", "fewer", "matter"};
constexpr std::array<std::string_view, 4> kDenyOn{"or", "nor", "and", "oder"};  // "no GPU or NPU"
constexpr std::string_view kDecide = "decide";                                  // no slip of "decode"
constexpr std::array<std::string_view, 4> kEndsOfNegation{"but", "just", "only", "so"};
// Before the number of a card: "rtx 2000" is no year.
constexpr std::array<std::string_view, 4> kCardBrands{"rtx", "gtx", "quadro", "geforce"};

class ScenarioReader {
 public:
  ScenarioReader(std::string_view words, Reading& reading)
      : scan_(words, reading), hardware_(scan_), models_(scan_) {}

  void read(Facts& facts) {
    scan_.reading.words = scan_.text.words();
    scan_.reading.notes = scan_.text.ranges();
    for (std::size_t at = 0; at < scan_.text.size();) at += step(at);
    scan_.flush();
    hardware_.settle();
    models_.settle();
    settle_classes(scan_);
    scan_.sayings.set(facts);
  }

 private:
  // Returns the number of atoms that it read; 0: the atom's spelling was corrected, it is to be read again.
  std::size_t step(std::size_t at) {
    if (scan_.text.before(at) == Break::hard) {
      scan_.negated = scan_.alternative = false;
      hardware_.end_phrase();
    }
    if (among(kEndsOfNegation, scan_.text.word(at))) scan_.negated = false;
    if (!scan_.negated) hardware_.look_for_another_machine(at);
    if (const std::size_t n = hardware_.read_count_behind(at); n > 0) return n;
    if (const std::size_t n = hardware_.read_spread(at); n > 0) return n;
    if (const std::size_t n = read_price(scan_, at); n > 0) return n;
    if (const std::size_t n = read_volume(scan_, at); n > 0) return n;
    if (const std::size_t n = hardware_.read_counted_size(at); n > 0) return n;
    const Match found = scan_.text.longest(at);
    // A name of the table behind a hyphen of a model's name is none: "bge-reranker-v2-m3".
    if (scan_.in_model_name && scan_.text.before(at) <= Break::joint &&
        scan_.text.before(at) != Break::hard) {
      const bool counts =
          found.pattern && (found.pattern->quantization || found.pattern->word || found.pattern->model);
      if (!counts && !is_model_size(scan_.text, at)) return absorb(at);
    }
    if (const std::size_t n = models_.read_parameters(at, found.length); n > 0) return n;
    if (const std::size_t n = hardware_.read_size(at, found.length); n > 0) return n;
    if (found.pattern && usable(found, at)) {
      take(found, at);
      return found.length;
    }
    return skip(at);
  }

  bool usable(const Match& found, std::size_t at) const {
    const ScenarioWord* word = found.pattern->word;
    if (!word) return true;
    // "8K" is a context at the end of its phrase; "10k invoices" counts something else.
    if (word->facts.starts_with("model.context") && found.length == 2) {
      const std::string_view behind = scan_.text.next(at + 2);
      return behind.empty() || is_filler(behind);
    }
    if (word->facts == "model.moe=true" && word->words == "a#b") return false;
    return true;
  }

  void take(const Match& found, std::size_t at) {
    const Pattern& pattern = *found.pattern;
    const std::size_t length = found.length;
    const std::string words = scan_.text.said(at, length);
    scan_.flush();
    if (scan_.negated) {
      deny(pattern, at, length);
      return;
    }
    scan_.in_model_name = false;
    if (hardware_.place(found, at, words)) return;
    const Match counted = hardware_.with_count(found);
    if (pattern.machine) {
      hardware_.take_machine(counted, words);
    } else if (pattern.model) {
      models_.take_name(*pattern.model, at, length);
    } else if (pattern.quantization) {
      models_.take_quantization(*pattern.quantization, at, length);
    } else if (pattern.system) {
      if (!among(scan_.reading.systems, pattern.system->id))
        scan_.reading.systems.push_back(pattern.system->id);
      scan_.reading.understood.push_back({words, "a system: " + pattern.system->id});
    } else {
      take_word(counted, words);
    }
  }

  void deny(const Pattern& pattern, std::size_t at, std::size_t length) {
    if (is_hardware(pattern) && hardware_.set_aside(at, length)) return;
    const std::string words = "no " + scan_.text.said(at, length);
    const bool gpu = pattern.word && pattern.word->facts == "hardware.gpu.discrete_count=#";
    if (gpu) scan_.sayings.add("hardware.gpu.count=0", words);
    scan_.reading.understood.push_back({words, gpu ? "hardware.gpu.count=0" : "denied"});
    scan_.negated = among(kDenyOn, scan_.text.next(at + length));
  }

  void take_word(const Match& found, const std::string& words) {
    const ScenarioWord& row = *found.pattern->word;
    std::string facts;
    if (hardware_.take_total(found, words)) return;
    if (hardware_.is_gpu_of_chip(found)) {
      scan_.reading.understood.push_back({words, "the GPU of its chip"});
      return;
    }
    for (const std::string_view assignment : split_at(row.facts, ' ')) {
      const bool open = assignment.contains('#') && !found.counted;
      if (assignment.starts_with(kTopic)) {
        const std::string topic(assignment.substr(kTopic.size() + 1));
        if (!among(scan_.reading.topics, topic)) scan_.reading.topics.push_back(topic);
        if (row.words.contains("reranker")) scan_.in_model_name = true;
        facts += (facts.empty() ? "" : " ") + std::string(assignment);
        continue;
      }
      if (open && assignment.starts_with("hardware.cluster.nodes")) continue;
      std::string value = filled(assignment, found.number);
      if (open) value.insert(value.find('='), "~");
      if (value.starts_with("hardware.os") && !value.contains('~')) {
        const std::string os = value.substr(value.find('=') + 1);
        if (!among(scan_.reading.oses, os)) scan_.reading.oses.push_back(os);
      }
      scan_.sayings.add(value, words);
      facts += (facts.empty() ? "" : " ") + value;
    }
    if (row.facts.starts_with("model.format") || row.facts.starts_with("model.context"))
      scan_.in_model_name = false;
    hardware_.take_word(found, words);
    scan_.reading.understood.push_back({words, facts.empty() ? std::string(row.remark) : facts});
  }

  std::size_t absorb(std::size_t at) {
    models_.extend_name(at);
    return 1;
  }

  std::size_t skip(std::size_t at) {
    const std::string& word = scan_.text.word(at);
    if (among(kNegations, word)) {
      scan_.flush();
      if (among(kDenyNothing, scan_.text.next(at + 1))) return 2;
      scan_.negated = true;
      return 1;
    }
    scan_.alternative |= among(kAlternatives, word);
    const auto number = number_of(word);
    const bool digits = is_digit(word.front());
    // The version of a model: "llama 3.1 8b".
    const bool release = word.size() == 4 && word.front() == '0';  // "deepseek r1 0528"
    if (scan_.in_model_name && digits && (*number < 20 || release)) return absorb(at);
    const bool of_card =
        at > 0 && scan_.text.before(at) != Break::hard && among(kCardBrands, scan_.text.word(at - 1));
    if (!of_card && digits && *number >= 1990 && *number <= 2040 && word.size() == 4)
      return hardware_.read_year(at, static_cast<int>(*number));
    if (!digits && (number == 1.0 || is_filler(word)) && !(number && *number > 1)) {
      scan_.flush();
      return 1;
    }
    if (const std::string* meant = digits ? nullptr : corrected(word)) {
      scan_.reading.notes.push_back("\"" + scan_.text.said(at, 1) + "\" is read as \"" + *meant + "\"");
      scan_.text.correct(at, *meant);
      return 0;
    }
    scan_.skip(at);
    scan_.in_model_name = false;
    scan_.negated = false;  // it was denied
    return 1;
  }

  static const std::string* corrected(const std::string& word) {
    constexpr std::size_t kShortest = 6;  // shorter words are too near to others
    if (word.size() < kShortest || known_words().contains(word) || among(kMultipliers, word) ||
        word == kDecide)
      return nullptr;
    const auto is_word = [](const std::string& known) { return std::ranges::none_of(known, is_digit); };
    const std::string* found = nullptr;
    for (const std::string& known : known_words())
      if (known.size() >= kShortest && is_word(known) && known.front() == word.front() && known != word &&
          !same_word(word, known) && one_slip(word, known)) {
        if (found) return nullptr;
        found = &known;
      }
    return found;
  }

  Scan scan_;
  HardwareReader hardware_;
  ModelReader models_;
};

template <class T>
const T* known(const Facts& facts, std::string_view name) {
  const Fact* fact = facts.get(name);
  return fact ? &std::get<T>(fact->value) : nullptr;
}

// The counts of GPUs, each from the others; what is left open is none. An error where they contradict each
// other.
Result<void> complete_counts(Facts& facts) {
  using Integer = std::int64_t;
  constexpr const char* kAll = "hardware.gpu.count";
  constexpr const char* kDiscrete = "hardware.gpu.discrete_count";
  constexpr const char* kIntegrated = "hardware.gpu.integrated_count";
  const auto set = [&](const char* name, Integer value) { facts.set(name, value, kDefault); };
  const auto* unified = known<bool>(facts, "hardware.memory.unified");
  const auto* discrete = known<Integer>(facts, kDiscrete);
  const auto* integrated = known<Integer>(facts, kIntegrated);
  const auto* all = known<Integer>(facts, kAll);
  // A laptop, say, is guessed to have no GPU: facts beside the words may name one.
  if (all && (discrete || integrated || unified) && facts.get(kAll)->source == kGuess) all = nullptr;
  if (unified && *unified && !integrated) set(kIntegrated, all ? *all : 1);
  integrated = known<Integer>(facts, kIntegrated);
  if (!discrete && unified && *unified) set(kDiscrete, 0);
  if (!discrete && all && (integrated || *all == 0))
    set(kDiscrete, std::max(*all - (integrated ? *integrated : 0), Integer{0}));
  if (!discrete && integrated && !all) set(kDiscrete, 0);
  discrete = known<Integer>(facts, kDiscrete);
  if (discrete && !integrated) set(kIntegrated, all ? std::max(*all - *discrete, Integer{0}) : 0);
  integrated = known<Integer>(facts, kIntegrated);
  if (!discrete || !integrated) return {};
  const std::string both =
      std::to_string(*discrete) + " discrete and " + std::to_string(*integrated) + " integrated GPUs";
  Integer sum = 0;
  if (__builtin_add_overflow(*discrete, *integrated, &sum) || (all && *all != sum))
    return fail(ErrorCode::invalid_value,
                std::string(kAll) + " is " + (all ? std::to_string(*all) : "no number") + ", of " + both);
  if (unified && *unified && *discrete > 0)
    return fail(ErrorCode::invalid_value, "hardware.memory.unified is true, with " + both);
  if (!all) set(kAll, sum);
  return {};
}

}  // namespace

bool mentions(const Reading& reading, std::string_view phrase) {
  const std::vector<Atom> wanted = tokenize(phrase);
  return !wanted.empty() && !std::ranges::search(reading.words, wanted, same_word, {}, &Atom::text).empty();
}

Result<Reading> read_scenario(std::string_view words, Facts& facts) {
  if (words.size() > kMaxScenarioBytes)
    return fail(ErrorCode::invalid_value, std::to_string(words.size()) + " bytes of words, the limit is " +
                                              std::to_string(kMaxScenarioBytes));
  Reading reading;
  ScenarioReader(words, reading).read(facts);
  return reading;
}

Result<void> complete_scenario(Facts& facts) {
  constexpr const char* kRelease = "this release";
  const auto otherwise = [&](std::string_view name, FactValue value, const char* source) {
    if (!facts.get(name)) facts.set(name, std::move(value), source);
  };
  using Integer = std::int64_t;
  if (auto ok = complete_counts(facts); !ok) return pass(ok);
  const auto* discrete = known<Integer>(facts, "hardware.gpu.discrete_count");
  const auto* integrated = known<Integer>(facts, "hardware.gpu.integrated_count");
  if (discrete && integrated) {
    otherwise("hardware.memory.unified", *discrete == 0 && *integrated > 0, kDefault);
    if (*discrete == 0 && *integrated == 0) otherwise("hardware.gpu.vendor", std::string("none"), kDefault);
    const auto* memory = known<Integer>(facts, "hardware.gpu.memory");
    constexpr Integer kMost = Integer{1} << 62;
    if (memory && *discrete > 0 && *memory <= kMost / *discrete)
      otherwise("hardware.gpu.memory_total", *memory * *discrete, kDefault);
  }
  if (const auto* vendor = known<std::string>(facts, "hardware.gpu.vendor"); vendor && *vendor == "apple")
    otherwise("hardware.os", std::string("macos"), kDefault);
  otherwise("hardware.cluster.nodes", Integer{1}, kDefault);
  otherwise("app.privacy", std::string("any"), kDefault);
  otherwise("workload.class", std::string("chat"), kDefault);
  otherwise("workload.modalities", std::vector<std::string>{"text"}, kDefault);
  otherwise("workload.delivery", std::string("service"), kDefault);

  using Expects = config::EngineKind::Expects;
  const auto* gpus = known<Integer>(facts, "hardware.gpu.count");
  const auto settle = [&](const TargetInstance& target, bool there, const char* reason) {
    const FactId available = fact_of(target, TargetFact::available);
    if (facts.get(available) != nullptr) return;
    facts.set(available, there, kRelease);
    if (!there) facts.set(fact_of(target, TargetFact::reason), std::string(reason), kRelease);
  };
  for (const TargetInstance& target : facts.targets()->instances()) {
    if (const config::EngineKind* kind = config::find_engine_kind(target.kind); kind == nullptr) {
      if (!target.configured) settle(target, false, "no upstream of this kind can be configured yet");
    } else if (kind->expects == Expects::processor) {
      settle(target, true, "");
    } else if (kind->expects == Expects::gpu) {
      settle(target, gpus && *gpus > 0, "no GPU is described");
    } else {
      settle(target, discrete && *discrete > 0, "no discrete GPU is described");
    }
  }
  derive(facts);
  return {};
}

}  // namespace flyball::policy
