// The kinds of machines, and which of their words may stand together.
#include "policy/scenario_machines.hpp"

#include <array>

#include "policy/scenario_tokens.hpp"

namespace flyball::policy {
namespace {

constexpr std::string_view kAnyCard = "any";
constexpr std::string_view kTablet = "ipad";  // has a chip that Macs have, too
constexpr std::array<std::string_view, 7> kBoards{"raspberry pi", "orange pi", "banana pi", "rock",
                                                  "odroid",       "rk",        "sbc"};
constexpr std::array<std::string_view, 18> kComputers{
    "pc",     "gaming pc", "desktop",    "workstation", "tower",       "box",
    "server", "mini pc",   "nuc",        "homelab",     "nas",         "vps",
    "vm",     "rig",       "gaming rig", "node",        "home server", "computer"};
constexpr std::array<std::string_view, 7> kNoMacs{"pc",    "gaming pc", "mini pc",   "nuc",
                                                  "tower", "rig",       "gaming rig"};
constexpr std::array<std::string_view, 6> kPortables{"laptop",   "notebook",      "chromebook",
                                                     "thinkpad", "gaming laptop", "gaming notebook"};

std::string form_of_mac(std::string_view said) {
  for (const std::string_view form : {"book", "mini", "studio", "imac", "mac pro"})
    if (said.contains(form)) return std::string(form);
  return "";
}

bool named(const auto& names, std::string_view said) {
  return std::ranges::any_of(names, [&](std::string_view name) { return same_word(said, name); });
}

}  // namespace

MachineWords machine_words(const ScenarioWord* word, const Machine* machine, std::string_view said) {
  MachineWords out;
  if (machine != nullptr) {
    using Class = Machine::Class;
    if (machine->kind == Class::discrete) {
      out.card = machine->vendor;
      return out;
    }
    out.chip = machine;
    out.host = machine->kind == Class::no_gpu ? Host::board
               : machine->vendor == "apple"   ? Host::apple
                                              : Host::unified;
    return out;
  }
  const std::string_view facts = word->facts;
  if (facts.contains("gpu.vendor=apple") && !facts.contains("topic=phone")) {
    out.host = Host::apple;
    out.form = form_of_mac(said);
  } else if (word->words.starts_with("intel mac|")) {
    out.host = Host::apple;
    out.intel = true;
    out.form = form_of_mac(said);
  } else if (word->words.starts_with("steam deck")) {
    out.host = Host::deck;
  } else if (facts.contains("topic=phone")) {
    out.host = Host::phone;
    if (said.contains("ipad")) out.form = kTablet;
  } else if (facts.contains("hardware.gpu.discrete_count=#")) {
    const std::size_t at = facts.find("vendor=");
    out.card = at == std::string_view::npos ? kAnyCard : facts.substr(at + 7);
  } else if (std::ranges::any_of(kBoards, [&](std::string_view name) { return said.starts_with(name); }) ||
             said.starts_with("single board")) {
    out.host = Host::board;
  } else if (named(kPortables, said)) {
    out.host = Host::laptop;
  } else if (named(kComputers, said)) {
    out.host = Host::pc;
    out.strong = named(kNoMacs, said);
  }
  return out;
}

bool another_machine(const MachineWords& now, const MachineWords& next, Apart apart) {
  if (now.empty()) return false;
  const bool joined = apart != Apart::no, card = !now.card.empty();
  if (!next.card.empty() && next.card != kAnyCard) {
    const bool takes_cards = now.host == Host::none || now.host == Host::laptop || now.host == Host::pc ||
                             (now.host == Host::apple && now.intel && next.card == "amd");
    if (!takes_cards) return true;
  }
  if (next.host == Host::none) return false;
  if (now.host == Host::none)  // a card alone: its computer may be named behind it
    return next.host == Host::laptop || next.host == Host::pc ? apart == Apart::joined_with_article : true;
  switch (next.host) {
    case Host::none:
      return false;
    case Host::apple:
      if (now.host == Host::apple)
        return joined || (now.chip && next.chip && now.chip != next.chip) ||
               (!now.form.empty() && !next.form.empty() && now.form != next.form);
      if (now.host == Host::phone && now.form == kTablet && next.chip) return joined;
      if (now.host == Host::laptop) return joined || card || !(next.form.empty() || next.form == "book");
      return now.host != Host::pc || now.strong || joined || card;
    case Host::board:
      return joined || card || (now.host != Host::board && now.host != Host::pc);
    case Host::unified:
      if (now.chip == next.chip) return false;
      return joined || card || (now.host != Host::laptop && now.host != Host::pc);
    case Host::deck:
      return joined || now.host != Host::deck;
    case Host::phone:
      if (now.host == Host::apple && now.form.empty() && next.form == kTablet) return joined;
      return joined || now.host != Host::phone;
    case Host::laptop:
      if (now.host == Host::apple) return joined || !(now.form.empty() || now.form == "book");
      return joined || now.host == Host::board || now.host == Host::deck || now.host == Host::phone;
    case Host::pc:
      return joined || (now.host == Host::apple && next.strong) || now.host == Host::phone;
  }
  return false;
}

bool same_machine(const MachineWords& first, const MachineWords& next) {
  return next.host != Host::none && first.host == next.host &&
         (!next.chip || !first.chip || first.chip == next.chip) &&
         (next.form.empty() || first.form.empty() || first.form == next.form);
}

void add_words(MachineWords& now, const MachineWords& next) {
  if (next.host != Host::none && now.host == Host::none) now.host = next.host;
  if (next.chip) now.chip = next.chip;
  if (!next.form.empty()) now.form = next.form;
  if (now.card.empty() || now.card == kAnyCard) {
    if (!next.card.empty()) now.card = next.card;
  }
  now.intel |= next.intel;
  now.strong |= next.strong;
}

}  // namespace flyball::policy
