#include "backends/grammar/json_schema.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/grammar/json_language.hpp"
#include "backends/grammar/number_language.hpp"
#include "backends/grammar/prune.hpp"
#include "backends/grammar/regex.hpp"
#include "backends/grammar/schema_error.hpp"
#include "backends/grammar/schema_terms.hpp"
#include "config/json_reader.hpp"

namespace flyball::grammar {
namespace {

constexpr std::string_view kKeyOrder = "x-key-order";
constexpr std::string_view kBlank = "( |\n {0,32}|\n\t{0,8})?";
// Places of an object in a grammar that counts its members, and rules of an array in one that counts items.
constexpr std::size_t kMostCountedMembers = 20'000, kMostCountedItems = 1'500;
constexpr std::size_t kMostDistinct = 8;    // values of unique items; each doubles the rules
constexpr std::uint32_t kShortString = 64;  // characters that an automaton counts at little cost
constexpr std::size_t kInlineTails = 4;     // ends of objects that are copied; more become rules
constexpr std::size_t kMostUnordered = 9;   // required properties in any order; each doubles the rules
constexpr std::size_t kMostDemanded = 3;    // keys; each multiplies what is written of an object
constexpr std::uint32_t kNestedItems = 32;  // items within each other before a rule divides them

// Writes sets of values as nodes. Arrays and objects are rules, written one after another, so that neither
// their depth nor their recursion is the writer's.
class Writer {
 public:
  Writer(Grammar grammar, const JsonOptions& options, const Limits& limits, Fuel& fuel)
      : options_(options), limits_(limits), fuel_(&fuel), grammar_(std::move(grammar)) {}

  Grammar take() { return std::move(grammar_); }

  // Defines a rule of the grammar, one schema after another: they share what every schema needs.
  Result<void> define(RuleId root, JsonView schema) {
    terms_.emplace(schema, limits_, *fuel_);
    queue_.clear();
    rules_.clear();
    scalars_.clear();
    languages_.clear();
    kept_.clear();
    const auto all = terms_->condition(terms_->root());
    if (!all) return pass(all);
    if (!std::exchange(has_pieces_, true))
      if (auto ok = pieces(); !ok) return ok;
    if (auto ok = read_key_order(); !ok) return ok;
    if (any_value_) rules_.emplace(Conjunction(), *any_value_);
    if (const auto known = rules_.find(*all); known != rules_.end()) {
      grammar_.define(root, grammar_.rule(known->second));
      return {};
    }
    const auto set = terms_->values(*all);
    if (!set) return pass(set);
    rules_.emplace(*all, root);
    queue_.push_back({root, *set, terms_->root()});
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      const auto [rule, values, place] = queue_[i];
      const auto body = write_at(place, *values);
      if (!body) return pass(body);
      grammar_.define(rule, *body);
    }
    if (const auto any = rules_.find(Conjunction()); any != rules_.end()) any_value_ = any->second;
    return {};
  }

  Result<Grammar> write(JsonView schema) {
    const RuleId root = grammar_.declare("root");
    if (auto ok = define(root, schema); !ok) return pass(ok);
    auto grammar = prune(std::move(grammar_));
    if (grammar) return *std::move(grammar);
    if (left_out_)
      return malformed(
          terms_->root(),
          "No value that is served satisfies the schema; numbers have at most 21 digits before the "
          "point and 24 behind it, and rare forms of formats are not served.");
    return malformed(terms_->root(), "No value satisfies the schema.");
  }

 private:
  Bound bound() const { return {fuel_}; }

  Result<NodeId> node(Result<Dfa> dfa) {
    if (!dfa) return pass(dfa);
    return grammar_.dfa(*std::move(dfa));
  }
  NodeId sequence(std::initializer_list<NodeId> children) {
    return grammar_.sequence(std::span(children.begin(), children.size()));
  }
  NodeId choice(const std::vector<NodeId>& children) {
    return children.size() == 1 ? children[0] : grammar_.choice(children);
  }

  // The node of a set, with the place of its schema for refusals that have none yet.
  Result<NodeId> write_at(const Place& place, const ValueSet& set) {
    Place around = std::exchange(place_, place);
    auto node = write(set);
    place_ = std::move(around);
    if (!node && node.error().where.empty()) node.error().where = place.pointer.text();
    return node;
  }

