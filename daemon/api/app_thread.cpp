#include "daemon/api/app_thread.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>

#include "backends/round_robin.hpp"

namespace flyball::api {

struct AppThread::Impl : std::enable_shared_from_this<AppThread::Impl> {
  explicit Impl(boost::asio::io_context& context) : io(context) {}

  void loop();
  void deliver();

  boost::asio::io_context& io;
  std::mutex mutex;
  std::condition_variable wake;
  RoundRobin<std::shared_ptr<Task>> waiting;  // by app
  std::vector<std::shared_ptr<Task>> done;    // their done() is due on the loop
  bool ending = false;
  std::thread thread;
};

void AppThread::Impl::loop() {
  std::unique_lock lock(mutex);
  for (;;) {
    wake.wait(lock, [&] { return ending || !waiting.empty(); });
    if (ending) return;
    std::shared_ptr<Task> task = *waiting.take();
    lock.unlock();
    task->work();
    lock.lock();
    done.push_back(std::move(task));
    if (done.size() > 1) continue;  // one visit to the loop takes them all
    boost::asio::post(io, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->deliver();
    });
  }
}

void AppThread::Impl::deliver() {
  std::vector<std::shared_ptr<Task>> tasks;
  {
    const std::lock_guard lock(mutex);
    tasks.swap(done);
  }
  for (const auto& task : tasks) task->done();
}

AppThread::AppThread(boost::asio::io_context& io) : impl_(std::make_shared<Impl>(io)) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->loop(); });
}

AppThread::~AppThread() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->ending = true;
  }
  impl_->wake.notify_one();
  impl_->thread.join();
}

void AppThread::add(const std::string& app, std::shared_ptr<Task> task) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->waiting.put(app, std::move(task));
  }
  impl_->wake.notify_one();
}

bool AppThread::take_back(const Task& task) {
  const std::lock_guard lock(impl_->mutex);
  return impl_->waiting.remove([&](const auto& one) { return one.get() == &task; }).has_value();
}

}  // namespace flyball::api
