#include "backends/grammar/structural_tag.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/grammar/gbnf.hpp"
#include "backends/grammar/prune.hpp"
#include "backends/grammar/regex.hpp"
#include "backends/grammar/schema_error.hpp"
#include "backends/grammar/string_search.hpp"
#include "config/name_list.hpp"

namespace flyball::grammar {
namespace {

constexpr std::uint64_t kFormatSteps = 100;  // of one format or tag, its members and its nodes

constexpr std::string_view kTokensAreNotText =
    "is not served: a constraint is one of text, whatever tokens it is made of";

// The surroundings of the format that is being written.
struct Around {
  // The ends of the tag around it, which the format's nodes have to include; none where it is in no tag or
  // not at the end of one.
  std::span<const std::string> ends = {};
  NodeId end = {};      // any of the ends
  bool is_last = true;  // nothing else follows it but the ends
};

struct Tag {
  Place place;
  std::string begin;
  Place content;
  bool is_schema = false;  // `content`; else it is a format
  std::vector<std::string> ends = {};
};

struct TriggeredTags {
  Place place;
  std::vector<Tag> tags = {};
  Place triggers_place = {};
  std::vector<std::string> triggers = {}, excludes = {};
  bool at_least_one = false, stop_after_first = false;
};

// Free text up to one of its stops.
struct FreeText {
  StringSearch stops;
  NodeId text{};  // the text before it: neither a stop nor an excluded string occurs in it
};

class StructuralTagWriter {
 public:
  StructuralTagWriter(const JsonOptions& options, const Limits& limits, Fuel& fuel)
      : options_(options), limits_(limits), fuel_(&fuel) {}

