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
  // Runs on the writer's thread, once, when it is known whether what the job did is in the file.
  using Done = std::function<void(bool written)>;
  // Runs on the writer's thread, once, outside of any transaction: also while nothing can be written.
  using Look = std::function<void(Database&)>;
  static constexpr std::size_t kMaxQueued = 4096;  // jobs
  static constexpr std::size_t kMaxLooks = 256;    // they take no place from the jobs

  explicit Writer(Database database);
  ~Writer();  // what was posted is written first
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Any thread; never waits for the disk. False: kMaxQueued jobs wait already, and this one is dropped;
  // `done` is not called.
  bool post(Job job, Done done = {});
  // The same for what only reads, behind all that was posted before it. False: kMaxLooks wait already.
  bool look(Look look);
  // Returns when all that was posted before has been written, or has failed, and what was to be read was.
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
