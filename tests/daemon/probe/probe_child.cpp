// The child that daemon/probe/probe starts in its tests: the real one, or one that misbehaves in the way that
// XDG_FLYBALL_PROBE_CHILD_MODE names.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "daemon/probe/probe.hpp"

namespace {

// Whether the child of the other engine kind has been here too, within ten minutes. Each leaves a file in the folder
// that XDG_FLYBALL_PROBE_CHILD_FOLDER names.
bool waits_for_the_other(const std::string& own) {
  const std::filesystem::path folder = std::getenv("XDG_FLYBALL_PROBE_CHILD_FOLDER");
  std::ofstream(folder / own).put('\n');
  for (int i = 0; i < 60'000; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().filename() != own) return true;
    usleep(10'000);
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6 || std::string_view(argv[4]) != "--patience-ms") return 64;
  const char* set = std::getenv("XDG_FLYBALL_PROBE_CHILD_MODE");
  const std::string_view mode = set ? set : "";
  if (mode == "crash") std::raise(SIGSEGV);
  if (mode == "hang") pause();
  if (mode == "hang_after_closing") {
    close(1);
    pause();
  }
  if (mode == "wait_for_the_other" && !waits_for_the_other(argv[3])) return 4;
  if (mode == "silent") return 3;
  if (mode == "junk") std::puts("{\"devices\": 7, \"error\": [");
  if (mode == "wrong_types")
    std::puts(
        "{\"device\": {\"name\": 3, \"memory_bytes\": -1, \"dispatched\": \"yes\"}}\n{\"device\": 4}\n7\n"
        "{\"error\": 5}");
  if (mode == "long_name") {
    std::printf("{\"device\": {\"name\": \"");
    for (int i = 0; i < 499; ++i) std::putchar('a');
    std::puts("\u00e9\u00e9\"}}\n{\"error\": \"\"}");
  }
  if (mode == "hang_at_the_second" || mode == "crash_at_the_second") {
    std::puts(
        "{\"device\": {\"name\": \"the first\", \"dispatched\": true}}\n{\"device\": {\"name\": \"the se");
    std::fflush(stdout);
    if (mode == "hang_at_the_second") pause();
    std::raise(SIGSEGV);
  }
  if (mode == "flood")
    for (;;)
      std::puts("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
  return mode.empty()
             ? flyball::probe::run_probe_child(argv[3], std::chrono::milliseconds(std::atoi(argv[5])))
             : 0;
}
