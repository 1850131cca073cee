#include "daemon/api/parsing_thread.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>

namespace flyball::api {

struct ParsingThread::Impl : std::enable_shared_from_this<ParsingThread::Impl> {
  explicit Impl(boost::asio::io_context& context) : io(context) {}

  void loop();
  std::shared_ptr<Task> next();  // precondition: one waits
  void deliver();

  boost::asio::io_context& io;
  std::mutex mutex;
  std::condition_variable wake;
  std::map<std::string, std::deque<std::shared_ptr<Task>>>
      waiting;                              // by app; apps without a task have no entry
  std::string last;                         // the app whose turn was the last
  std::vector<std::shared_ptr<Task>> done;  // parsed, and not told so yet
  bool ending = false;
  std::thread thread;
};

void ParsingThread::Impl::loop() {
  std::unique_lock lock(mutex);
  for (;;) {
    wake.wait(lock, [&] { return ending || !waiting.empty(); });
    if (ending) return;
    std::shared_ptr<Task> task = next();
    lock.unlock();
    task->parse();
    lock.lock();
    done.push_back(std::move(task));
    if (done.size() > 1) continue;  // one visit to the loop takes them all
    boost::asio::post(io, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->deliver();
    });
  }
}

std::shared_ptr<ParsingThread::Task> ParsingThread::Impl::next() {
  auto app = waiting.upper_bound(last);
  if (app == waiting.end()) app = waiting.begin();
  std::shared_ptr<Task> task = std::move(app->second.front());
  app->second.pop_front();
  last = app->first;
  if (app->second.empty()) waiting.erase(app);
  return task;
}

void ParsingThread::Impl::deliver() {
  std::vector<std::shared_ptr<Task>> tasks;
  {
    const std::lock_guard lock(mutex);
    tasks.swap(done);
  }
  for (const auto& task : tasks) task->parsed();
}

ParsingThread::ParsingThread(boost::asio::io_context& io) : impl_(std::make_shared<Impl>(io)) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->loop(); });
}

ParsingThread::~ParsingThread() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->ending = true;
  }
  impl_->wake.notify_one();
  impl_->thread.join();
}

void ParsingThread::add(const std::string& app, std::shared_ptr<Task> task) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->waiting[app].push_back(std::move(task));
  }
  impl_->wake.notify_one();
}

bool ParsingThread::take_back(const std::string& app, const Task& task) {
  const std::lock_guard lock(impl_->mutex);
  const auto its = impl_->waiting.find(app);
  if (its == impl_->waiting.end()) return false;
  const auto is_it = [&](const auto& one) { return one.get() == &task; };
  if (std::erase_if(its->second, is_it) == 0) return false;
  if (its->second.empty()) impl_->waiting.erase(its);
  return true;
}

}  // namespace flyball::api
