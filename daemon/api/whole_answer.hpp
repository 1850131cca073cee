// An answer that is sent whole: gathered while engines give it, encoded piece by piece while its client takes
// it. All along, its app's `limits.held_bytes` is charged with what it holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/error.hpp"
#include "daemon/api/answer.hpp"
#include "daemon/api/answer_share.hpp"
#include "daemon/api/operation.hpp"
#include "daemon/http/message.hpp"

namespace flyball::api {

class WholeAnswer final : public http::BodySource {
 public:
  // bytes_of_writer: AnswerWriter::bytes() before the first event.
  WholeAnswer(std::size_t choices, AnswerShare share, std::size_t bytes_of_writer)
      : choices_(choices), share_(std::move(share)), bytes_of_writer_(bytes_of_writer) {}

  // Charges the app with bytes_of_writer. Errors: as of gather().
  Result<void> reserve() { return share_.cover(bytes_of_writer_); }
  // rate_limited: the app holds too much; invalid_value: this answer alone is too much. It is of no use
  // then.
  Result<void> gather(std::size_t choice, std::span<const AnswerEvent> events);
  // All is gathered; from here on it is a body.
  void complete(std::unique_ptr<AnswerWriter> writer, const Totals& totals);

  bool next(std::string& out) override;  // the writer's document, and a line end behind it

 private:
  std::vector<Choice> choices_;
  AnswerShare share_;
  const std::size_t bytes_of_writer_;
  std::uint64_t bytes_ = 0;  // of the choices
  std::unique_ptr<AnswerWriter> writer_;
  Totals totals_;
};

}  // namespace flyball::api
