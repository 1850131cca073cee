// The names that a text may have, and how they match: blanks may be left out, and a count may stand before a
// name or behind it.
#include "policy/scenario_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "config/utf8.hpp"

namespace flyball::policy {
namespace {

// "two of the 3090s".
constexpr std::array<std::string_view, 5> kThe{"the", "those", "these", "them", "my"};

// "# gb of ram" as atoms: # is an atom of its own.
std::vector<Atom> atoms_of(std::string_view name) {
  std::vector<Atom> out;
  for (const std::string_view part : split_at(name, ' ')) {
    std::size_t begin = 0;
    bool first = true;
    const auto add = [&](std::string_view text) {
      for (Atom& atom : tokenize(text)) {
        if (first) atom.before = Break::space;
        first = false;
        out.push_back(std::move(atom));
      }
    };
    for (std::size_t hash; (hash = part.find('#', begin)) != std::string_view::npos; begin = hash + 1) {
      add(part.substr(begin, hash - begin));
      out.push_back({"#", first ? Break::space : Break::none, 0, 0});
      first = false;
    }
    add(part.substr(begin));
  }
  return out;
}

class Patterns {
 public:
  Patterns() {
    for (const ScenarioWord& row : scenario_vocabulary()) {
      Pattern pattern;
      pattern.word = &row;
      pattern.counted = row.facts.contains('#') && !row.words.contains('#');
      add_all(row.words, pattern);
    }
    for (const Machine& machine : shipped_machines())
      for (const std::string& name : machine.names) {
        Pattern pattern;
        pattern.machine = &machine;
        pattern.counted = true;
        add(name, pattern);
      }
    for (const ScenarioModel& model : scenario_models()) {
      Pattern pattern;
      pattern.model = &model;
      add_all(model.names, pattern);
    }
    for (const ScenarioQuantization& quantization : scenario_quantizations()) {
      Pattern pattern;
      pattern.quantization = &quantization;
      add_all(quantization.names, pattern);
    }
    for (const EngineEntry& system : shipped_engines().engines) {
      Pattern pattern;
      pattern.system = &system;
      add(system.name, pattern);
      std::string id = system.id;
      std::ranges::replace(id, '_', ' ');
      add(id, pattern);
      for (const std::string& alias : system.aliases) add(alias, pattern);
    }
    for (const Pattern& pattern : all_)
      for (const Atom& atom : pattern.atoms) known_.insert(atom.text);
  }

  const std::vector<Pattern>& all() const { return all_; }
  const std::set<std::string>& known() const { return known_; }

 private:
  void add_all(std::string_view names, const Pattern& pattern) {
    for (const std::string_view name : split_at(names, '|')) add(name, pattern);
  }
  // Adds the name as it is written, and without its blanks: "macstudio".
  void add(std::string_view name, Pattern pattern) {
    pattern.atoms = atoms_of(name);
    if (pattern.atoms.empty()) return;
    all_.push_back(pattern);
    std::string glued(name);
    std::erase_if(glued, [](char c) { return c == ' ' || c == '-' || c == '_'; });
    if (glued.size() == name.size() || glued.contains('#')) return;
    pattern.atoms = atoms_of(glued);
    all_.push_back(std::move(pattern));
  }

  std::vector<Pattern> all_;
  std::set<std::string> known_;
};

const Patterns& patterns() {
  static const Patterns all;
  return all;
}

}  // namespace

std::vector<std::string_view> split_at(std::string_view text, char mark) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(mark), text.size());
    if (end > 0) out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

const std::set<std::string>& known_words() {
  return patterns().known();
}

std::string Text::said(std::size_t at, std::size_t length) const {
  std::string out(text_.substr(atoms_[at].begin, atoms_[at + length - 1].end - atoms_[at].begin));
  if (!is_utf8(out))
    std::ranges::replace_if(
        out, [](char c) { return static_cast<signed char>(c) < 0; }, '?');
  std::ranges::replace_if(
      out, [](char c) { return c >= 0 && c < ' '; }, ' ');
  return out;
}

std::size_t Text::of_the(std::size_t at) const {
  if (next(at) != "of") return 0;
  return among(kThe, next(at + 1)) ? 2 : 1;
}

bool Text::has_between(std::size_t at, std::string_view signs) const {  // before the atom
  const std::size_t begin = at == 0 ? 0 : atoms_[at - 1].end;
  return text_.substr(begin, atoms_[at].begin - begin).find_first_of(signs) != std::string_view::npos;
}

Match Text::longest(std::size_t at) const {
  Match best;
  for (const Pattern& pattern : patterns().all())
    for (const bool counted : {false, true}) {
      if (counted && !pattern.counted) continue;
      if (const auto found = match(pattern, at, counted); found && found->length > best.length) best = *found;
    }
  return best;
}

std::optional<Match> Text::match(const Pattern& pattern, std::size_t at, bool counted) const {
  Match out{&pattern, 0, 1, counted};
  std::size_t i = at;
  if (counted) {
    const auto count = number_of(atoms_[i].text);
    if (!count || *count > kMostOfACount || *count < 1 || *count != std::floor(*count)) return std::nullopt;
    out.number = *count;
    ++i;
    if (next(i) == "x")
      ++i;
    else
      i += of_the(i);
    if (i >= size() || atoms_[i].before == Break::hard) return std::nullopt;
  }
  for (std::size_t k = 0; k < pattern.atoms.size(); ++k, ++i) {
    if (i >= size()) return std::nullopt;
    const Atom& wanted = pattern.atoms[k];
    if (k > 0 &&
        !joins(atoms_[i].before, wanted.before, wanted.text == "#" || pattern.atoms[k - 1].text == "#"))
      return std::nullopt;
    if (wanted.text == "#") {
      const auto value = number_of(atoms_[i].text);
      if (!value || *value > kMaxScenarioNumber) return std::nullopt;
      const bool machines = pattern.word && pattern.word->facts == kMachines;
      if (machines && *value > kMostOfACount) return std::nullopt;  // "a 4090 server"
      if (!out.counted || k == 0) out.number = *value;
      out.counted = true;
    } else if (!same_word(atoms_[i].text, wanted.text)) {
      return std::nullopt;
    }
  }
  if (next(i) == "s" && before(i) == Break::none) ++i;  // "A100s"
  const auto behind = next(i) == "x" && i + 1 < size() && before(i + 1) <= Break::space
                          ? number_of(word(i + 1))
                          : std::nullopt;
  if (pattern.counted && !counted && behind && *behind >= 1 && *behind <= kMostOfACount) {  // "A100x2"
    out.number = *behind;
    out.counted = true;
    i += 2;
  }
  out.length = i - at;
  return out;
}

std::vector<std::string> Text::words() const {
  std::vector<std::string> out;
  for (const Atom& atom : atoms_) out.push_back(atom.text);
  return out;
}

}  // namespace flyball::policy
