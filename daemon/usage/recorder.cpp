#include "daemon/usage/recorder.hpp"

#include <ctime>
#include <utility>

#include "daemon/usage/usage_store.hpp"

namespace flyball::usage {

Recorder::Recorder(boost::asio::io_context& io, store::Writer* writer, std::vector<AppDay> past)
    : writer_(writer), timer_(io) {
  for (AppDay& row : past) ledger_.restore(std::move(row));
}

Recorder::~Recorder() {
  store();
}

DayUsage& Recorder::change(const std::string& app, std::int64_t day) {
  if (!std::exchange(due_, true)) {
    timer_.expires_after(kDelay);
    timer_.async_wait([this](const boost::system::error_code& ec) {
      if (!ec) store();
    });
  }
  return ledger_.change(app, day);
}

void Recorder::store() {
  due_ = false;
  if (!ledger_.changed()) return;
  auto rows = ledger_.take_changed(std::time(nullptr) / 86'400);
  if (writer_ != nullptr)
    writer_->post([rows = std::move(rows)](store::Database& database) { return write(database, rows); });
}

}  // namespace flyball::usage