  // Looked at for each part: a few large ones pass the limit as well as many small ones.
  Result<void> check_memory() const {
    if (grammar_.memory() <= limits_.memory) return {};
    return too_large(place_, "The schema's grammar takes more than the " + std::to_string(limits_.memory) +
                                 " bytes that are served.");
  }

  Result<void> read_key_order() {
    const Place root = terms_->root();
    const JsonView order = root.value.is_object() ? root.value.find(kKeyOrder) : JsonView();
    if (!order) return {};
    any_order_ = order.is_string() && order.text() == "any";
    if (any_order_ || (order.is_string() && order.text() == "declared")) return {};
    return malformed(root.member(kKeyOrder, order), "\"x-key-order\" is \"declared\" or \"any\".");
  }

  Result<void> pieces() {
    const bool flexible = options_.whitespace == JsonOptions::Whitespace::flexible;
    blank_ = grammar_.text("");
    if (flexible) {
      const auto blank = node(from_regex(kBlank, {}, bound()));
      if (!blank) return pass(blank);
      blank_ = as_rule("blank", *blank);
    }
    comma_ = sequence({grammar_.text(","), blank_});
    quote_ = grammar_.text("\"");
    const auto colon = node(from_regex(flexible ? "\": ?" : "\":", {}, bound()));
    if (!colon) return pass(colon);
    colon_ = *colon;
    return {};
  }

  // A node of an automaton that is made once. Its users call it where it is large, so that a program has it
  // once.
  using Make = Result<Dfa> (*)(Bound);
  Result<NodeId> once(std::optional<NodeId>& kept, Make make) {
    if (!kept) {
      const auto made = node(make(bound()));
      if (!made) return made;
      kept = as_rule("value", *made);
    }
    return *kept;
  }

  Result<NodeId> value(const Conjunction& all) {
    if (const auto at = scalars_.find(all); at != scalars_.end()) return at->second;
    if (const auto at = rules_.find(all); at != rules_.end()) return grammar_.rule(at->second);
    const auto set = terms_->values(all);
    if (!set) return pass(set);
    if ((*set)->arrays.empty() && (*set)->objects.empty()) {
      const auto node = write_at(terms_->place_of(all), **set);
      if (!node) return node;
      return scalars_.emplace(all, as_rule("value", *node)).first->second;
    }
    const RuleId rule = grammar_.declare("value");
    rules_.emplace(all, rule);
    queue_.push_back({rule, *set, terms_->place_of(all)});
    return grammar_.rule(rule);
  }

  Result<NodeId> write(const ValueSet& set) {
    left_out_ |= set.lossy;
    if (!fuel_->spend(64 + 64 * set.parts())) return out_of_fuel(place_);
    std::vector<NodeId> parts;
    if (set.null) parts.push_back(grammar_.text("null"));
    if (set.no) parts.push_back(grammar_.text("false"));
    if (set.yes) parts.push_back(grammar_.text("true"));
    const auto add = [&](const auto& from) -> Result<void> {
      for (const auto& part : from) {
        const auto node = write(part);
        if (!node) return pass(node);
        if (auto ok = check_memory(); !ok) return ok;
        parts.push_back(*node);
      }
      return {};
    };
    if (auto ok = add(set.numbers); !ok) return pass(ok);
    if (auto ok = add(set.strings); !ok) return pass(ok);
    if (auto ok = add(set.arrays); !ok) return pass(ok);
    if (auto ok = add(set.objects); !ok) return pass(ok);
    return choice(parts);
  }

  Result<NodeId> write(const NumberPart& part) {
    if (!part.language) return part.integer ? once(integer_, any_integer) : once(number_, any_number);
    if (!part.integer && !part.shortest) return language(part.language);
    const auto spellings = part.integer ? any_integer(bound()) : shortest_spellings(bound());
    if (!spellings) return pass(spellings);
    return node(intersect(*part.language, *spellings, bound()));
  }

  Result<NodeId> language(const Language& language) {
    const auto [at, is_new] = languages_.try_emplace(language.get());
    if (is_new) {
      at->second = as_rule("value", grammar_.dfa(*language));
      kept_.push_back(language);
    }
    return at->second;
  }

