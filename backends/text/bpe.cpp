// Loading and merging.
#include "backends/text/bpe.hpp"

#include <algorithm>
#include <bit>
#include <queue>
#include <span>
#include <string>
#include <utility>

#include "backends/text/pair_merger.hpp"
#include "backends/text/unicode.hpp"

namespace flyball::text {
namespace {

constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";
// Up to here a scan over the neighbours beats a heap.
constexpr std::size_t kShortWord = 32;
constexpr std::size_t kMaxStretch = std::size_t{1} << 30U;  // invalid bytes grow threefold, still under 4 GiB

}  // namespace

struct BpeTokenizer::Scratch {
  PreTokenizer::Scratch splitting;
  PreparedStorage prepared;
  std::vector<MergeSymbol<std::uint32_t>> symbols;  // value: symbol id
  std::vector<MergeCandidate<std::uint32_t, std::uint32_t>> heap;
};

class BpeTokenizer::First final : public FirstToken {
 public:
  explicit First(const BpeTokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  std::optional<Token> of(std::string_view text, bool whole) override {
    return tokenizer_->first_token_of(text, whole, scratch_);
  }

 private:
  const BpeTokenizer* tokenizer_;
  Scratch scratch_;
};

BpeTokenizer::BpeTokenizer(VocabularyMetadata vocabulary, PreTokenizer pre_tokenizer)
    : pre_tokenizer_(std::move(pre_tokenizer)),
      specials_(vocabulary.special_tokens()),
      add_bos_(vocabulary.add_bos),
      add_eos_(vocabulary.add_eos) {
  vocab_size_ = vocabulary.pieces.size();
  kinds_ = std::move(vocabulary.kinds);
  markers_ = std::move(vocabulary.markers);
  bos_ = vocabulary.bos;
  eos_ = vocabulary.eos;
  infill_ = vocabulary.infill;
  end_of_generation_ = std::move(vocabulary.end_of_generation);
  pieces_ = std::move(vocabulary.pieces);
  pieces_.drop_index();
  pieces_.shrink();
}

Result<std::unique_ptr<Tokenizer>> BpeTokenizer::load(const model::Gguf& file) {
  auto name = file.get_string("tokenizer.ggml.pre");
  if (!name) return pass(name);
  // Files from before the key existed mean what llama.cpp then did.
  auto pre_tokenizer = PreTokenizer::create(name->value_or("").empty() ? "default" : **name);
  if (!pre_tokenizer) return pass(pre_tokenizer);
  VocabularyDefaults defaults;
  defaults.add_bos = pre_tokenizer->adds_bos();
  auto vocabulary = read_vocabulary(file, defaults);
  if (!vocabulary) return pass(vocabulary);
  auto merges = require_strings(file, kMergesKey);
  if (!merges) return pass(merges);

  std::unique_ptr<BpeTokenizer> out(new BpeTokenizer(*std::move(vocabulary), *std::move(pre_tokenizer)));
  if (!out->add_symbols())
    return vocabulary_error("tokenizer.ggml.tokens", "cannot be indexed: its tokens' hashes collide");
  if (auto added = out->add_merges(**merges); !added) return pass(added);
  out->find_bound();
  return out;
}

bool BpeTokenizer::add_symbols() {
  symbols_.reserve(vocab_size_, pieces_.bytes());
  std::string bytes;
  for (std::uint32_t id = 0; id < vocab_size_; ++id) {
    bytes.clear();
    // A piece outside the byte-level alphabet (some special tokens) is no word and no part of one.
    const bool indexed = append_byte_level(bytes, pieces_[id]);
    const auto added = indexed ? symbols_.add(bytes)
                               : StringTable::Added{id, symbols_.add_unindexed(pieces_[id]).has_value()};
    if (!added || !added->added) return false;
  }
  for (std::size_t byte = 0; byte < byte_symbols_.size(); ++byte) {
    const auto added = symbols_.add(byte_view(static_cast<std::uint8_t>(byte)));
    if (!added) return false;
    byte_symbols_[byte] = added->id;
  }
  return true;
}

// Each merge is "left right". Parts and results that are no tokens become symbols of their own: words pass
// through them on the way to tokens.
Result<void> BpeTokenizer::add_merges(const model::GgufArray& merges) {
  merges_.reserve(merges.strings.size());
  std::string bytes;
  std::uint32_t rank = 0;
  for (const std::string_view merge : merges.strings) {
    const std::size_t space = merge.find(' ', 1);
    if (merge.empty() || space == std::string_view::npos || space + 1 == merge.size()) {
      return vocabulary_error(kMergesKey, "has entry " + std::to_string(rank) + " '" +
                                              model::printable(merge) +
                                              "', which is not two parts and a space");
    }
    bytes.clear();
    const bool left_known = append_byte_level(bytes, merge.substr(0, space));
    const std::size_t middle = bytes.size();
    if (!left_known || !append_byte_level(bytes, merge.substr(space + 1))) {
      ++rank;  // text never holds such a pair
      continue;
    }
    const std::string_view joined = bytes;
    const auto left = symbols_.add(joined.substr(0, middle));
    const auto right = symbols_.add(joined.substr(middle));
    const auto result = symbols_.add(joined);
    if (result && result->id < vocab_size_ && is_control(result->id)) {
      ++rank;  // text never merges into a control token
      continue;
    }
    if (!left || !right || !result || !merges_.add(left->id, right->id, {rank, result->id})) {
      return vocabulary_error(kMergesKey, "cannot be indexed at entry " + std::to_string(rank) +
                                              ": too much text, or hashes collide");
    }
    ++rank;
  }
  symbols_.shrink();
  return {};
}

// Every symbol counts, also one that no merge leads to; emit() says how many tokens become of a symbol that
// is none itself.
void BpeTokenizer::find_bound() {
  specials_.bound(bound_);
  for (std::uint32_t id = 0; id < symbols_.size(); ++id) {
    const std::string_view text = symbols_[id];
    const auto tokens =
        id < vocab_size_ ? 1 : std::ranges::count_if(text, [&](char c) { return is_lone_token(c); });
    if (tokens == 0) {
      bound_.loses(text);
    } else if (!text.empty()) {
      bound_.covers(text, static_cast<std::size_t>(tokens));
    }
  }
}

std::optional<std::vector<Token>> BpeTokenizer::encode_within(std::string_view text, EncodeOptions options,
                                                              std::size_t most) const {
  std::vector<Token> out;
  Scratch scratch;
  if (options.add_special && add_bos_) out.push_back(*bos_);
  std::size_t done = 0;
  for (const SpecialMatcher::Cut& cut : specials_.cuts(text, options.parse_special, options.control_in)) {
    if (!encode_text(text.substr(done, cut.begin - done), out, scratch, most)) return std::nullopt;
    out.push_back(cut.token);
    done = cut.end;
  }
  if (!encode_text(text.substr(done), out, scratch, most)) return std::nullopt;
  if (options.add_special && add_eos_) out.push_back(*eos_);
  if (out.size() > most) return std::nullopt;
  return out;
}

std::unique_ptr<Tokenizer::FirstToken> BpeTokenizer::first_token() const {
  return std::make_unique<First>(*this);
}

// Words are merged each by itself. The tokens of a word behind its first one are mostly what encoding gives
// from there on, as merges do not cross them; not where a word is taken whole, or patterns count digits.
// There, and inside a character, the first one is not told.
std::optional<Token> BpeTokenizer::first_token_of(std::string_view text, bool whole, Scratch& scratch) const {
  const std::size_t plain = specials_.plain_bytes(text, whole);
  const auto word = first_word(text.substr(0, plain), whole && plain == text.size(), scratch);
  if (word.empty()) return std::nullopt;
  if (word.size() > 1) {
    const std::size_t done = bytes(word.front()).size();
    const auto rest = first_word(text.substr(done, plain - done), whole && plain == text.size(), scratch);
    if (!std::ranges::equal(rest, std::span(word).subspan(1))) return std::nullopt;
  }
  return word.front();
}

std::vector<Token> BpeTokenizer::first_word(std::string_view text, bool whole, Scratch& scratch) const {
  std::vector<Token> out;
  std::size_t valid = 0;
  while (valid < text.size()) {
    const Utf8Step step = utf8_step(text, valid);
    if (step.kind != Utf8Step::Kind::valid) break;
    valid += step.length;
  }
  if (valid == 0) return out;
  const PreparedText prepared = prepare_text(text.substr(0, valid), scratch.prepared);
  const auto end =
      pre_tokenizer_.first_word(prepared.subject, whole && valid == text.size(), scratch.splitting);
  if (!end) return out;
  encode_word(text.substr(0, *end), out, scratch, SIZE_MAX);
  std::size_t spelled = 0;
  for (const Token token : out) spelled += bytes(token).size();
  if (spelled != *end) out.clear();  // emit() lost some
  return out;
}

bool BpeTokenizer::encode_text(std::string_view text, std::vector<Token>& out, Scratch& scratch,
                               std::size_t most) const {
  // 32-bit offsets below. Longer texts are cut; no request body comes near.
  while (text.size() > kMaxStretch) {
    if (!encode_text(text.substr(0, kMaxStretch), out, scratch, most)) return false;
    text.remove_prefix(kMaxStretch);
  }
  if (out.size() > most) return false;
  const PreparedText prepared = prepare_text(text, scratch.prepared);
  bool fits = true;
  pre_tokenizer_.split(prepared.subject, scratch.splitting, [&](std::uint32_t begin, std::uint32_t end) {
    return fits = encode_word(prepared.text.substr(begin, end - begin), out, scratch, most);
  });
  return fits;
}

bool BpeTokenizer::encode_word(std::string_view word, std::vector<Token>& out, Scratch& scratch,
                               std::size_t most) const {
  const auto whole = pre_tokenizer_.ignores_merges() ? symbols_.find(word) : std::nullopt;
  if (whole && *whole < vocab_size_ && !is_control(*whole)) {
    out.push_back(static_cast<Token>(*whole));
  } else if (word.size() <= kShortWord) {
    merge_short(word, out);
  } else {
    // The whole word is merged before its first token is known.
    if (bound_.least(word) > most - out.size()) return false;
    merge_long(word, out, scratch);
  }
  return out.size() <= most;
}

void BpeTokenizer::merge_short(std::string_view word, std::vector<Token>& out) const {
  std::array<std::uint32_t, kShortWord> ids;
  std::array<MergeTable::Merge, kShortWord> merges;  // [i]: of ids[i] and ids[i + 1]
  std::size_t count = word.size();
  for (std::size_t i = 0; i < count; ++i) ids[i] = byte_symbols_[static_cast<unsigned char>(word[i])];
  for (std::size_t i = 0; i + 1 < count; ++i) merges[i] = merges_.find(ids[i], ids[i + 1]);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == MergeTable::kNoRank) break;
    ids[best] = merges[best].result;
    std::copy(ids.begin() + best + 2, ids.begin() + count, ids.begin() + best + 1);
    std::copy(merges.begin() + best + 1, merges.begin() + count - 1, merges.begin() + best);
    --count;
    if (best > 0) merges[best - 1] = merges_.find(ids[best - 1], ids[best]);
    if (best + 1 < count) merges[best] = merges_.find(ids[best], ids[best + 1]);
  }
  for (std::size_t i = 0; i < count; ++i) emit(ids[i], out);
}

