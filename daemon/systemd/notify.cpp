#include "daemon/systemd/notify.hpp"

#include <systemd/sd-daemon.h>

#include <algorithm>

namespace flyball::systemd {
namespace {

// STATUS= is one line for `systemctl status`.
std::string one_line(std::string_view text) {
  std::string line(text);
  std::ranges::replace(line, '\n', ' ');
  return line;
}

void send(const std::string& message) {
  sd_notify(0, message.c_str());
}

}  // namespace

Notifier::Notifier() {
  std::uint64_t limit_us = 0;
  if (sd_watchdog_enabled(0, &limit_us) > 0 && limit_us > 0)
    interval_ = std::chrono::microseconds(limit_us / 2);
}

void Notifier::ready(std::string_view status) const {
  send("READY=1\nSTATUS=" + one_line(status));
}

void Notifier::reloading() const {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();  // CLOCK_MONOTONIC
  send("RELOADING=1\nMONOTONIC_USEC=" +
       std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(now).count()));
}

void Notifier::stopping(std::string_view status) const {
  send("STOPPING=1\nSTATUS=" + one_line(status));
}
void Notifier::status(std::string_view status) const {
  send("STATUS=" + one_line(status));
}
void Notifier::watchdog() const {
  send("WATCHDOG=1");
}

}  // namespace flyball::systemd