  Result<NodeId> write(const StringPart& part) {
    Result<NodeId> content;
    if (part.language && (part.least > 0 || part.most != kUnbounded)) {
      content = counted_string(part);
    } else if (part.language) {
      content = language(part.language);
    } else if (part.least == 0 && part.most == kUnbounded) {
      content = once(content_, string_content);
    } else if (const auto character = once(character_, string_character)) {
      content = grammar_.repeat(*character, part.least, part.most);
    } else {
      content = character;
    }
    if (!content) return content;
    return sequence({quote_, *content, quote_});
  }

  Result<NodeId> counted_string(const StringPart& part) {
    const bool is_long = part.least > kShortString || (part.most != kUnbounded && part.most > kShortString);
    if (is_long) {
      const auto loop = character_loop(*part.language, bound());
      if (!loop) return pass(loop);
      if (*loop && std::max(part.least, (*loop)->least) <= part.most)
        return grammar_.repeat(grammar_.dfa((*loop)->character), std::max(part.least, (*loop)->least),
                               part.most);
    }
    auto content = node(with_length(*part.language, part.least, part.most, bound()));
    if (content || fuel_->is_empty()) return content;
    // The lengths are what is too large; the pattern was made before.
    const std::string_view name =
        name_of(part.most == kUnbounded ? Keyword::min_length : Keyword::max_length);
    const JsonView length = place_.value.is_object() ? place_.value.find(name) : JsonView();
    return too_large(length ? place_.member(name, length) : place_,
                     "The length " + std::to_string(part.most == kUnbounded ? part.least : part.most) +
                         " takes too large an automaton beside the pattern or format. " +
                         content.error().message);
  }

  NodeId enclosed(std::string_view open, NodeId inside, std::string_view close) {
    return sequence({grammar_.text(open), blank_, inside, blank_, grammar_.text(close)});
  }

  Result<NodeId> write(const std::shared_ptr<const ArrayPart>& part) { return write(*part); }
  Result<NodeId> write(const std::shared_ptr<const ObjectPart>& part) { return write(*part); }

  Result<NodeId> write(const ArrayPart& part) {
    if (part.unique && part.most > 1) return distinct(part);
    if (!part.contains.empty()) return counting(part);
    const auto rest = value(part.rest);
    if (!rest) return rest;
    if (part.most == 0) return grammar_.text("[]");
    const auto n = static_cast<std::uint32_t>(std::min<std::size_t>(part.prefix.size(), part.most));
    if (!spend_bytes(*fuel_, 200 * (1 + std::uint64_t{n}))) return out_of_fuel(place_);
    // From the back: what may stand behind the items before.
    const std::uint32_t counted = std::max(n, 1u);
    NodeId tail = grammar_.repeat(sequence({comma_, *rest}), part.least > counted ? part.least - counted : 0,
                                  part.most == kUnbounded ? kUnbounded : part.most - counted);
    for (std::uint32_t i = counted; i-- > 0;) {
      const auto item = i < n ? value(part.prefix[i]) : rest;
      if (!item) return item;
      tail = i == 0 ? sequence({*item, tail}) : sequence({comma_, *item, tail});
      if (i > 0 && i >= part.least) tail = grammar_.optional(tail);
      if (i > 0 && i % kNestedItems == 0) tail = as_rule(tail);
    }
    const NodeId full = enclosed("[", tail, "]");
    return part.least > 0 ? full : choice({grammar_.text("[]"), full});
  }

  std::unexpected<Error> too_many_distinct() const {
    const std::string_view name = name_of(Keyword::unique_items);
    const JsonView keyword = place_.value.is_object() ? place_.value.find(name) : JsonView();
    return unsupported(
        keyword ? place_.member(name, keyword) : place_,
        "\"uniqueItems\" is served for arrays of at most one item, and without \"contains\" for "
        "items that are at most " +
            std::to_string(kMostDistinct) +
            " strings, numbers of at most 15 digits, booleans and null together.");
  }