  Result<Grammar> run(JsonView tag) {
    const Place place{tag, {}};
    const RuleId root = grammar_.declare("root");
    const auto body = write_root(place);
    if (!body) return pass(body);
    grammar_.define(root, *body);
    if (auto ok = define_schemas(grammar_, schemas_, options_, limits_, *fuel_); !ok) return pass(ok);
    auto grammar = prune(std::move(grammar_));
    if (!grammar) return malformed(place, "No text satisfies the structural tag.");
    return *std::move(grammar);
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  Bound bound() const { return {fuel_}; }
  NodeId sequence(std::initializer_list<NodeId> children) {
    return grammar_.sequence(std::span(children.begin(), children.size()));
  }
  NodeId choice(const std::vector<NodeId>& children) {
    return children.size() == 1 ? children[0] : grammar_.choice(children);
  }
  NodeId choice_of_texts(std::span<const std::string> texts) {
    std::vector<NodeId> nodes;
    for (const std::string& text : texts) nodes.push_back(grammar_.text(text));
    return choice(nodes);
  }
  NodeId ended(NodeId node, const Around& around) {
    return around.ends.empty() ? node : sequence({node, around.end});
  }
  // The error of a part. A place in a pattern is in the message already.
  static std::unexpected<Error> placed(Error error, const Place& at) {
    error.where = at.pointer.text() + (error.where.starts_with('/') ? error.where : "");
    return std::unexpected(std::move(error));
  }
  Result<NodeId> node(Result<Dfa> dfa, const Place& at) {
    if (!dfa) return placed(std::move(dfa.error()), at);
    return grammar_.dfa(*std::move(dfa));
  }
  Result<void> check_memory(const Place& at) const {
    if (grammar_.memory() <= limits_.memory) return {};
    return too_large(
        at, "The grammar takes more than the " + std::to_string(limits_.memory) + " bytes that are served.");
  }
  std::unexpected<Error> out_of_steps(const Place& at) const {
    return too_large(at, "The structural tag takes more work than one constraint may cost.");
  }

  static Place member(const Place& of, std::string_view name) {
    return of.member(name, of.value.member(name));
  }

  // An object that has no members but these.
  Result<void> check_object(const Place& at, Names known) {
    if (!at.value.is_object())
      return malformed(at, std::string("It is ") + at.value.type_name() + "; it must be an object.");
    if (!fuel_->spend(kFormatSteps)) return out_of_steps(at);
    for (const auto& [key, value] : at.value.members())
      if (std::ranges::find(known, key) == known.end())
        return unsupported(at, "The member " + config::not_among(key, std::vector<std::string_view>(known)) +
                                   " is not served.");
    return {};
  }

  Result<Place> required(const Place& of, std::string_view name) {
    Place out = member(of, name);
    if (!out.value) return malformed(of, "It has no \"" + std::string(name) + "\".");
    return out;
  }

  Result<std::string> text(const Place& at, bool may_be_empty) {
    if (!at.value.is_string()) return malformed(at, "It must be a string.");
    if (!may_be_empty && at.value.text().empty()) return malformed(at, "It must not be empty.");
    if (!fuel_->spend(10 + at.value.text().size())) return out_of_steps(at);
    return std::string(at.value.text());
  }

  // The strings of an array, which may be absent.
  Result<std::vector<std::string>> texts(const Place& at, bool may_be_empty) {
    std::vector<std::string> out;
    if (!at.value) return out;
    if (!at.value.is_array()) return malformed(at, "It must be an array of strings.");
    for (const auto& [key, value] : at.value.members()) {
      auto one = text(at.item(static_cast<std::uint32_t>(out.size()), value), may_be_empty);
      if (!one) return pass(one);
      out.push_back(*std::move(one));
    }
    return out;
  }

  Result<std::vector<Place>> places(const Place& at) {
    if (!at.value.is_array() || at.value.size() == 0)
      return malformed(at, "It must be an array that is not empty.");
    if (!fuel_->spend(20 * at.value.size())) return out_of_steps(at);
    std::vector<Place> out;
    for (const auto& [key, value] : at.value.members())
      out.push_back(at.item(static_cast<std::uint32_t>(out.size()), value));
    return out;
  }

  Result<bool> flag(const Place& of, std::string_view name) {
    const Place at = member(of, name);
    if (!at.value) return false;
    if (!at.value.is_boolean()) return malformed(at, "It must be a boolean.");
    return at.value.as_bool();
  }

  Result<NodeId> write_root(const Place& at) {
    if (auto ok = check_object(at, {"type", "structures", "triggers", "format"}); !ok) return pass(ok);
    const Place type = member(at, "type"), format = member(at, "format");
    if (type.value && !(type.value.is_string() && type.value.text() == "structural_tag"))
      return malformed(type, "It must be \"structural_tag\".");
    if (!format.value) return write_structures(at);
    if (member(at, "structures").value || member(at, "triggers").value)
      return malformed(at, "It has a \"format\" beside \"structures\" and \"triggers\".");
    return write(format, {});
  }

  Result<NodeId> write_structures(const Place& at) {
    TriggeredTags all{.place = at};
    const auto structures = required(at, "structures");
    if (!structures) return pass(structures);
    const auto items = places(*structures);
    if (!items) return pass(items);
    for (const Place& item : *items) {
      if (auto ok = check_object(item, {"begin", "schema", "end"}); !ok) return pass(ok);
      auto tag = read_delimiters(item);
      if (!tag) return pass(tag);
      const auto schema = required(item, "schema");
      if (!schema) return pass(schema);
      tag->content = *schema;
      tag->is_schema = true;
      all.tags.push_back(*std::move(tag));
    }
    if (auto ok = read_triggers(all); !ok) return pass(ok);
    return write(all, {});
  }

  struct Format {
    std::string_view type;
    Result<NodeId> (StructuralTagWriter::*write)(const Place&, const Around&);
  };
  static std::span<const Format> formats();

  Result<NodeId> write(const Place& at, const Around& around) {
    if (++depth_ > limits_.depth)
      return too_large(at, "The formats nest deeper than the " + std::to_string(limits_.depth) +
                               " levels that are served.");
    auto out = write_format(at, around);
    --depth_;
    if (out)
      if (auto ok = check_memory(at); !ok) return pass(ok);
    return out;
  }

  Result<NodeId> write_format(const Place& at, const Around& around) {
    if (!at.value.is_object()) return malformed(at, "It must be an object with a \"type\".");
    const auto type = required(at, "type");
    if (!type) return pass(type);
    if (!type->value.is_string()) return malformed(*type, "It must be a string.");
    const std::string_view name = type->value.text();
    for (const Format& one : formats())
      if (one.type == name) return (this->*one.write)(at, around);
    for (const std::string_view tokens :
         {"token", "exclude_token", "any_tokens", "token_triggered_tags", "token_dispatch"})
      if (name == tokens)
        return unsupported(*type, config::quoted(name) + " " + std::string(kTokensAreNotText) + ".");
    std::vector<std::string_view> known;
    for (const Format& one : formats()) known.push_back(one.type);
    return unsupported(*type, "The format " + config::not_among(name, known) + " is not served.");
  }

  Result<NodeId> write_const(const Place& at, const Around& around) {
    if (auto ok = check_object(at, {"type", "value"}); !ok) return pass(ok);
    const auto value = text(member(at, "value"), true);
    if (!value) return pass(value);
    return ended(grammar_.text(*value), around);
  }

  Result<NodeId> write_json_schema(const Place& at, const Around& around) {
    if (auto ok = check_object(at, {"type", "json_schema", "style", "any_order"}); !ok) return pass(ok);
    const Place style = member(at, "style");
    if (style.value && !(style.value.is_string() && style.value.text() == "json"))
      return unsupported(style, "The style \"json\" is served only.");
    const auto any_order = flag(at, "any_order");
    if (!any_order) return pass(any_order);
    if (*any_order)
      return unsupported(member(at, "any_order"),
                         "Keys come in the order in which the schema declares them.");
    const auto schema = required(at, "json_schema");
    if (!schema) return pass(schema);
    return ended(schema_rule(*schema), around);
  }

  // The rule of a schema, which is defined when all formats are written. Equal schemas have one.
  NodeId schema_rule(const Place& at) {
    const auto [known, is_new] = rules_.try_emplace(at.value.bytes());
    if (is_new) {
      known->second = grammar_.declare("schema");
      schemas_.push_back({known->second, at.value, at.pointer.text()});
    }
    return grammar_.rule(known->second);
  }

  Result<NodeId> write_regex(const Place& at, const Around& around) {
    if (auto ok = check_object(at, {"type", "pattern", "excludes"}); !ok) return pass(ok);
    const auto excludes = texts(member(at, "excludes"), false);
    if (!excludes) return pass(excludes);
    if (!excludes->empty())
      return unsupported(member(at, "excludes"), "A pattern without \"excludes\" is served only.");
    const Place pattern = member(at, "pattern");
    const auto source = text(pattern, true);
    if (!source) return pass(source);
    const auto words = node(from_regex(*source, {.depth = limits_.depth}, bound()), pattern);
    if (!words) return words;
    return ended(*words, around);
  }

  Result<NodeId> write_grammar(const Place& at, const Around& around) {
    if (auto ok = check_object(at, {"type", "grammar"}); !ok) return pass(ok);
    const Place grammar = member(at, "grammar");
    const auto source = text(grammar, false);
    if (!source) return pass(source);
    auto made = read_gbnf(*source, *fuel_, limits_);
    if (!made) {
      made.error().message += " (" + made.error().where + ")";
      return placed(std::move(made.error()), grammar);
    }
    if (!fuel_->spend(made->memory() / 4)) return out_of_steps(at);
    return ended(grammar_.rule(grammar_.include(*made)), around);
  }

  Result<NodeId> write_any_text(const Place& at, const Around& around) {
    if (auto ok = check_object(at, {"type", "excludes", "max_tokens", "max_chars"}); !ok) return pass(ok);
    for (const std::string_view name : {"max_tokens", "max_chars"})
      if (const Place limit = member(at, name); limit.value)
        return unsupported(limit, "Free text without a limit is served only.");
    auto excludes = texts(member(at, "excludes"), false);
    if (!excludes) return pass(excludes);
    const auto free = free_text({around.ends.begin(), around.ends.end()}, *excludes, at, at, around);
    if (!free) return pass(free);
    return up_to_the_end(*free, around, at);
  }

  Result<NodeId> write_sequence(const Place& at, const Around& around) {
    if (auto ok = check_object(at, {"type", "elements"}); !ok) return pass(ok);
    const auto elements = places(member(at, "elements"));
    if (!elements) return pass(elements);
    std::vector<NodeId> nodes;
    for (std::size_t i = 0; i < elements->size(); ++i) {
      const auto one = write((*elements)[i], i + 1 < elements->size() ? Around{.is_last = false} : around);
      if (!one) return one;
      nodes.push_back(*one);
    }
    return grammar_.sequence(nodes);
  }

  Result<NodeId> write_or(const Place& at, const Around& around) {
    if (auto ok = check_object(at, {"type", "elements"}); !ok) return pass(ok);
    const auto elements = places(member(at, "elements"));
    if (!elements) return pass(elements);
    std::vector<NodeId> nodes;
    for (const Place& element : *elements) {
      const auto one = write(element, around);
      if (!one) return one;
      nodes.push_back(*one);
    }
    return choice(nodes);
  }

  Result<NodeId> write_optional(const Place& at, const Around& around) {
    if (auto ok = check_object(at, {"type", "content"}); !ok) return pass(ok);
    const auto content = required(at, "content");
    if (!content) return pass(content);
    const auto one = write(*content, around);
    if (!one) return one;
    return around.ends.empty() ? grammar_.optional(*one) : choice({*one, around.end});
  }
  Result<NodeId> write_plus(const Place& at, const Around& around) {
    return write_repeat(at, {"type", "content"}, 1, kUnbounded, around);
  }
  Result<NodeId> write_star(const Place& at, const Around& around) {
    return write_repeat(at, {"type", "content"}, 0, kUnbounded, around);
  }
  Result<NodeId> write_counted(const Place& at, const Around& around) {
    std::array<std::int64_t, 2> counts{};
    for (std::size_t i = 0; i < 2; ++i) {
      const Place count = member(at, i == 0 ? "min" : "max");
      if (!count.value.is_integer() || count.value.as_integer() < (i == 0 ? 0 : -1) ||
          count.value.as_integer() >= std::int64_t{kUnbounded})
        return malformed(count,
                         i == 0 ? "It must be a number of times." : "It must be a number of times, or -1.");
      counts[i] = count.value.as_integer() < 0 ? std::int64_t{kUnbounded} : count.value.as_integer();
    }
    if (counts[0] > counts[1]) return malformed(at, "\"min\" is more than \"max\".");
    return write_repeat(at, {"type", "content", "min", "max"}, static_cast<std::uint32_t>(counts[0]),
                        static_cast<std::uint32_t>(counts[1]), around);
  }
  Result<NodeId> write_repeat(const Place& at, Names known, std::uint32_t least, std::uint32_t most,
                              const Around& around) {
    if (auto ok = check_object(at, known); !ok) return pass(ok);
    const auto content = required(at, "content");
    if (!content) return pass(content);
    const auto one = write(*content, {.is_last = false});
    if (!one) return one;
    return ended(grammar_.repeat(*one, least, most), around);
  }

  // The strings around the content of a tag or structure.
  Result<Tag> read_delimiters(const Place& at) {
    auto begin = text(member(at, "begin"), true);
    if (!begin) return pass(begin);
    const Place end = member(at, "end");
    std::vector<std::string> ends;
    if (end.value.is_array()) {
      auto all = texts(end, true);
      if (!all) return pass(all);
      ends = *std::move(all);
      if (ends.empty()) return malformed(end, "It must not be empty.");
    } else {
      auto one = text(end, true);
      if (!one) return pass(one);
      ends.push_back(*std::move(one));
    }
    return Tag{.place = at, .begin = *std::move(begin), .content = {}, .ends = std::move(ends)};
  }

  Result<Tag> read_tag(const Place& at) {
    if (auto ok = check_object(at, {"type", "begin", "content", "end"}); !ok) return pass(ok);
    const Place type = member(at, "type");
    if (type.value && !(type.value.is_string() && type.value.text() == "tag"))
      return malformed(type, "It must be \"tag\".");
    for (const std::string_view name : {"begin", "end"})
      if (const Place string = member(at, name); string.value.is_object())
        return unsupported(string, "A token " + std::string(kTokensAreNotText) + ".");
    auto tag = read_delimiters(at);
    if (!tag) return tag;
    const auto content = required(at, "content");
    if (!content) return pass(content);
    tag->content = *content;
    return tag;
  }

  Result<std::vector<Tag>> read_tags(const Place& at) {
    const auto items = places(at);
    if (!items) return pass(items);
    std::vector<Tag> out;
    for (const Place& item : *items) {
      auto tag = read_tag(item);
      if (!tag) return pass(tag);
      out.push_back(*std::move(tag));
    }
    return out;
  }

  // The content and the end of a tag.
  Result<NodeId> write_rest(const Tag& tag) {
    const NodeId end = choice_of_texts(tag.ends);
    const Around around{.ends = tag.ends, .end = tag.ends.size() == 1 ? end : as_rule("end", end)};
    if (!tag.is_schema) return write(tag.content, around);
    if (auto ok = check_memory(tag.place); !ok) return pass(ok);
    return ended(schema_rule(tag.content), around);
  }

  Result<NodeId> write_tag(const Tag& tag) {
    const auto rest = write_rest(tag);
    if (!rest) return rest;
    return sequence({grammar_.text(tag.begin), *rest});
  }
  Result<NodeId> write_one_tag(const Place& at, const Around& around) {
    const auto tag = read_tag(at);
    if (!tag) return pass(tag);
    const auto node = write_tag(*tag);
    if (!node) return node;
    return ended(*node, around);
  }

  Result<NodeId> write_separated(const Place& at, const Around& around) {
    if (auto ok = check_object(at, {"type", "tags", "separator", "at_least_one", "stop_after_first"}); !ok)
      return pass(ok);
    const auto tags = read_tags(member(at, "tags"));
    if (!tags) return pass(tags);
    const auto separator = text(member(at, "separator"), true);
    if (!separator) return pass(separator);
    const auto at_least_one = flag(at, "at_least_one");
    if (!at_least_one) return pass(at_least_one);
    const auto stop_after_first = flag(at, "stop_after_first");
    if (!stop_after_first) return pass(stop_after_first);
    std::vector<NodeId> nodes;
    for (const Tag& tag : *tags) {
      const auto one = write_tag(tag);
      if (!one) return one;
      nodes.push_back(*one);
    }
    const NodeId first = as_rule("tags", choice(nodes));
    NodeId all = first;
    if (!*stop_after_first)
      all = sequence({first, grammar_.repeat(sequence({grammar_.text(*separator), first}), 0, kUnbounded)});
    return ended(*at_least_one ? all : grammar_.optional(all), around);
  }

  NodeId as_rule(const char* name, NodeId body) {
    const RuleId rule = grammar_.declare(name);
    grammar_.define(rule, body);
    return grammar_.rule(rule);
  }

  // `stops_place`: of those stops that are no ends of the tag around it.
  Result<FreeText> free_text(std::vector<std::string> stops, const std::vector<std::string>& excludes,
                             const Place& at, const Place& stops_place, const Around& around) {
    if (!around.is_last && excludes.empty())
      return unsupported(at, "Free text that has something behind it needs \"excludes\".");
    if (std::ranges::any_of(around.ends, &std::string::empty))
      return malformed(at, "Free text needs an end; the tag around it has an empty one.");
    auto search = StringSearch::of(std::move(stops), bound());
    if (!search) return placed(std::move(search.error()), stops_place);
    const auto& strings = search->strings();
    for (std::size_t i = 0; i < strings.size(); ++i)
      if (const auto inner = search->within(i))
        return malformed(stops_place, "Free text never comes to " + config::quoted(strings[i]) +
                                          ": it ends at " + config::quoted(strings[*inner]) +
                                          ", which is within that or the same.");
    for (const std::string& exclude : excludes)
      if (search->meets(exclude)) return exclude_meets_stop(exclude, at);
    std::vector<std::string> absent = excludes;
    absent.insert(absent.end(), strings.begin(), strings.end());
    const auto all = StringSearch::of(std::move(absent), bound());
    if (!all) return placed(all.error(), stops_place);
    for (std::size_t i = excludes.size(); i < all->strings().size(); ++i)
      if (const auto inner = all->within(i)) return exclude_meets_stop(all->strings()[*inner], at);
    const auto text = node(all->texts_without(bound()), stops_place);
    if (!text) return pass(text);
    return FreeText{*std::move(search), *text};
  }
  // Free text and its stop, read together, could hold the excluded string; or the text could never hold it.
  static std::unexpected<Error> exclude_meets_stop(const std::string& exclude, const Place& at) {
    return unsupported(member(at, "excludes"),
                       "The excluded " + config::quoted(exclude) +
                           " overlaps a trigger or an end; one that has no part of them is served only.");
  }

  // Free text and a stop, with what follows each: a node for every stop, or none where it is left out.
  Result<NodeId> up_to(const FreeText& free, std::span<const std::optional<NodeId>> next, const Place& at) {
    const auto& stops = free.stops.strings();
    std::vector<NodeId> ways;
    if (!free.stops.may_overlap()) {
      // No stop ends within another one, so the stop behind free text is the first in both together.
      for (std::size_t i = 0; i < stops.size(); ++i)
        if (next[i]) ways.push_back(sequence({grammar_.text(stops[i]), *next[i]}));
      return sequence({free.text, choice(ways)});
    }
    for (std::size_t i = 0; i < stops.size(); ++i) {
      if (!next[i]) continue;
      const auto way = node(text_and_stop(free, stops[i]), at);
      if (!way) return way;
      ways.push_back(sequence({*way, *next[i]}));
      if (auto ok = check_memory(at); !ok) return pass(ok);
    }
    return choice(ways);
  }

  // Free text and the stop, where the text goes up to the first of all stops.
  Result<Dfa> text_and_stop(const FreeText& free, const std::string& stop) {
    const auto end = from_texts({stop}, bound());
    if (!end) return end;
    const auto text = concatenate(grammar_.dfa_of(grammar_.node(free.text)), *end, bound());
    if (!text) return text;
    const auto first = free.stops.texts_up_to(bound());
    if (!first) return first;
    return intersect(*text, *first, bound());
  }

  // The ends of the tag around it are the last stops.
  Result<NodeId> up_to_the_end(const FreeText& free, const Around& around, const Place& at) {
    if (around.ends.empty()) return free.text;
    if (!free.stops.may_overlap()) return sequence({free.text, around.end});
    std::vector<std::optional<NodeId>> next(free.stops.strings().size());
    const NodeId nothing = grammar_.text("");
    for (std::size_t i = next.size() - around.ends.size(); i < next.size(); ++i) next[i] = nothing;
    return up_to(free, next, at);
  }

  Result<void> read_triggers(TriggeredTags& all) {
    const auto triggers = required(all.place, "triggers");
    if (!triggers) return pass(triggers);
    all.triggers_place = *triggers;
    auto strings = texts(*triggers, false);
    if (!strings) return pass(strings);
    if (strings->empty()) return malformed(*triggers, "It must not be empty.");
    all.triggers = *std::move(strings);
    return {};
  }

  Result<NodeId> write_triggered(const Place& at, const Around& around) {
    if (auto ok =
            check_object(at, {"type", "triggers", "tags", "at_least_one", "stop_after_first", "excludes"});
        !ok)
      return pass(ok);
    TriggeredTags all{.place = at};
    auto tags = read_tags(member(at, "tags"));
    if (!tags) return pass(tags);
    all.tags = *std::move(tags);
    if (auto ok = read_triggers(all); !ok) return pass(ok);
    auto excludes = texts(member(at, "excludes"), false);
    if (!excludes) return pass(excludes);
    all.excludes = *std::move(excludes);
    const auto at_least_one = flag(at, "at_least_one");
    if (!at_least_one) return pass(at_least_one);
    const auto stop_after_first = flag(at, "stop_after_first");
    if (!stop_after_first) return pass(stop_after_first);
    all.at_least_one = *at_least_one;
    all.stop_after_first = *stop_after_first;
    return write(all, around);
  }

  // The trigger that each tag begins with. Precondition: no trigger occurs in another one.
  Result<std::vector<std::size_t>> triggers_of(const TriggeredTags& all) {
    std::vector<std::size_t> sorted(all.triggers.size()), out;
    for (std::size_t i = 0; i < sorted.size(); ++i) sorted[i] = i;
    const auto trigger = [&](std::size_t i) -> std::string_view { return all.triggers[i]; };
    std::ranges::sort(sorted, {}, trigger);
    std::vector<bool> used(sorted.size(), false);
    for (const Tag& tag : all.tags) {
      if (!fuel_->spend(20 + tag.begin.size())) return out_of_steps(tag.place);
      // Strings between a trigger and a text that starts with it start with it, too.
      const auto behind = std::ranges::upper_bound(sorted, std::string_view(tag.begin), {}, trigger);
      if (behind == sorted.begin() || !tag.begin.starts_with(trigger(*(behind - 1))))
        return malformed(member(tag.place, "begin"),
                         config::quoted(tag.begin) + " begins with none of the triggers.");
      out.push_back(*(behind - 1));
      used[out.back()] = true;
    }
    if (const auto idle = std::ranges::find(used, false); idle != used.end()) {
      const auto i = static_cast<std::uint32_t>(idle - used.begin());
      return malformed(all.triggers_place.item(i, {}),
                       "No tag begins with the trigger " + config::quoted(all.triggers[i]) + ".");
    }
    return out;
  }

  Result<NodeId> write(const TriggeredTags& all, const Around& around) {
    const bool is_one_tag = all.at_least_one && all.stop_after_first;  // and no free text
    if (is_one_tag && !all.excludes.empty())
      return malformed(member(all.place, "excludes"), "Exactly one tag has no free text around it.");
    // A trigger may not begin in the free text and end in what follows.
    if (!is_one_tag && !around.is_last)
      return unsupported(all.place,
                         "Triggered tags that have something behind them need \"at_least_one\" and "
                         "\"stop_after_first\".");
    std::vector<std::string> stops = all.triggers;
    if (!is_one_tag) stops.insert(stops.end(), around.ends.begin(), around.ends.end());
    const auto free = free_text(std::move(stops), all.excludes, all.place, all.triggers_place,
                                is_one_tag ? Around{} : around);
    if (!free) return pass(free);
    const auto triggers = triggers_of(all);
    if (!triggers) return pass(triggers);
    // The rests of the tags that begin with each stop.
    std::vector<std::vector<NodeId>> rests(free->stops.strings().size());
    std::vector<NodeId> tags;
    for (std::size_t i = 0; i < all.tags.size(); ++i) {
      const Tag& tag = all.tags[i];
      const auto body = write_rest(tag);
      if (!body) return body;
      const NodeId rest = as_rule("tag", *body);
      const std::size_t trigger = (*triggers)[i];
      const std::string_view behind = std::string_view(tag.begin).substr(all.triggers[trigger].size());
      rests[trigger].push_back(sequence({grammar_.text(behind), rest}));
      if (all.at_least_one) tags.push_back(sequence({grammar_.text(tag.begin), rest}));
    }
    if (is_one_tag) return ended(choice(tags), around);
    std::vector<std::optional<NodeId>> next;
    for (const auto& rest : rests) next.push_back(rest.empty() ? std::nullopt : std::optional(choice(rest)));
    const auto tag = up_to(*free, next, all.triggers_place);
    if (!tag) return tag;
    const auto end = up_to_the_end(*free, around, all.triggers_place);
    if (!end) return end;
    if (all.stop_after_first) return choice({ended(*tag, around), *end});
    const NodeId more = grammar_.repeat(*tag, 0, kUnbounded);
    return all.at_least_one ? sequence({choice(tags), more, *end}) : sequence({more, *end});
  }

  const JsonOptions& options_;
  const Limits& limits_;
  Fuel* fuel_;
  Grammar grammar_;
  std::uint32_t depth_ = 0;
  std::vector<SchemaRule> schemas_;
  std::map<std::string_view, RuleId> rules_;  // of them, by their bytes
};

std::span<const StructuralTagWriter::Format> StructuralTagWriter::formats() {
  using Writer = StructuralTagWriter;
  static constexpr std::array kFormats{
      Format{"const_string", &Writer::write_const},
      Format{"json_schema", &Writer::write_json_schema},
      Format{"regex", &Writer::write_regex},
      Format{"grammar", &Writer::write_grammar},
      Format{"any_text", &Writer::write_any_text},
      Format{"sequence", &Writer::write_sequence},
      Format{"or", &Writer::write_or},
      Format{"optional", &Writer::write_optional},
      Format{"plus", &Writer::write_plus},
      Format{"star", &Writer::write_star},
      Format{"repeat", &Writer::write_counted},
      Format{"tag", &Writer::write_one_tag},
      Format{"triggered_tags", &Writer::write_triggered},
      Format{"tags_with_separator", &Writer::write_separated},
  };
  return kFormats;
}

}  // namespace

Result<Grammar> from_structural_tag(JsonView tag, const JsonOptions& options, const Limits& limits,
                                    Fuel& fuel) {
  return StructuralTagWriter(options, limits, fuel).run(tag);
}

}  // namespace flyball::grammar
