#include "daemon/probe/children.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <span>

#include "config/child_environment.hpp"
#include "config/descriptor.hpp"

namespace flyball::probe {
namespace {

using Clock = std::chrono::steady_clock;
using End = ChildAnswer::End;

struct Child {
  pid_t pid = -1;
  Descriptor out;  // read end of its stdout
  Descriptor in;   // of its stdin, of one that is talked to
};

// The child leads a process group of its own, so that compilers which drivers start die with it.
std::optional<Child> spawn(const std::filesystem::path& program, std::vector<std::string> words, bool talks) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  Child child;
  child.out = Descriptor(ends[0]);
  const Descriptor childs(ends[1]);
  Descriptor childs_in;
  if (talks) {  // a socket: who writes to one that has ended gets an error, and no signal
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return std::nullopt;
    child.in = Descriptor(ends[0]);
    childs_in = Descriptor(ends[1]);
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  if (talks)
    posix_spawn_file_actions_adddup2(&actions, childs_in.get(), 0);
  else
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, childs.get(), 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  std::string name = "flyball";
  std::vector<char*> argv{name.data()};
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  auto entries = config::child_environment();
  const auto environment = config::environment_block(entries);
  const int failed =
      posix_spawn(&child.pid, program.c_str(), &actions, &attributes, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) {
    errno = failed;
    return std::nullopt;
  }
  return child;
}

struct Asked {
  std::optional<Child> child;
  ChildAnswer answer;
  bool over = false;  // its output
  const ChildReply* reply = nullptr;
  std::size_t replied = 0;  // bytes of the answer: whole lines
};

Asked ask(const std::filesystem::path& program, const std::vector<std::string>& arguments,
          const ChildReply* reply = nullptr) {
  Asked asked;
  asked.reply = reply;
  asked.child = spawn(program, arguments, reply != nullptr);
  if (!asked.child) asked.answer.trouble = std::strerror(errno);
  return asked;
}

void end(Asked& asked, End how) {
  asked.answer.end = how;
  asked.over = true;
}

// To the lines that have come. What the child does not read is lost with it.
void reply_to(Asked& asked) {
  for (std::size_t end_of_line = 0;
       (end_of_line = asked.answer.text.find('\n', asked.replied)) != std::string::npos;) {
    const std::string line = asked.answer.text.substr(asked.replied, end_of_line - asked.replied);
    asked.replied = end_of_line + 1;
    const auto said = (*asked.reply)(line);
    if (!said) return end(asked, End::dismissed);
    std::size_t sent = 0;
    while (sent < said->size()) {
      const ssize_t n = send(asked.child->in.get(), said->data() + sent, said->size() - sent, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      sent += static_cast<std::size_t>(n);
    }
  }
}

// What is there to read; ends it when that was all.
void read_some(Asked& asked) {
  char buffer[4096];
  const ssize_t n = read(asked.child->out.get(), buffer, sizeof buffer);
  if (n < 0 && errno == EINTR) return;
  if (n <= 0) return end(asked, End::closed);
  asked.answer.text.append(buffer, static_cast<std::size_t>(n));
  if (asked.answer.text.size() > kMaxChildOutput) return end(asked, End::too_much);
  if (asked.reply) reply_to(asked);
}

// All at once: those that hang cost one timeout together.
void read_until(Clock::time_point deadline, std::span<Asked> all, const std::stop_token& stop) {
  for (;;) {
    std::vector<pollfd> waiting;
    std::vector<Asked*> asked;
    for (Asked& a : all) {
      if (!a.child || a.over) continue;
      waiting.push_back({a.child->out.get(), POLLIN, 0});
      asked.push_back(&a);
    }
    if (waiting.empty()) return;
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0 || stop.stop_requested()) {
      for (Asked* a : asked) end(*a, End::timed_out);
      return;
    }
    if (stop.stop_possible()) left = std::min(left, kStopLook);
    if (poll(waiting.data(), waiting.size(), static_cast<int>(left.count())) <= 0)
      continue;  // the deadline, a look at the stop, or EINTR
    for (std::size_t i = 0; i < waiting.size(); ++i)
      if (waiting[i].revents != 0) read_some(*asked[i]);
  }
}

// Precondition: its output has ended.
void reap(Asked& asked) {
  if (!asked.child) return;
  const pid_t pid = asked.child->pid;
  const End how = asked.answer.end;
  int& status = asked.answer.status;
  asked.child->out = {};
  asked.child->in = {};
  if (how != End::closed) kill(-pid, SIGKILL);
  // A child that closed its output but does not end would hold us here: it gets a moment, then the signal.
  constexpr int kWaits = 100;
  for (int i = 0; how == End::closed && i < kWaits; ++i) {
    if (waitpid(pid, &status, WNOHANG) != 0) return;
    if (i == kWaits - 1) kill(-pid, SIGKILL);
    usleep(10'000);
  }
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

std::vector<ChildAnswer> ask_children(const std::filesystem::path& program,
                                      const std::vector<std::vector<std::string>>& arguments,
                                      std::chrono::milliseconds timeout, const std::stop_token& stop) {
  std::vector<Asked> asked;
  for (const auto& one : arguments) asked.push_back(ask(program, one));
  read_until(Clock::now() + timeout, asked, stop);
  std::vector<ChildAnswer> out;
  for (Asked& a : asked) {
    reap(a);
    out.push_back(std::move(a.answer));
  }
  return out;
}

ChildAnswer talk_to_child(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                          const ChildReply& reply, std::chrono::milliseconds timeout,
                          const std::stop_token& stop) {
  Asked asked = ask(program, arguments, &reply);
  read_until(Clock::now() + timeout, {&asked, 1}, stop);
  reap(asked);
  return std::move(asked.answer);
}

}  // namespace flyball::probe
