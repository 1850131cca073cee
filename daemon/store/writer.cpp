#include "daemon/store/writer.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace flyball::store {

struct Writer::Impl {
  explicit Impl(Database d) : database(std::move(d)), thread([this] { loop(); }) {}
  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    wake.notify_all();
    thread.join();
  }

  struct Posted {
    Job job;
    Done done;
  };

  void loop();
  void write(const std::deque<Posted>& jobs);

  Database database;  // the thread's
  mutable std::mutex mutex;
  std::condition_variable wake, idle;
  std::deque<Posted> queued;
  std::deque<Look> looks;
  bool ending = false;
  std::uint64_t posted = 0, finished = 0;
  Health health;
  std::thread thread;  // last: it uses the rest
};

void Writer::Impl::loop() {
  std::unique_lock lock(mutex);
  for (;;) {
    wake.wait(lock, [&] { return ending || !queued.empty() || !looks.empty(); });
    if (queued.empty() && looks.empty()) return;
    const std::deque<Posted> jobs = std::exchange(queued, {});
    const std::deque<Look> reads = std::exchange(looks, {});
    lock.unlock();
    if (!jobs.empty()) write(jobs);
    for (const Look& read : reads) read(database);
    lock.lock();
    finished += jobs.size() + reads.size();
    idle.notify_all();
  }
}

void Writer::Impl::write(const std::deque<Posted>& jobs) {
  std::uint64_t failed = 0;
  bool of_a_job = false;
  auto all = database.transaction([&]() -> Result<void> {
    for (const Posted& one : jobs)
      if (auto done = one.job(database); !done) {
        of_a_job = true;
        return done;
      }
    return {};
  });
  std::string error = all ? std::string() : all.error().message;
  std::vector<bool> written(jobs.size(), all.has_value());
  if (!all && of_a_job) {
    // One that fails takes none of the others with it.
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      auto done = database.transaction([&] { return jobs[i].job(database); });
      written[i] = done.has_value();
      if (done) continue;
      ++failed;
      error = done.error().message;
    }
  } else if (!all) {
    failed = jobs.size();  // a lock, a full disk: no use in trying each
  }
  {
    const std::lock_guard lock(mutex);
    health.written += jobs.size() - failed;
    health.failed += failed;
    if (failed != 0) health.last_error = std::move(error);
  }
  for (std::size_t i = 0; i < jobs.size(); ++i)
    if (jobs[i].done) jobs[i].done(written[i]);
}

Writer::Writer(Database database) : impl_(std::make_unique<Impl>(std::move(database))) {}
Writer::~Writer() = default;

bool Writer::post(Job job, Done done) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->queued.size() >= kMaxQueued) {
      ++impl_->health.dropped;
      return false;
    }
    impl_->queued.push_back({std::move(job), std::move(done)});
    ++impl_->posted;
  }
  impl_->wake.notify_one();
  return true;
}

bool Writer::look(Look look) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->looks.size() >= kMaxLooks) return false;
    impl_->looks.push_back(std::move(look));
    ++impl_->posted;
  }
  impl_->wake.notify_one();
  return true;
}

void Writer::flush() {
  std::unique_lock lock(impl_->mutex);
  const std::uint64_t upto = impl_->posted;
  impl_->idle.wait(lock, [&] { return impl_->finished >= upto; });
}

Writer::Health Writer::health() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->health;
}

}  // namespace flyball::store