  // Each value in its one spelling.
  Result<std::vector<std::string>> spellings(const Conjunction& all) {
    const auto set = terms_->values(all);
    if (!set) return pass(set);
    if (!(*set)->arrays.empty() || !(*set)->objects.empty()) return too_many_distinct();
    left_out_ |= (*set)->lossy;
    std::vector<std::string> out;
    if ((*set)->null) out.emplace_back("null");
    if ((*set)->no) out.emplace_back("false");
    if ((*set)->yes) out.emplace_back("true");
    const auto add = [&](const Result<Dfa>& language, const std::string& quote) -> Result<void> {
      if (!language) return pass(language);
      const auto words = words_of(*language, kMostDistinct, bound());
      if (!words) return pass(words);
      if (!*words) return too_many_distinct();
      for (const auto& word : **words) {
        const auto digits = std::ranges::count_if(word, [](char c) { return c >= '0' && c <= '9'; });
        if (quote.empty() && digits > std::ptrdiff_t{kExactDigits}) return too_many_distinct();
        out.push_back(quote + word + quote);
      }
      return {};
    };
    for (const auto& part : (*set)->numbers) {
      if (!part.language) return too_many_distinct();
      const auto forms = part.integer ? any_integer(bound()) : shortest_spellings(bound());
      if (!forms) return pass(forms);
      if (auto ok = add(intersect(*part.language, *forms, bound()), ""); !ok) return pass(ok);
    }
    for (const auto& part : (*set)->strings) {
      if (!part.language) return too_many_distinct();
      if (auto ok = add(with_length(*part.language, part.least, part.most, bound()), "\""); !ok)
        return pass(ok);
    }
    return out;
  }

  // A rule for each set of values that the items before may have.
  Result<NodeId> distinct(const ArrayPart& part) {
    if (!part.contains.empty()) return too_many_distinct();
    std::vector<std::string> values;
    std::vector<std::size_t> allowed;  // sets of values, by place
    for (std::size_t i = 0; i <= std::min(part.prefix.size(), kMostDistinct) && i < part.most; ++i) {
      const auto here = spellings(i < part.prefix.size() ? part.prefix[i] : part.rest);
      if (!here) return pass(here);
      std::size_t& set = allowed.emplace_back(0);
      for (const auto& value : *here) {
        const auto at = static_cast<std::size_t>(std::ranges::find(values, value) - values.begin());
        if (at == kMostDistinct) return too_many_distinct();
        if (at == values.size()) values.push_back(value);
        set |= std::size_t{1} << at;
      }
    }
    const std::size_t sets = std::size_t{1} << values.size();
    if (!spend_bytes(*fuel_, 350 * sets * (1 + values.size()))) return out_of_fuel(place_);
    std::vector<NodeId> texts, behind(sets);
    for (const auto& value : values) texts.push_back(grammar_.text(value));
    for (std::size_t before = sets; before-- > 0;) {  // an item makes a greater set
      const auto place = static_cast<std::uint32_t>(std::popcount(before));
      std::vector<NodeId> ways;
      if (place >= part.least && place > 0) ways.push_back(grammar_.text(""));
      const std::size_t set =
          place < part.most ? allowed[std::min<std::size_t>(place, allowed.size() - 1)] : 0;
      for (std::size_t v = 0; v < values.size(); ++v) {
        const std::size_t bit = std::size_t{1} << v;
        if (!(set & bit) || (before & bit)) continue;
        ways.push_back(place > 0 ? sequence({comma_, texts[v], behind[before | bit]})
                                 : sequence({texts[v], behind[before | bit]}));
      }
      behind[before] = as_rule(choice(ways));
    }
    if (auto ok = check_memory(); !ok) return pass(ok);
    const NodeId full = enclosed("[", behind[0], "]");
    return part.least > 0 ? full : choice({grammar_.text("[]"), full});
  }

  // The items that meet the conditions of `met`, a bit of each, and count for no other that is bounded.
  Result<NodeId> counted_item(const ArrayPart& part, std::size_t i, std::size_t met) {
    const Conjunction& own = i < part.prefix.size() ? part.prefix[i] : part.rest;
    if (!spend_bytes(*fuel_, 16 * (1 + own.size()) * (1 + part.contains.size()))) return out_of_fuel(place_);
    Conjunction all = own;
    for (std::size_t k = 0; k < part.contains.size(); ++k) {
      if (met >> k & 1)
        all = both(all, part.contains[k].condition);
      else if (part.contains[k].most != kUnbounded)
        all = both(all, part.contains[k].denial);
    }
    return value(all);
  }

