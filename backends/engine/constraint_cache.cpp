#include "backends/engine/constraint_cache.hpp"

#include <string_view>
#include <utility>
#include <vector>

#include "backends/constrain/constraint.hpp"

namespace flyball::engine {
namespace {

// `markers`: control tokens that have bytes; null: none has.
std::shared_ptr<const constrain::Vocabulary> vocabulary_of(const text::Tokenizer& tokenizer,
                                                           std::uint32_t vocab_size,
                                                           const MarkerTokens* markers) {
  std::vector<std::string_view> bytes;
  std::vector<constrain::TokenId> ends;
  bytes.reserve(vocab_size);
  for (std::uint32_t id = 0; id < vocab_size; ++id) {
    const auto token = static_cast<Token>(id);
    const std::string_view marker = markers != nullptr ? markers->spelling(token) : std::string_view();
    bytes.push_back(marker.empty() ? tokenizer.bytes(token) : marker);
    if (tokenizer.is_end_of_generation(token)) ends.push_back(id);
  }
  return std::make_shared<const constrain::Vocabulary>(bytes, std::span<const constrain::TokenId>{}, ends);
}

}  // namespace

Result<CompiledConstraint> ConstraintCache::compiled(const std::string& owner, const Constraint& constraint,
                                                     bool marks_control) {
  std::string key = constrain::digest_of(constraint) + owner;  // digests are of one length
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    programs_.splice(programs_.begin(), programs_, found->second);
    return with(found->second->program, marks_control);
  }
  auto program = constrain::compile(constraint);
  if (!program) return pass(program);
  auto shared = std::make_shared<const constrain::Program>(std::move(*program));
  keep(std::move(key), shared);
  return with(std::move(shared), marks_control);
}

CompiledConstraint ConstraintCache::with(std::shared_ptr<const constrain::Program> program,
                                         bool marks_control) {
  if (marks_control && !markers_)
    markers_ = std::make_shared<const MarkerTokens>(*tokenizer_, vocab_size_, form_);
  const auto markers = marks_control && !markers_->empty() ? markers_ : nullptr;
  auto& vocabulary = markers ? marked_ : vocabulary_;
  if (!vocabulary) vocabulary = vocabulary_of(*tokenizer_, vocab_size_, markers.get());
  return {std::move(program), vocabulary, markers};
}

void ConstraintCache::keep(std::string key, std::shared_ptr<const constrain::Program> program) {
  std::list<Kept> one;
  one.push_back({key, std::move(program)});
  by_key_.emplace(std::move(key), one.begin());
  programs_.splice(programs_.begin(), one);
  bytes_ += programs_.front().program->memory();
  while (programs_.size() > 1 && (programs_.size() > kPrograms || bytes_ > kBytes)) {
    bytes_ -= programs_.back().program->memory();
    by_key_.erase(programs_.back().key);
    programs_.pop_back();
  }
}

}  // namespace flyball::engine