void BpeTokenizer::merge_long(std::string_view word, std::vector<Token>& out, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  symbols.reserve(word.size());
  for (const char c : word) symbols.push_back({byte_symbols_[static_cast<unsigned char>(c)], 1});
  merge_pairs(symbols, scratch.heap, [&](std::uint32_t left, std::uint32_t right, auto&& put) {
    const MergeTable::Merge merge = merges_.find(symbols[left].value, symbols[right].value);
    if (merge.rank != MergeTable::kNoRank) put(MergeTable::kNoRank - merge.rank, merge.result);
  });
  for (const auto& symbol : symbols) {
    if (symbol.size != 0) emit(symbol.value, out);
  }
}

// A symbol that is no token falls apart into the bytes that are tokens spelled as themselves; the others are
// lost, as in llama.cpp. Vocabularies with all 256 bytes and results for all merges, as all real ones are,
// have none.
void BpeTokenizer::emit(std::uint32_t symbol, std::vector<Token>& out) const {
  if (symbol < vocab_size_) {
    out.push_back(static_cast<Token>(symbol));
    return;
  }
  for (const char c : symbols_[symbol])
    if (is_lone_token(c)) out.push_back(static_cast<Token>(byte_symbols_[static_cast<unsigned char>(c)]));
}

bool BpeTokenizer::is_lone_token(char byte) const noexcept {
  return byte > ' ' && byte <= '~' && byte_symbols_[static_cast<unsigned char>(byte)] < vocab_size_;
}

}  // namespace flyball::text
