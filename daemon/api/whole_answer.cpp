#include "daemon/api/whole_answer.hpp"

namespace flyball::api {

Result<void> WholeAnswer::gather(std::size_t choice, std::span<const AnswerEvent> events) {
  Choice& gathered = choices_[choice];
  const std::size_t before = gathered.bytes();
  api::gather(gathered, events);
  bytes_ += gathered.bytes() - before;
  return share_.cover(bytes_of_writer_ + bytes_);
}

void WholeAnswer::complete(std::unique_ptr<AnswerWriter> writer, const Totals& totals) {
  writer_ = std::move(writer);
  totals_ = totals;
}

bool WholeAnswer::next(std::string& out) {
  const bool more = writer_->whole(choices_, totals_, out);
  if (!more) out.push_back('\n');
  std::uint64_t left = bytes_of_writer_;
  for (const Choice& choice : choices_) left += choice.bytes();
  share_.shrink_to(left);
  return more;
}

}  // namespace flyball::api
