// PCRE2 around the patterns.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "backends/text/pre_tokenizer.hpp"
#include "backends/text/pre_tokenizer_patterns.hpp"

#include <array>
#include <new>
#include <string>
#include <utility>

namespace flyball::text {
namespace {

// One match of the patterns here takes steps in proportion to what it reads; a megabyte stays far below
// these.
constexpr std::uint32_t kMatchLimit = 50'000'000;
constexpr std::uint32_t kHeapLimitKiB = 64 * 1024;

// GCC warns of attributes lost on function types as template arguments; a plain struct does not.
struct FreeCode {
  void operator()(pcre2_code* code) const noexcept { pcre2_code_free(code); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const noexcept { pcre2_match_context_free(context); }
};
struct FreeData {
  void operator()(pcre2_match_data* data) const noexcept { pcre2_match_data_free(data); }
};

}  // namespace

struct PreTokenizer::Pattern {
  std::unique_ptr<pcre2_code, FreeCode> code;
  bool jit = false;
};

struct PreTokenizer::Scratch::Matching {
  std::unique_ptr<pcre2_match_context, FreeContext> context;
  std::unique_ptr<pcre2_match_data, FreeData> data;
};

PreTokenizer::Scratch::Scratch() : matching_(std::make_unique<Matching>()) {
  matching_->context.reset(pcre2_match_context_create(nullptr));
  matching_->data.reset(pcre2_match_data_create(1, nullptr));
  if (!matching_->context || !matching_->data) throw std::bad_alloc();
  pcre2_set_match_limit(matching_->context.get(), kMatchLimit);
  pcre2_set_heap_limit(matching_->context.get(), kHeapLimitKiB);
}
PreTokenizer::Scratch::~Scratch() = default;

PreTokenizer::PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::create(std::string_view name, bool use_jit) {
  const PreTokenizerRules* rules = find_pre_tokenizer(name);
  if (rules == nullptr) {
    return fail(ErrorCode::unsupported_value,
                "tokenizer.ggml.pre is '" + std::string(name.substr(0, 64)) +
                    "', a pre-tokenizer this build does not know",
                {}, "tokenizer.ggml.pre");
  }
  PreTokenizer out;
  out.ignores_merges_ = rules->ignores_merges;
  out.adds_bos_ = rules->adds_bos;
  for (const std::string_view pattern : rules->patterns) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    Pattern compiled;
    compiled.code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                      PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
    if (!compiled.code) {
      return fail(ErrorCode::internal, "PCRE2 refuses the pattern of pre-tokenizer " + std::string(name) +
                                           " at byte " + std::to_string(offset) + " (error " +
                                           std::to_string(error) + ")");
    }
    compiled.jit = use_jit && pcre2_jit_compile(compiled.code.get(), PCRE2_JIT_COMPLETE) == 0;
    out.patterns_.push_back(std::move(compiled));
  }
  return out;
}

void PreTokenizer::split(std::string_view text, Scratch& scratch, const Word& word) const {
  if (!text.empty()) split_by(0, text, 0, static_cast<std::uint32_t>(text.size()), scratch, word);
}

// By this pattern, and what it leaves by those after it. Assertions of the pattern see the stretch [begin,
// end) as the whole text. False: no more words are wanted.
bool PreTokenizer::split_by(std::size_t pattern, std::string_view text, std::uint32_t begin,
                            std::uint32_t end, Scratch& scratch, const Word& word) const {
  if (pattern == patterns_.size()) return word(begin, end);
  const Pattern& mine = patterns_[pattern];
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data() + begin);
  const std::size_t size = end - begin;
  pcre2_match_data* data = scratch.matching_->data.get();
  pcre2_match_context* context = scratch.matching_->context.get();
  const auto give = [&](std::size_t from, std::size_t to) {
    return split_by(pattern + 1, text, begin + static_cast<std::uint32_t>(from),
                    begin + static_cast<std::uint32_t>(to), scratch, word);
  };
  std::size_t done = 0;
  while (done < size) {
    int found = PCRE2_ERROR_JIT_STACKLIMIT;
    if (mine.jit) found = pcre2_jit_match(mine.code.get(), subject, size, done, 0, data, context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
      found =
          pcre2_match(mine.code.get(), subject, size, done, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, context);
    }
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data);
    if (found < 0 || bounds[1] <= done) break;
    const std::size_t from = bounds[0],
                      to = bounds[1];  // the patterns after this one match into the same data
    if (from > done && !give(done, from)) return false;
    if (!give(from, to)) return false;
    done = to;
  }
  return done == size || give(done, size);
}

std::optional<std::uint32_t> PreTokenizer::first_word(std::string_view text, bool whole,
                                                      Scratch& scratch) const {
  return first_by(0, text, whole, scratch);
}

// PCRE2_PARTIAL_HARD ends a match as partial as soon as it looks at the text's end, be it for a longer match,
// a lookahead or \z. So a full match, and a place where no match begins, stay as they are whatever follows
// the text, and also if nothing does. That holds for every pattern, and from there on for the patterns after
// it: they split a stretch whose end a match has fixed as the whole text that it is.
std::optional<std::uint32_t> PreTokenizer::first_by(std::size_t pattern, std::string_view text, bool whole,
                                                    Scratch& scratch) const {
  if (pattern == patterns_.size())
    return whole ? std::optional(static_cast<std::uint32_t>(text.size())) : std::nullopt;
  pcre2_match_data* data = scratch.matching_->data.get();
  const std::uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT | (whole ? 0 : PCRE2_PARTIAL_HARD);
  const int found = pcre2_match(patterns_[pattern].code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                text.size(), 0, options, data, scratch.matching_->context.get());
  if (found < 0 && found != PCRE2_ERROR_PARTIAL && found != PCRE2_ERROR_NOMATCH) return std::nullopt;
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data);
  const std::size_t from = found == PCRE2_ERROR_NOMATCH ? text.size() : bounds[0];
  if (from > 0)  // no match before it: the next pattern has that stretch, which a full match ends
    return first_by(pattern + 1, text.substr(0, from), found > 0 || whole, scratch);
  if (found < 0 || bounds[1] == 0) return std::nullopt;
  return first_by(pattern + 1, text.substr(0, bounds[1]), true, scratch);
}

}  // namespace flyball::text