  // A rule for each place among the items and each count of those that met the conditions before it.
  Result<NodeId> counting(const ArrayPart& part) {
    const bool is_endless = part.most == kUnbounded;
    const std::size_t places =
        is_endless ? std::max<std::size_t>({part.prefix.size(), part.least, 1}) : part.most;
    // Counts are the digits of one number, each up to its limit.
    std::vector<std::size_t> limits, weights;
    std::uint64_t counts = 1;
    const std::size_t kinds = std::size_t{1} << std::min<std::size_t>(part.contains.size(), 16);
    for (const auto& count : part.contains) {
      limits.push_back(count.most == kUnbounded ? count.least : std::min<std::size_t>(count.most, places));
      if (is_endless && count.most != kUnbounded) limits.back() = count.most;
      weights.push_back(counts);
      counts = std::min<std::uint64_t>(counts * (limits.back() + 1), kMostCountedItems + 1);
    }
    const std::uint64_t rules = std::min<std::uint64_t>(places + 1, kMostCountedItems + 1) * counts * kinds;
    if (rules > kMostCountedItems)
      return too_large(place_, "Counting the items that \"contains\" is met by takes more than the " +
                                   std::to_string(kMostCountedItems) + " rules that are served.");
    if (!spend_bytes(*fuel_, 350 * rules)) return out_of_fuel(place_);
    const auto digit = [&](std::size_t count, std::size_t k) { return count / weights[k] % (limits[k] + 1); };
    const auto may_end = [&](std::size_t place, std::size_t count) {
      if (place < part.least) return false;
      for (std::size_t k = 0; k < limits.size(); ++k)
        if (digit(count, k) < part.contains[k].least) return false;
      return true;
    };
    // The count behind an item; nothing where a limit is reached already.
    const auto behind = [&](std::size_t count, std::size_t met) -> std::optional<std::size_t> {
      std::size_t out = count;
      for (std::size_t k = 0; k < limits.size(); ++k) {
        if (!(met >> k & 1)) continue;
        if (digit(count, k) == limits[k]) return std::nullopt;
        out += weights[k];
      }
      return out;
    };
    std::vector<NodeId> next(counts);  // by the count of the items before
    for (std::size_t place = places + 1; place-- > 0;) {
      const bool loops = is_endless && place == places;
      std::vector<NodeId> items(kinds);
      for (std::size_t met = 0; met < kinds && (place < places || loops); ++met) {
        const auto item = counted_item(part, place, met);
        if (!item) return item;
        items[met] = place > 0 ? sequence({comma_, *item}) : *item;
      }
      std::vector<NodeId> here(counts);
      for (std::size_t count = counts; count-- > 0;) {  // an item leads to a greater count or to none
        std::vector<NodeId> ways;
        if (may_end(place, count) && place > 0) ways.push_back(grammar_.text(""));
        for (std::size_t met = loops ? 1 : 0; met < kinds && (place < places || loops); ++met)
          if (const auto then = behind(count, met))
            ways.push_back(sequence({items[met], loops ? here[*then] : next[*then]}));
        NodeId node = choice(ways);
        if (loops) node = sequence({grammar_.repeat(items[0], 0, kUnbounded), node});
        here[count] = as_rule(node);
      }
      next = std::move(here);
      if (auto ok = check_memory(); !ok) return pass(ok);
    }
    const NodeId full = enclosed("[", next[0], "]");
    return may_end(0, 0) ? choice({grammar_.text("[]"), full}) : full;
  }

  NodeId as_rule(NodeId body) { return as_rule("rest", body); }
  NodeId as_rule(std::string name, NodeId body) {
    const RuleId rule = grammar_.declare(std::move(name));
    grammar_.define(rule, body);
    return grammar_.rule(rule);
  }

  // A member of the object that may stand behind the declared ones, its key in `within` if that is not null;
  // none where there is none.
  Result<std::optional<NodeId>> other_member(const ObjectPart& part, const Language& within = {}) {
    std::uint64_t bytes = 0;
    for (const auto& property : part.properties) bytes += 64 + 4 * property.name.size();
    if (!spend_bytes(*fuel_, bytes * (1 + part.others.size()))) return out_of_fuel(place_);
    std::vector<std::string> names;
    for (const auto& property : part.properties) names.push_back(spell(property.name, Spelling::json_string));
    std::vector<NodeId> members;
    for (auto region : part.others) {
      if (is_nothing(region.value)) continue;
      if (within && region.keys) {
        auto common = intersect(*region.keys, *within, bound());
        if (!common) return pass(common);
        region.keys = std::make_shared<const Dfa>(*std::move(common));
      } else if (within) {
        region.keys = within;
      }
      std::vector<std::string> declared;
      for (const auto& name : names)
        if (!region.keys || region.keys->accepts(name)) declared.push_back(name);
      Result<NodeId> keys;
      if (declared.empty()) {
        keys = region.keys ? language(region.keys) : once(key_, plain_strings);
      } else {
        const auto all = region.keys ? Result<Dfa>(*region.keys) : plain_strings(bound());
        if (!all) return pass(all);
        const auto excluded = from_texts(std::move(declared), bound());
        if (!excluded) return pass(excluded);
        keys = node(subtract(*all, *excluded, bound()));
        if (keys) keys = as_rule("keys", *keys);
      }
      if (!keys) return pass(keys);
      const auto content = value(region.value);
      if (!content) return pass(content);
      members.push_back(sequence({quote_, *keys, colon_, *content}));
    }
    if (members.empty()) return std::nullopt;
    return as_rule("member", choice(members));
  }

