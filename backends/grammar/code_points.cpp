#include "backends/grammar/code_points.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace flyball::grammar {
namespace {

constexpr char32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;
constexpr char32_t kFirstLiteral = 0x20;  // controls below are escaped in JSON

unsigned encode(char32_t c, std::array<std::uint8_t, 4>& out) {
  if (c < 0x80) {
    out[0] = static_cast<std::uint8_t>(c);
    return 1;
  }
  const unsigned n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (unsigned i = n - 1; i > 0; --i, c >>= 6) out[i] = static_cast<std::uint8_t>(0x80 | (c & 0x3F));
  out[0] = static_cast<std::uint8_t>((0xF00 >> n & 0xFF) | c);
  return n;
}

// A range whose members all have n bytes, no surrogate among them. It is cut where a byte changes while the
// bytes behind it do not run from 80 to BF.
void add_utf8(char32_t from, char32_t to, std::vector<ByteSequence>& out) {
  for (const char32_t last : {0x7Fu, 0x7FFu, 0xFFFFu})
    if (from <= last && to > last) {
      add_utf8(from, last, out);
      add_utf8(last + 1, to, out);
      return;
    }
  if (from >= 0x80)
    for (unsigned bits : {6u, 12u, 18u}) {
      const char32_t low = (char32_t{1} << bits) - 1;
      if ((from & ~low) == (to & ~low)) continue;
      if ((from & low) != 0) {
        add_utf8(from, from | low, out);
        add_utf8((from | low) + 1, to, out);
        return;
      }
      if ((to & low) != low) {
        add_utf8(from, (to & ~low) - 1, out);
        add_utf8(to & ~low, to, out);
        return;
      }
    }
  std::array<std::uint8_t, 4> first{}, last{};
  const unsigned n = encode(from, first);
  encode(to, last);
  ByteSequence& sequence = out.emplace_back();
  for (unsigned i = 0; i < n; ++i) sequence.push_back({first[i], last[i]});
}

void add_without_surrogates(char32_t from, char32_t to, std::vector<ByteSequence>& out) {
  if (from < kFirstSurrogate) add_utf8(from, std::min<char32_t>(to, kFirstSurrogate - 1), out);
  if (to > kLastSurrogate) add_utf8(std::max<char32_t>(from, kLastSurrogate + 1), to, out);
}

bool is_escaped(char32_t c) {
  return c < kFirstLiteral || c == '"' || c == '\\';
}

std::string escaped(char32_t c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  constexpr std::string_view kHex = "0123456789abcdef";
  return std::string("\\u00") + kHex[c >> 4] + kHex[c & 15];
}

}  // namespace

CodePointSet CodePointSet::of(std::vector<CodePointRange> ranges) {
  std::ranges::sort(ranges, {}, &CodePointRange::from);
  CodePointSet set;
  for (const auto& range : ranges) {
    if (!set.ranges_.empty() && range.from <= set.ranges_.back().to + 1)
      set.ranges_.back().to = std::max(set.ranges_.back().to, range.to);
    else
      set.ranges_.push_back(range);
  }
  return set;
}

CodePointSet CodePointSet::complement() const {
  CodePointSet set;
  char32_t next = 0;
  for (const auto& range : ranges_) {
    if (range.from > next) set.ranges_.push_back({next, range.from - 1});
    next = range.to + 1;
  }
  if (next <= kLastCodePoint) set.ranges_.push_back({next, kLastCodePoint});
  return set;
}

void CodePointSet::add(const CodePointSet& other) {
  std::vector<CodePointRange> both = std::move(ranges_);
  both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
  *this = of(std::move(both));
}

std::vector<ByteSequence> spell(const CodePointSet& set, Spelling spelling) {
  std::vector<ByteSequence> out;
  for (auto [from, to] : set.ranges()) {
    if (spelling == Spelling::json_string)
      // Every escaped code point is at most a backslash.
      for (; from <= std::min<char32_t>(to, '\\'); ++from) {
        if (!is_escaped(from)) {
          char32_t end = from;
          while (end < to && !is_escaped(end + 1) && end < '\\') ++end;
          add_utf8(from, end, out);
          from = end;
          continue;
        }
        ByteSequence& sequence = out.emplace_back();
        for (const char byte : escaped(from))
          sequence.push_back({static_cast<std::uint8_t>(byte), static_cast<std::uint8_t>(byte)});
      }
    if (from <= to) add_without_surrogates(from, to, out);
  }
  return out;
}

std::string spell(std::string_view utf8, Spelling spelling) {
  if (spelling == Spelling::utf8) return std::string(utf8);
  std::string out;
  for (const char byte : utf8) {
    const auto c = static_cast<std::uint8_t>(byte);
    if (is_escaped(c))
      out += escaped(c);
    else
      out += byte;
  }
  return out;
}

}  // namespace flyball::grammar
