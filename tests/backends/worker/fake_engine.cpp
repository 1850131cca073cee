// `fake_engine engine --fd 3 --model SCRIPT ...`: a worker process around the scripted backend, and some that
// break the protocol: junk (bytes that are no frame), oversize, no_hello, silent, flood_unknown (events
// nobody asked for). tells_frames answers each start with one piece of text: a line for each frame so far.
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <thread>

#include "backends/worker/codec.hpp"
#include "backends/worker/server.hpp"
#include "backends/worker/wire.hpp"
#include "tests/backends/worker/fake_backend.hpp"
#include "tests/backends/worker/frame_line.hpp"

using namespace flyball;

namespace {

void say(int fd, const std::string& bytes) {
  [[maybe_unused]] const auto n = write(fd, bytes.data(), bytes.size());
}
void say(int fd, const worker::ToDaemon& message) {
  say(fd, *worker::encode(message));
}

[[noreturn]] void wait_for_the_end() {
  while (true) pause();
}

void say_ready(int fd) {
  say(fd, worker::Hello{});
  BackendInfo info;
  info.vocab_size = info.context_length = info.max_sequences = 8;
  say(fd, worker::Ready{info});
}

[[noreturn]] void tell_frames(int fd) {
  say_ready(fd);
  worker::FrameBuffer frames;
  std::string lines;
  std::array<char, 64 * 1024> chunk;
  for (;;) {
    const auto n = read(fd, chunk.data(), chunk.size());
    if (n <= 0) std::_Exit(EXIT_FAILURE);  // the daemon is gone
    frames.append({chunk.data(), static_cast<std::size_t>(n)});
    for (;;) {
      const auto payload = frames.next();
      if (!payload) std::_Exit(EXIT_FAILURE);
      if (!*payload) break;
      lines += test::frame_line(**payload);
      const auto message = worker::decode_to_worker(**payload);
      if (!message) continue;
      if (const auto* start = std::get_if<worker::Start>(&*message))
        say(fd, worker::TicketEvent{start->ticket, Delta{lines, {1}, {}}});
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const rlimit no_core{0, 0};  // crashes here are on purpose
  setrlimit(RLIMIT_CORE, &no_core);
  int fd = -1;
  std::string text;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--fd") fd = std::atoi(argv[i + 1]);
    if (option == "--model") text = argv[i + 1] + text;
    if (option == "--backend") text += ",backend=" + std::string(argv[i + 1]);
  }
  const test::Script script(text);
  if (script.has("silent")) wait_for_the_end();
  if (script.has("junk")) {
    say(fd, std::string("HTTP/1.1 200 OK\r\n\r\n"));
    wait_for_the_end();
  }
  if (script.has("oversize")) {
    say(fd, std::string("\xff\xff\xff\x7f", 4));
    wait_for_the_end();
  }
  if (script.has("no_hello")) {
    say(fd, worker::Ready{});
    wait_for_the_end();
  }
  if (script.has("flood_unknown")) {
    say_ready(fd);
    say(fd, worker::TicketEvent{77, Delta{"hello", {1}, {}}});
    wait_for_the_end();
  }
  if (script.has("tells_frames")) tell_frames(fd);
  std::_Exit(worker::serve_backend(
      fd, [text](const worker::AskMemory& ask) { return test::load_fake_backend(text, ask); }));
}