  struct Member {
    NodeId node;
    bool required;
  };

  // By which member has the key that is demanded.
  Result<NodeId> write_demanding(const ObjectPart& part) {
    if (part.demanded.size() > kMostDemanded || part.least > 0 || part.most != kUnbounded)
      return unsupported(
          place_,
          "A denied additionalProperties, patternProperties or propertyNames is not served beside "
          "minProperties, maxProperties or more than " +
              std::to_string(kMostDemanded) + " of its kind.");
    const Language keys = part.demanded.back();
    std::vector<NodeId> ways;
    for (std::size_t i = 0; i < part.properties.size(); ++i) {
      const auto& property = part.properties[i];
      if (is_nothing(property.value) || !keys->accepts(spell(property.name, Spelling::json_string))) continue;
      ObjectPart with = part;
      with.demanded.pop_back();
      with.properties[i].required = true;
      if (!spend_bytes(*fuel_, 200 * part.properties.size())) return out_of_fuel(place_);
      const auto way = write(with);
      if (!way) return way;
      ways.push_back(*way);
    }
    const auto demanded = other_member(part, keys);
    if (!demanded) return pass(demanded);
    if (*demanded) {
      if (part.demanded.size() > 1)
        return unsupported(place_,
                           "Keys that several denials demand are not served where they are not declared.");
      ObjectPart others = part;
      others.demanded.clear();
      const auto way = write(others, **demanded);
      if (!way) return way;
      ways.push_back(*way);
    }
    return choice(ways);
  }

  // `demanded` stands among the members that are not declared.
  Result<NodeId> write(const ObjectPart& part, std::optional<NodeId> demanded = {}) {
    if (!part.demanded.empty()) return write_demanding(part);
    const auto other = other_member(part);
    if (!other) return pass(other);
    // A member takes up to eight nodes, or a rule.
    if (!spend_bytes(*fuel_, 300 * (1 + part.properties.size()))) return out_of_fuel(place_);
    std::vector<Member> members;
    std::uint32_t required = 0;
    for (const auto& property : part.properties) {
      if (is_nothing(property.value)) continue;  // a required one never comes here
      const auto content = value(property.value);
      if (!content) return content;
      const NodeId key = grammar_.text("\"" + spell(property.name, Spelling::json_string));
      members.push_back({sequence({key, colon_, *content}), property.required});
      required += property.required;
    }
    const bool counted =
        part.least > required || (part.most != kUnbounded && (*other || part.most < members.size()));
    if (counted) return counted_object(part, members, *other);
    NodeId others = *other ? grammar_.repeat(sequence({comma_, **other}), 0, kUnbounded) : grammar_.text("");
    if (demanded) {
      const NodeId before = grammar_.repeat(sequence({**other, comma_}), 0, kUnbounded);
      members.push_back({sequence({before, *demanded, others}), true});
      others = grammar_.text("");
      ++required;
    }
    if (any_order_ && !demanded && required <= kMostUnordered) return in_any_order(members, required, *other);
    if (required > 0) return enclosed("{", around_required(members, others), "}");
    std::vector<NodeId> choices = all_optional(members, others);
    if (*other) choices.push_back(sequence({**other, others}));
    const NodeId none = grammar_.text("{}");
    return choices.empty() ? none : choice({none, enclosed("{", choice(choices), "}")});
  }

