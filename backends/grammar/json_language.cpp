#include "backends/grammar/json_language.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/grammar/grammar.hpp"
#include "backends/grammar/regex.hpp"

namespace flyball::grammar {
namespace {

// A character as it stands in JSON text: itself, an escape, \u of no surrogate, or a pair of surrogates.
constexpr std::string_view kCharacter =
    "([^\"\\\\\\u0000-\\u001f]|\\\\([\"\\\\/bfnrt]"
    "|u([0-9a-cA-CeEfF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})"
    "|u[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}))";

std::string date() {
  const std::string year = "(\\d{3}[1-9]|\\d{2}[1-9]\\d|\\d[1-9]\\d{2}|[1-9]\\d{3})";  // not 0000
  const std::string leap = "(\\d\\d(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)";
  return "(" + year +
         "-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)"
         "|02-(0[1-9]|1\\d|2[0-8]))|" +
         leap + "-02-29)";
}
std::string time() {
  return "(([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d))";
}
// Names are at most 253 bytes long and a label 63, which few long labels and several shorter ones keep.
std::string host() {
  const auto label = [](int inner) {
    return "[a-zA-Z0-9]([a-zA-Z0-9-]{0," + std::to_string(inner) + "}[a-zA-Z0-9])?";
  };
  return "(" + label(61) + "(\\." + label(61) + "){0,2}|" + label(22) + "(\\." + label(22) + "){0,9})";
}
std::string ipv4() {
  const std::string byte = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
  return "(" + byte + "(\\." + byte + "){3})";
}
std::string ipv6() {
  const std::string group = "[0-9a-fA-F]{1,4}";
  const std::string last = "(" + group + ":" + group + "|" + ipv4() + ")";
  const auto up_to = [&](int n) { return "(" + group + "(:" + group + "){0," + std::to_string(n) + "})?"; };
  const auto exactly = [&](int n) { return "(" + group + ":){" + std::to_string(n) + "}"; };
  // RFC 3986: the forms by how many groups stand behind ::.
  return "(" + exactly(6) + last + "|::" + exactly(5) + last + "|(" + group + ")?::" + exactly(4) + last +
         "|" + up_to(1) + "::" + exactly(3) + last + "|" + up_to(2) + "::" + exactly(2) + last + "|" +
         up_to(3) + "::" + exactly(1) + last + "|" + up_to(4) + "::" + last + "|" + up_to(5) + "::" + group +
         "|" + up_to(6) + "::)";
}
std::string email() {
  const std::string atom = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]";
  const std::string label = "[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?";
  // At most 64 bytes before the @ (RFC 5321).
  return "(" + atom + "{1,64}|" + atom + "{1,20}(\\." + atom + "{1,20}){1,2})@" + label + "(\\." + label +
         "){1,4}";
}
// RFC 3986, and RFC 3987 with more characters.
struct UriCharacters {
  std::string_view more;  // beside unreserved ones, for a class of characters
  std::string of(std::string_view extra) const {
    return "([a-zA-Z0-9._~!$&'()*+,;=" + std::string(extra) + std::string(more) + "-]|%[0-9a-fA-F]{2})";
  }
  std::string path() const { return of(":@"); }
};
constexpr UriCharacters kUri{""}, kIri{"\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef\\u{10000}-\\u{1fffd}"};

// Parts behind the scheme, if there is one.
std::string authority(const UriCharacters& of) {
  const std::string name = of.of("");
  return "//((" + name + "|:)*@)?(" + name + "*|\\[" + ipv6() + "\\])(:\\d{0,5})?(/" + of.path() + "*)*";
}
std::string query_and_fragment(const UriCharacters& of) {
  const std::string character = "(" + of.path() + "|[/?])*";
  return "(\\?" + character + ")?(#" + character + ")?";
}
std::string identifier(const UriCharacters& of) {
  const std::string c = of.path();
  return "[a-zA-Z][a-zA-Z0-9+.-]*:(" + authority(of) + "|/?" + c + "+(/" + c + "*)*)" +
         query_and_fragment(of);
}
std::string reference(const UriCharacters& of) {
  const std::string c = of.path();
  const std::string first = of.of("@");  // no colon, or it were a scheme
  return "(" + identifier(of) + "|(" + authority(of) + "|(/|/?" + first + "+(/" + c + "*)*)?)" +
         query_and_fragment(of) + ")";
}
std::string uri() {
  return identifier(kUri);
}
std::string iri() {
  return identifier(kIri);
}
std::string uri_reference() {
  return reference(kUri);
}
std::string iri_reference() {
  return reference(kIri);
}
// RFC 6570.
std::string uri_template() {
  const std::string name = "([a-zA-Z0-9_]|%[0-9a-fA-F]{2})+";
  const std::string variable = name + "(\\." + name + ")*(\\*|:[1-9]\\d{0,3})?";
  return "([!#$&()*+,./0-9:;=?@A-Z\\[\\]_a-z~-]|%[0-9a-fA-F]{2}|\\{[+#./;?&]?" + variable + "(," + variable +
         ")*\\})*";
}

// Two digits that do not descend, with a separator between.
std::string ascending(std::string_view separator) {
  std::string out;
  for (char digit = '0'; digit <= '9'; ++digit)
    out += (digit > '0' ? "|" : "") + std::string(1, digit) + std::string(separator) + "[" + digit + "-9]";
  return "(" + out + ")";
}
// Patterns that ECMA-262 (with the flag u) and Python both read: without backreferences, names and
// lookaround, with groups at most two deep, counts of at most two digits, and ranges of digits or of letters
// from the first or to the last.
std::string regex() {
  const std::string escape =
      "\\\\([dDwWsStnrfv^$\\\\.*+?()\\[\\]{}|/]|x[0-9a-fA-F]{2}|u[0-9a-cA-C][0-9a-fA-F]{3})";
  const std::string range = "(" + ascending("-") + "|a-[a-z]|[a-z]-z|A-[A-Z]|[A-Z]-Z)";
  const std::string member = "([^\\\\\\[\\]^&~|\\-\\u0000-\\u001f]|\\\\-|" + escape + "|" + range + ")";
  const std::string set = "\\[\\^?-?" + member + "+-?\\]";
  const std::string count = "\\{(\\d{1,2},?|\\d,[1-9]\\d|" + ascending(",") + ")\\}";
  const std::string quantifier = "(([*+?]|" + count +
                                 ")\\?"
                                 "?)?";  // in two, or "??)" were a trigraph
  const std::string one =
      "([^\\\\^$.*+?()\\[\\]{}|\\u0000-\\u001f]|\\.|" + escape + "|" + set + ")" + quantifier;
  std::string term = "(" + one + "|[\\^$]|\\\\[bB])";
  for (int depth = 0; depth < 2; ++depth)
    term = "(" + one + "|[\\^$]|\\\\[bB]|\\((\\?:)?(" + term + "|\\|)*\\)" + quantifier + ")";
  return "(" + term + "|\\|)*";
}
std::string json_pointer() {
  return "(/([^~/]|~[01])*)*";
}
std::string relative_json_pointer() {
  return "(0|[1-9]\\d*)(#|" + json_pointer() + ")";
}
std::string duration() {
  const std::string clock = "T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S)";
  return "P((\\d+D|\\d+M(\\d+D)?|\\d+Y(\\d+M(\\d+D)?)?)(" + clock + ")?|" + clock + "|\\d+W)";
}
std::string uuid() {
  return "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";
}
std::string date_time() {
  return date() + "T" + time();
}

struct Format {
  std::string_view name;
  std::string (*pattern)();
};
constexpr Format kFormats[] = {
    {"date", date},
    {"time", time},
    {"date-time", date_time},
    {"duration", duration},
    {"email", email},
    {"hostname", host},
    {"ipv4", ipv4},
    {"ipv6", ipv6},
    {"uri", uri},
    {"uuid", uuid},
    {"json-pointer", json_pointer},
    {"relative-json-pointer", relative_json_pointer},
    {"uri-reference", uri_reference},
    {"uri-template", uri_template},
    {"iri", iri},
    {"iri-reference", iri_reference},
    {"regex", regex},
};

const Format* find(std::string_view name) noexcept {
  const auto* at = std::ranges::find(kFormats, name, &Format::name);
  return at == std::end(kFormats) ? nullptr : at;
}

// The most bytes that a word has, none if there is no end to them.
std::optional<std::size_t> longest(const Dfa& a) {
  std::vector<std::uint32_t> into(a.states.size(), 0), ready{0};
  for (const auto& edge : a.edges) ++into[edge.next];
  if (into[0] > 0) return std::nullopt;
  std::vector<std::size_t> length(a.states.size(), 0);
  std::size_t most = 0, seen = 0;
  while (!ready.empty()) {
    const std::uint32_t s = ready.back();
    ready.pop_back();
    ++seen;
    most = std::max(most, length[s]);
    for (std::uint32_t e = a.states[s].first; e < a.states[s].first + a.states[s].count; ++e) {
      const std::uint32_t to = a.edges[e].next;
      length[to] = std::max(length[to], length[s] + 1);
      if (--into[to] == 0) ready.push_back(to);
    }
  }
  return seen == a.states.size() ? std::optional(most) : std::nullopt;
}

}  // namespace

