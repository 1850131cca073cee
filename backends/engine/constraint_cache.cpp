#include "backends/engine/constraint_cache.hpp"

#include <string_view>
#include <utility>
#include <vector>

#include "backends/constrain/constraint.hpp"

namespace flyball::engine {
namespace {

std::shared_ptr<const constrain::Vocabulary> vocabulary_of(const text::Tokenizer& tokenizer,
                                                           std::uint32_t vocab_size) {
  std::vector<std::string_view> bytes;
  std::vector<constrain::TokenId> ends;
  bytes.reserve(vocab_size);
  for (std::uint32_t id = 0; id < vocab_size; ++id) {
    const auto token = static_cast<Token>(id);
    bytes.push_back(tokenizer.bytes(token));
    if (tokenizer.is_end_of_generation(token)) ends.push_back(id);
  }
  return std::make_shared<const constrain::Vocabulary>(bytes, std::span<const constrain::TokenId>{}, ends);
}

}  // namespace

Result<CompiledConstraint> ConstraintCache::compiled(const Constraint& constraint) {
  std::string digest = constrain::digest_of(constraint);
  if (const auto found = by_digest_.find(digest); found != by_digest_.end()) {
    programs_.splice(programs_.begin(), programs_, found->second);
    return CompiledConstraint{found->second->program, vocabulary_};
  }
  auto program = constrain::compile(constraint);
  if (!program) return pass(program);
  if (!vocabulary_) vocabulary_ = vocabulary_of(*tokenizer_, vocab_size_);
  auto shared = std::make_shared<const constrain::Program>(std::move(*program));
  keep(std::move(digest), shared);
  return CompiledConstraint{std::move(shared), vocabulary_};
}

void ConstraintCache::keep(std::string digest, std::shared_ptr<const constrain::Program> program) {
  bytes_ += program->memory();
  programs_.push_front({digest, std::move(program)});
  by_digest_.emplace(std::move(digest), programs_.begin());
  while (programs_.size() > 1 && (programs_.size() > kPrograms || bytes_ > kBytes)) {
    bytes_ -= programs_.back().program->memory();
    by_digest_.erase(programs_.back().digest);
    programs_.pop_back();
  }
}

}  // namespace flyball::engine
