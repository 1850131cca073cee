// The thread that writes to the store, so that no request waits for a disk. What is posted together is
// written in one transaction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daemon/store/database.hpp"

namespace flyball::store {

class Writer {
 public:
  // Runs on the writer's thread, within a transaction; owns what it captures. Called again, after what it did
  // was taken back, where a job beside it failed.
  using Job = std::function<Result<void>(Database&)>;
  static constexpr std::size_t kMaxQueued = 4096;

  explicit Writer(Database database);
  ~Writer();  // what was posted is written first
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Any thread; never waits for the disk. False: kMaxQueued jobs wait already, and this one is dropped.
  bool post(Job job);
  // Returns when all that was posted before has been written, or has failed.
  void flush();

  struct Health {
    std::uint64_t written = 0, dropped = 0, failed = 0;  // jobs
    std::string last_error;                              // "" while every job has been written
  };
  Health health() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flyball::store