Result<Dfa> string_character(Bound bound) {
  return from_regex(kCharacter, {}, bound);
}

Result<Dfa> string_content(Bound bound) {
  return from_regex(std::string(kCharacter) + "*", {}, bound);
}

Result<Dfa> plain_strings(Bound bound) {
  return from_regex("[^]*", {.spelling = Spelling::json_string}, bound);
}

Result<Dfa> with_length(const Dfa& strings, std::uint32_t least, std::uint32_t most, Bound bound) {
  Result<Dfa> out = strings;
  if (least == 1 && strings.states[0].accepting) {
    auto empty = from_texts({""}, bound);
    if (!empty) return empty;
    out = subtract(strings, *empty, bound);
    if (!out) return out;
  }
  if (least <= 1) least = 0;
  if (most != kUnbounded)
    if (const auto bytes = longest(*out); bytes && *bytes <= most) most = kUnbounded;
  if (least == 0 && most == kUnbounded) return out;
  if (std::max(least, most == kUnbounded ? 0 : most) > bound.states)
    return fail(ErrorCode::unsupported_value,
                "Lengths of at most " + std::to_string(bound.states) + " are served beside this pattern.");
  const std::string counts =
      "{" + std::to_string(least) + "," + (most == kUnbounded ? "" : std::to_string(most)) + "}";
  auto lengths = from_regex("[^]" + counts, {.spelling = Spelling::json_string}, bound);
  if (!lengths) return lengths;
  return intersect(*out, *lengths, bound);
}