  // A rule for each set of required members that are still to come. Each of those comes once; another member
  // may come again, as keys that are not declared may.
  Result<NodeId> in_any_order(const std::vector<Member>& members, std::uint32_t required,
                              std::optional<NodeId> other) {
    std::vector<NodeId> needed, free;
    for (const auto& [node, is_needed] : members)
      is_needed ? needed.push_back(as_rule("member", node)) : free.push_back(node);
    if (other) free.push_back(*other);
    std::optional<NodeId> any;
    if (!free.empty()) any = as_rule("member", choice(free));
    const std::size_t sets = std::size_t{1} << required;
    if (!spend_bytes(*fuel_, 350 * sets * (1 + required))) return out_of_fuel(place_);
    std::vector<RuleId> rules(sets);  // by the set of those to come, at a key
    for (std::size_t left = 0; left < sets; ++left) {
      rules[left] = grammar_.declare("members");
      std::vector<NodeId> ways;
      const auto add = [&](NodeId member, std::size_t then) {
        if (then == 0 && !any) return ways.push_back(member);
        const NodeId more = sequence({comma_, grammar_.rule(rules[then])});
        ways.push_back(sequence({member, then == 0 ? grammar_.optional(more) : more}));
      };
      for (std::size_t i = 0; i < needed.size(); ++i)
        if (left >> i & 1) add(needed[i], left & ~(std::size_t{1} << i));
      if (any) add(*any, left);
      grammar_.define(rules[left], choice(ways));
    }
    if (auto ok = check_memory(); !ok) return pass(ok);
    const NodeId none = grammar_.text("{}");
    if (members.empty() && !any) return none;
    const NodeId full = enclosed("{", grammar_.rule(rules.back()), "}");
    return required > 0 ? full : choice({none, full});
  }

  // Members before the first required one bring their comma behind them, later ones before.
  NodeId around_required(const std::vector<Member>& members, NodeId others) {
    const auto first =
        static_cast<std::size_t>(std::ranges::find_if(members, &Member::required) - members.begin());
    NodeId tail = others;
    for (std::size_t i = members.size(); i-- > 0;) {
      const auto& [node, required] = members[i];
      if (i == first) {
        tail = sequence({node, tail});
        continue;
      }
      const NodeId one = i < first ? sequence({node, comma_}) : sequence({comma_, node});
      tail = sequence({required ? one : grammar_.optional(one), tail});
      if (i > 0 && !required && members.size() > kInlineTails) tail = as_rule(tail);
    }
    return tail;
  }

  // By which member comes first.
  std::vector<NodeId> all_optional(const std::vector<Member>& members, NodeId others) {
    std::vector<NodeId> out;
    NodeId tail = others;
    for (std::size_t i = members.size(); i-- > 0;) {
      out.push_back(sequence({members[i].node, tail}));
      tail = sequence({grammar_.optional(sequence({comma_, members[i].node})), tail});
      if (i > 0 && members.size() > kInlineTails) tail = as_rule(tail);
    }
    std::ranges::reverse(out);
    return out;
  }

  // A rule for each place among the members and each number of members before it.
  Result<NodeId> counted_object(const ObjectPart& part, const std::vector<Member>& members,
                                std::optional<NodeId> other) {
    const std::size_t n = members.size();
    const auto required = static_cast<std::size_t>(std::ranges::count_if(members, &Member::required));
    const std::size_t most = part.most == kUnbounded ? std::max(part.least, 1u) : part.most;
    const std::size_t columns = std::min(most, n) + 1;
    const std::uint64_t places = std::uint64_t{n + 1} * columns;
    if (places > kMostCountedMembers)
      return too_large(place_, "Counting " + std::to_string(n) + " properties takes " +
                                   std::to_string(places) + " rules; at most " +
                                   std::to_string(kMostCountedMembers) + " are served.");
    // A place takes three nodes and a named rule.
    if (!spend_bytes(*fuel_, 250 * places)) return out_of_fuel(place_);
    std::vector<NodeId> next;  // by how many members came before
    for (std::size_t before = 0; before < columns; ++before) {
      const std::size_t need = part.least > before ? part.least - before : 0;
      if (before < required) {  // by the end they have all come
        next.push_back(grammar_.choice({}));
        continue;
      }
      if (need > 1 && other)
        return unsupported(
            place_,
            "\"minProperties\" is served up to one more than the properties that are declared and required: "
            "a key that comes twice counts once.");
      if (need > 0 && !other) {
        next.push_back(grammar_.choice({}));
        continue;
      }
      NodeId end = grammar_.text("");
      const auto room = part.most == kUnbounded ? kUnbounded : static_cast<std::uint32_t>(part.most - before);
      if (other && room > 0) {
        const NodeId more =
            grammar_.repeat(sequence({comma_, *other}), 0, room == kUnbounded ? room : room - 1);
        end = before > 0 ? sequence({comma_, *other, more}) : sequence({*other, more});
        if (need == 0) end = grammar_.optional(end);
      }
      next.push_back(end);
    }
    for (std::size_t i = n; i-- > 0;) {
      std::vector<NodeId> here;
      for (std::size_t before = 0; before < columns; ++before) {
        std::vector<NodeId> ways;
        const bool has_room = part.most == kUnbounded || before < part.most;
        if (has_room) {
          const NodeId behind = next[std::min(before + 1, columns - 1)];
          ways.push_back(before > 0 ? sequence({comma_, members[i].node, behind})
                                    : sequence({members[i].node, behind}));
        }
        if (!members[i].required) ways.push_back(next[before]);
        here.push_back(as_rule(choice(ways)));
      }
      next = std::move(here);
      if (auto ok = check_memory(); !ok) return pass(ok);
    }
    return enclosed("{", next[0], "}");
  }

