// sd_notify(3): readiness, reloads, status and the watchdog. Without NOTIFY_SOCKET every call does nothing.
// Reads the environment once, when it is made.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace flyball::systemd {

class Notifier {
 public:
  Notifier();
  void ready(std::string_view status) const;
  void reloading() const;  // RELOADING=1 with MONOTONIC_USEC, as sd_notify(3) asks; ready() ends it
  void stopping(std::string_view status) const;
  void status(std::string_view status) const;
  void watchdog() const;
  // How often systemd wants WATCHDOG=1 (half its limit); nullopt: it does not watch this process.
  std::optional<std::chrono::microseconds> watchdog_interval() const noexcept { return interval_; }

 private:
  std::optional<std::chrono::microseconds> interval_;
};

}  // namespace flyball::systemd
