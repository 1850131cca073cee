#include "daemon/usage/journal.hpp"

#include <utility>

#include <spdlog/spdlog.h>

#include "daemon/usage/usage_store.hpp"

namespace flyball::usage {

Journal::Journal(boost::asio::io_context& io, store::Writer* writer, Past past)
    : writer_(writer), timer_(io) {
  for (AppDay& row : past.days) usage_.restore(std::move(row));
  usage_.lose({past.lost.begin(), past.lost.end()});
}

// The last chance: what is not known to be written is written once more.
Journal::~Journal() {
  if (writer_ == nullptr) return;
  if (write_ && write_->state != Write::State::written) usage_.put_back(write_->rows);
  if (!usage_.changed()) return;
  writer_->post([rows = usage_.take_changed()](store::Database& database) { return write(database, rows); });
}

DayUsage& Journal::change(const std::string& app, std::int64_t day) {
  look_after(kDelay);
  return usage_.change(app, day);
}

void Journal::look_after(std::chrono::milliseconds delay) {
  if (std::exchange(due_, true)) return;
  timer_.expires_after(delay);
  timer_.async_wait([this](const boost::system::error_code& ec) {
    if (!ec) look();
  });
}

void Journal::look() {
  due_ = false;
  if (writer_ == nullptr) {
    (void)usage_.take_changed();
    return;
  }
  if (write_) {
    const Write::State state = write_->state;
    if (state == Write::State::going) return look_after(kDelay);
    if (state == Write::State::failed) return failed(writer_->health().last_error);
    write_.reset();
  }
  if (!usage_.changed()) return;
  write_ = std::make_shared<Write>();
  write_->rows = usage_.take_changed();
  const bool posted = writer_->post(
      [now = write_](store::Database& database) { return write(database, now->rows); },
      [now = write_](bool written) { now->state = written ? Write::State::written : Write::State::failed; });
  if (!posted) return failed("Too much waits to be written.");
  look_after(kDelay);
}

void Journal::failed(const std::string& why) {
  usage_.put_back(write_->rows);
  write_.reset();
  look_after(kRetryDelay);
  const auto now = std::chrono::steady_clock::now();
  if (warned_ && now - *warned_ < kWarnEvery) return;
  warned_ = now;
  spdlog::warn("what apps have used cannot be written to the state database, and is tried again: {}", why);
}

}  // namespace flyball::usage