  std::optional<SchemaTerms> terms_;  // of the schema that is being written
  const JsonOptions& options_;
  const Limits& limits_;
  Fuel* fuel_;
  Grammar grammar_;
  struct Pending {
    RuleId rule;
    const ValueSet* values;  // of terms_
    Place place;             // of its schema, for errors
  };
  std::vector<Pending> queue_;
  Place place_;            // of the schema that is being written
  bool left_out_ = false;  // a set that was written is not exact
  bool has_pieces_ = false;
  std::optional<RuleId> any_value_;  // of every JSON value: no schema in it refers to its document
  bool any_order_ = false;           // of keys, where the schema says so
  std::map<Conjunction, RuleId> rules_;
  std::map<Conjunction, NodeId> scalars_;
  std::map<const Dfa*, NodeId> languages_;
  std::vector<Language> kept_;  // alive, so that languages_ never takes one for another
  NodeId blank_{}, comma_{}, quote_{}, colon_{};
  std::optional<NodeId> number_, integer_, content_, character_, key_;
};

void say_fuel(Error& error, const Limits& limits) {
  error.message = "The schema takes more work than the " + std::to_string(limits.steps) +
                  " steps that one constraint may cost.";
}

}  // namespace

Result<Grammar> from_json_schema(JsonView schema, const JsonOptions& options, const Limits& limits,
                                 Fuel& fuel) {
  const std::size_t size =
      schema.is_object() || schema.is_array() ? schema.json_bytes() : schema.bytes().size();
  if (size > limits.text)
    return fail(ErrorCode::json_too_large, "The schema has " + std::to_string(size) + " bytes; at most " +
                                               std::to_string(limits.text) + " are served.");
  auto grammar = Writer({}, options, limits, fuel).write(schema);
  if (!grammar && fuel.is_empty()) say_fuel(grammar.error(), limits);
  return grammar;
}

Result<void> define_schemas(Grammar& grammar, std::span<const SchemaRule> schemas, const JsonOptions& options,
                            const Limits& limits, Fuel& fuel) {
  Writer writer(std::move(grammar), options, limits, fuel);
  for (const auto& [rule, schema, pointer] : schemas) {
    auto ok = writer.define(rule, schema);
    if (ok) continue;
    if (fuel.is_empty()) say_fuel(ok.error(), limits);
    ok.error().where = pointer + ok.error().where;
    return ok;
  }
  grammar = writer.take();
  const auto has_word = rules_with_words(grammar);
  for (const auto& [rule, schema, pointer] : schemas)
    if (!has_word[static_cast<std::size_t>(rule)])
      return fail(ErrorCode::invalid_value, "No value that is served satisfies the schema.", {}, pointer);
  return {};
}

Result<Grammar> any_json_object(const JsonOptions& options, const Limits& limits, Fuel& fuel) {
  const auto schema = read_packed(R"({"type":"object"})");
  if (!schema) return pass(schema);
  return from_json_schema(schema->view(), options, limits, fuel);
}

}  // namespace flyball::grammar
