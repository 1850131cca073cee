// Loading and merging.
#include "backends/text/spm.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "backends/model/mlx_keys.hpp"
#include "backends/text/pair_merger.hpp"
#include "backends/text/unicode.hpp"

namespace flyball::text {
namespace {

constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";
constexpr std::size_t kMaxStretch = std::size_t{1} << 30U;  // spaces grow threefold, still under 4 GiB

void append_replacing(std::string& out, std::string_view text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0;;) {
    const std::size_t found = text.find(from, at);
    out.append(text.substr(at, found - at));
    if (found == std::string_view::npos) return;
    out.append(to);
    at = found + from.size();
  }
}

// The length a lead byte announces; what follows is not checked, as in llama.cpp.
std::uint32_t announced_length(char lead) noexcept {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

Result<std::vector<float>> read_scores(const model::Gguf& file, std::size_t vocab_size) {
  auto found = file.get_array(kScoresKey);
  if (!found) return pass(found);
  std::vector<float> scores(vocab_size, 0.0F);
  if (*found == nullptr) return scores;
  const model::GgufArray& array = **found;
  const bool integers = array.type == model::GgufType::i32;
  if (array.type != model::GgufType::f32 && !integers) {
    return vocabulary_error(kScoresKey, "is not an array of 32-bit numbers");
  }
  if (array.count != vocab_size) {
    return vocabulary_error(kScoresKey, "has " + std::to_string(array.count) + " entries for " +
                                            std::to_string(vocab_size) + " tokens");
  }
  for (std::size_t i = 0; i < vocab_size; ++i) {
    scores[i] = integers ? static_cast<float>(array.int_at(i)) : static_cast<float>(array.float_at(i));
    if (std::isnan(scores[i]))
      return vocabulary_error(kScoresKey, "is not a number at token " + std::to_string(i));
  }
  return scores;
}

}  // namespace

struct SpmTokenizer::Scratch {
  struct Piece {
    std::uint32_t begin;
    Token token;  // -1: not known to be one
  };
  std::string escaped;
  std::vector<MergeSymbol<Piece>> symbols;
  std::vector<MergeCandidate<float, Piece>> heap;
};

SpmTokenizer::SpmTokenizer(VocabularyMetadata vocabulary, std::vector<float> scores, bool add_space_prefix)
    : scores_(std::move(scores)),
      specials_(vocabulary.special_tokens()),
      add_bos_(vocabulary.add_bos),
      add_eos_(vocabulary.add_eos),
      add_space_prefix_(add_space_prefix) {
  vocab_size_ = vocabulary.pieces.size();
  kinds_ = std::move(vocabulary.kinds);
  markers_ = std::move(vocabulary.markers);
  bos_ = vocabulary.bos;
  eos_ = vocabulary.eos;
  infill_ = vocabulary.infill;
  end_of_generation_ = std::move(vocabulary.end_of_generation);
  pieces_ = std::move(vocabulary.pieces);
  pieces_.shrink();

  std::string text;
  for (std::uint32_t id = 0; id < vocab_size_; ++id) {
    text.clear();
    if (kinds_[id] == TokenKind::normal) append_replacing(text, pieces_[id], kSpaceMark, " ");
    longest_ = std::max(longest_, pieces_[id].size());
    rendered_.add_unindexed(text);  // shorter than the pieces, which fit
  }
  rendered_.shrink();
  find_bound();
  find_joints();
  // A byte without a token is the unknown token; without that, the first token.
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (std::size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
    const std::string spelled = {'<', '0', 'x', kHex[byte >> 4U], kHex[byte & 15U], '>'};
    auto found = pieces_.find(spelled);
    if (!found) found = pieces_.find(byte_view(static_cast<std::uint8_t>(byte)));
    byte_tokens_[byte] = found ? static_cast<Token>(*found) : vocabulary.unknown.value_or(0);
  }
}

Result<std::unique_ptr<Tokenizer>> SpmTokenizer::load(const model::Gguf& file) {
  VocabularyDefaults defaults;  // SentencePiece's own
  defaults.unknown = 0;
  defaults.bos = 1;
  defaults.eos = 2;
  defaults.add_bos = true;
  auto vocabulary = read_vocabulary(file, defaults);
  if (!vocabulary) return pass(vocabulary);
  auto scores = read_scores(file, vocabulary->kinds.size());
  if (!scores) return pass(scores);
  auto prefix = file.get_bool("tokenizer.ggml.add_space_prefix");
  if (!prefix) return pass(prefix);
  auto once = file.get_bool(model::kPrefixOnceKey);
  if (!once) return pass(once);
  auto if_none = file.get_bool(model::kPrefixIfNoneKey);
  if (!if_none) return pass(if_none);
  std::unique_ptr<SpmTokenizer> out(
      new SpmTokenizer(*std::move(vocabulary), *std::move(scores), prefix->value_or(true)));
  out->prefix_once_ = once->value_or(false);
  out->prefix_if_none_ = if_none->value_or(false);
  if (file.metadata().contains(model::kMergesKey)) {
    auto merges = require_strings(file, model::kMergesKey);
    if (!merges) return pass(merges);
    if (auto added = out->add_merges(**merges); !added) return pass(added);
  }
  return out;
}

// Each merge is "left right", both of them tokens, and together one.
Result<void> SpmTokenizer::add_merges(const model::GgufArray& merges) {
  merges_.emplace();
  merges_->reserve(merges.strings.size());
  std::uint32_t rank = 0;
  for (const std::string_view merge : merges.strings) {
    const std::size_t space = merge.find(' ');
    const auto left = pieces_.find(merge.substr(0, space));
    const auto right = space == std::string_view::npos ? std::nullopt : pieces_.find(merge.substr(space + 1));
    std::string joined(merge.substr(0, space));
    if (right) joined += merge.substr(space + 1);
    const auto result = pieces_.find(joined);
    if (!left || !right || !result)
      return vocabulary_error(model::kMergesKey, "has entry " + std::to_string(rank) + " '" +
                                                     model::printable(merge) +
                                                     "', which is not two tokens that make one");
    if (!merges_->add(*left, *right, {rank, *result}))
      return vocabulary_error(model::kMergesKey,
                              "cannot be indexed at entry " + std::to_string(rank) + ": hashes collide");
    ++rank;
  }
  return {};
}

// A piece stands for its own text, and for spaces in place of its marks: then it is shorter.
void SpmTokenizer::find_bound() {
  specials_.bound(bound_);
  for (std::uint32_t id = 0; id < vocab_size_; ++id) {
    const std::string_view piece = pieces_[id];
    bound_.covers(piece);
    std::size_t marks = 0;
    for (std::size_t at = piece.find(kSpaceMark); at != std::string_view::npos;
         at = piece.find(kSpaceMark, at + kSpaceMark.size()))
      ++marks;
    if (marks > 0) bound_.covers(' ', piece.size() - marks * (kSpaceMark.size() - 1));
  }
}

std::size_t SpmTokenizer::joint(std::string_view text, std::size_t at) noexcept {
  const std::size_t next =
      text.substr(at).starts_with(kSpaceMark) ? kMarkNext : static_cast<unsigned char>(text[at]);
  return static_cast<unsigned char>(text[at - 1]) * kNext + next;
}

void SpmTokenizer::find_joints() {
  for (std::uint32_t id = 0; id < vocab_size_; ++id)
    for (std::size_t at = 1; at < pieces_[id].size(); ++at) joints_.set(joint(pieces_[id], at));
}

std::optional<std::vector<Token>> SpmTokenizer::encode_within(std::string_view text, EncodeOptions options,
                                                              std::size_t most) const {
  std::vector<Token> out;
  Scratch scratch;
  if (options.add_special && add_bos_) out.push_back(*bos_);
  std::size_t done = 0;
  bool after_special = options.begins_text;
  const auto encode_until = [&](std::size_t end) {
    if (end == done) return true;
    const std::string_view part = text.substr(done, end - done);
    const bool has_one = part.starts_with(' ') || part.starts_with(kSpaceMark);
    const bool prefix = add_space_prefix_ && after_special && !(prefix_if_none_ && has_one);
    after_special = false;
    return encode_text(part, prefix, out, scratch, most);
  };
  for (const SpecialMatcher::Cut& cut : specials_.cuts(text, options.parse_special, options.control_in)) {
    if (!encode_until(cut.begin)) return std::nullopt;
    out.push_back(cut.token);
    after_special = !prefix_once_;
    done = cut.end;
  }
  if (!encode_until(text.size())) return std::nullopt;
  if (options.add_special && add_eos_) out.push_back(*eos_);
  if (out.size() > most) return std::nullopt;
  return out;
}

bool SpmTokenizer::encode_text(std::string_view text, bool prefix, std::vector<Token>& out, Scratch& scratch,
                               std::size_t most) const {
  // 32-bit offsets below. Longer texts are cut; no request body comes near.
  for (; !text.empty(); prefix = false) {
    scratch.escaped.clear();
    if (prefix) scratch.escaped = kSpaceMark;
    append_replacing(scratch.escaped, text.substr(0, kMaxStretch), " ", kSpaceMark);
    const std::string_view escaped = scratch.escaped;
    for (std::size_t begin = 0; begin < escaped.size();) {
      const std::size_t end = run_end(escaped, begin);
      const std::string_view run = escaped.substr(begin, end - begin);
      // The whole run is merged before its first token is known.
      if (out.size() > most || (run.size() > most - out.size() && bound_.least(run) > most - out.size()))
        return false;
      merge(run, out, scratch);
      begin = end;
    }
    text.remove_prefix(std::min(text.size(), kMaxStretch));
  }
  return out.size() <= most;
}

std::size_t SpmTokenizer::run_end(std::string_view escaped, std::size_t begin) const {
  std::size_t at = begin;
  do at += announced_length(escaped[at]);
  while (at < escaped.size() && joints_.test(joint(escaped, at)));
  return std::min(at, escaped.size());
}

std::optional<Token> SpmTokenizer::merged(std::string_view text) const {
  const auto found = pieces_.find(text);
  if (!found || is_control(*found)) return std::nullopt;
  return static_cast<Token>(*found);
}

void SpmTokenizer::merge(std::string_view text, std::vector<Token>& out, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  for (std::size_t at = 0; at < text.size();) {
    const auto size =
        static_cast<std::uint32_t>(std::min<std::size_t>(announced_length(text[at]), text.size() - at));
    symbols.push_back({{static_cast<std::uint32_t>(at), -1}, size});
    at += size;
  }
  if (merges_) {
    for (auto& symbol : symbols)
      if (const auto found = pieces_.find(text.substr(symbol.value.begin, symbol.size)))
        symbol.value.token = static_cast<Token>(*found);
  }
  merge_pairs(symbols, scratch.heap, [&](std::uint32_t left, std::uint32_t right, auto&& put) {
    if (merges_) {
      const auto a = symbols[left].value, b = symbols[right].value;
      if (a.token < 0 || b.token < 0) return;
      const MergeTable::Merge merge =
          merges_->find(static_cast<std::uint32_t>(a.token), static_cast<std::uint32_t>(b.token));
      if (merge.rank != MergeTable::kNoRank && !is_control(merge.result))
        put(-static_cast<float>(merge.rank), Scratch::Piece{a.begin, static_cast<Token>(merge.result)});
      return;
    }
    const std::uint32_t begin = symbols[left].value.begin;
    const std::uint32_t size = symbols[left].size + symbols[right].size;
    if (size > longest_) return;
    if (const auto found = merged(text.substr(begin, size)))
      put(scores_[static_cast<std::size_t>(*found)], Scratch::Piece{begin, *found});
  });
  for (const auto& symbol : symbols) {
    if (symbol.size == 0) continue;
    const std::string_view character = text.substr(symbol.value.begin, symbol.size);
    if (symbol.value.token >= 0) {
      out.push_back(symbol.value.token);
    } else if (const auto found = pieces_.find(character)) {
      out.push_back(static_cast<Token>(*found));
    } else {
      for (const char byte : character) out.push_back(byte_tokens_[static_cast<unsigned char>(byte)]);
    }
  }
}

}  // namespace flyball::text