Result<std::optional<CharacterLoop>> character_loop(const Dfa& strings, Bound bound) {
  const auto one = from_regex("[^]", {.spelling = Spelling::json_string}, bound);
  if (!one) return pass(one);
  auto character = intersect(strings, *one, bound);
  if (!character) return pass(character);
  Nfa nfa;
  const auto start = nfa.add(), loop = nfa.add(), end = nfa.add();
  nfa.words(start, *character, loop);
  nfa.words(loop, *character, loop);
  nfa.jump(loop, end);
  if (strings.states[0].accepting) nfa.jump(start, end);
  const auto words = determinize(nfa, start, end, bound);
  if (!words) return pass(words);
  for (const auto& [left, right] : {std::pair(&strings, &*words), std::pair(&*words, &strings)}) {
    const auto rest = subtract(*left, *right, bound);
    if (!rest) return pass(rest);
    if (!is_empty(*rest)) return std::nullopt;
  }
  return CharacterLoop{*std::move(character), strings.states[0].accepting ? 0u : 1u};
}

bool is_enforced_format(std::string_view name) noexcept {
  return find(name) != nullptr;
}

Result<Dfa> strings_of_format(std::string_view name, Bound bound) {
  return from_regex(find(name)->pattern(), {.spelling = Spelling::json_string}, bound);
}

}  // namespace flyball::grammar
