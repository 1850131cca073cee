#include "daemon/route/probe.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

#include "backends/opencl/probe.hpp"
#include "backends/vulkan/probe.hpp"
#include "config/descriptor.hpp"

extern char** environ;

namespace flyball::route {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxChildOutput = 1 << 20;
constexpr std::size_t kMaxDevices = 256;
constexpr std::size_t kMaxDeviceText = 500;  // bytes of a name or message that a driver gave

Json to_json(const DeviceReport& d) {
  return {{"name", d.name},
          {"vendor", d.vendor},
          {"kind", d.kind},
          {"driver", d.driver},
          {"memory_bytes", d.memory_bytes},
          {"compute_units", d.compute_units},
          {"unified", d.unified},
          {"dispatched", d.dispatched},
          {"error", d.error},
          {"id", d.id},
          {"features", d.features}};
}

Json to_json(const DeviceProbe& probe) {
  Json devices = Json::array();
  for (const DeviceReport& device : probe.devices) devices.push_back(to_json(device));
  return {{"error", probe.error}, {"devices", std::move(devices)}};
}

// Members of a document that another process wrote: whatever is absent or of another type reads as its zero.
std::string text_of(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_string()) return {};
  const std::string& text = it->get_ref<const std::string&>();
  std::size_t size = std::min(text.size(), kMaxDeviceText);
  while (size < text.size() && size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U)
    --size;  // whole characters: receipts are UTF-8
  return text.substr(0, size);
}
std::uint64_t number_of(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number_unsigned() ? it->get<std::uint64_t>() : 0;
}
bool flag_of(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_boolean() && it->get<bool>();
}

DeviceReport device_of(const Json& row) {
  DeviceReport device;
  device.name = text_of(row, "name");
  device.vendor = text_of(row, "vendor");
  device.kind = text_of(row, "kind");
  device.driver = text_of(row, "driver");
  device.memory_bytes = number_of(row, "memory_bytes");
  device.compute_units = static_cast<std::uint32_t>(number_of(row, "compute_units"));
  device.unified = flag_of(row, "unified");
  device.dispatched = flag_of(row, "dispatched");
  device.error = text_of(row, "error");
  device.id = text_of(row, "id");
  device.features = text_of(row, "features");
  return device;
}

// A child's lines: {"device": {...}} for each one as soon as it is known, and {"error": "..."} at the end.
// What was said before a crash or a hang counts; `answered` is whether the end was reached.
DeviceProbe from_lines(std::string_view text) {
  DeviceProbe probe;
  probe.answered = false;
  for (std::size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    const Json line = Json::parse(text.substr(0, end), nullptr, false);
    if (!line.is_object()) continue;
    const auto device = line.find("device");
    if (device != line.end() && device->is_object() && probe.devices.size() < kMaxDevices)
      probe.devices.push_back(device_of(*device));
    if (!line.contains("error")) continue;
    probe.error = text_of(line, "error");
    probe.answered = true;
  }
  return probe;
}

struct Child {
  pid_t pid = -1;
  Descriptor out;  // read end of its stdout
};

// The child leads a process group of its own, so that compilers which drivers start die with it.
std::optional<Child> spawn(const ProbeOptions& options, const std::string& api) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  Child child{.out = Descriptor(ends[0])};
  const Descriptor childs(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, childs.get(), 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  std::string words[] = {"flyball", "probe",         "--child",
                         api,       "--patience-ms", std::to_string(options.timeout.count())};
  char* const argv[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(),
                        words[4].data(), words[5].data(), nullptr};
  const int failed = posix_spawn(&child.pid, options.program.c_str(), &actions, &attributes, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) {
    errno = failed;
    return std::nullopt;
  }
  return child;
}

enum class End { closed, timed_out, too_much };

// One driver's probe under way.
struct Asked {
  std::optional<Child> child;
  std::string trouble;  // why there is no child
  std::string text;
  std::optional<End> end;  // of its output
};

Asked ask(const ProbeOptions& options, const std::string& api) {
  Asked asked;
  asked.child = spawn(options, api);
  if (!asked.child) asked.trouble = std::string("the probe could not be started: ") + std::strerror(errno);
  return asked;
}

// What is there to read; sets `end` when that was all.
void read_some(Asked& asked) {
  char buffer[4096];
  const ssize_t n = read(asked.child->out.get(), buffer, sizeof buffer);
  if (n < 0 && errno == EINTR) return;
  if (n <= 0) {
    asked.end = End::closed;
    return;
  }
  asked.text.append(buffer, static_cast<std::size_t>(n));
  if (asked.text.size() > kMaxChildOutput) asked.end = End::too_much;
}

// All at once: drivers that hang cost one timeout together.
void read_until(Clock::time_point deadline, std::span<Asked> all) {
  for (;;) {
    std::vector<pollfd> waiting;
    std::vector<Asked*> asked;
    for (Asked& a : all) {
      if (!a.child || a.end) continue;
      waiting.push_back({a.child->out.get(), POLLIN, 0});
      asked.push_back(&a);
    }
    if (waiting.empty()) return;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      for (Asked* a : asked) a->end = End::timed_out;
      return;
    }
    if (poll(waiting.data(), waiting.size(), static_cast<int>(left)) <= 0)
      continue;  // the deadline, or EINTR
    for (std::size_t i = 0; i < waiting.size(); ++i)
      if (waiting[i].revents != 0) read_some(*asked[i]);
  }
}

// Precondition: its output has ended. Reaps the child.
DeviceProbe report_of(const ProbeOptions& options, Asked& asked) {
  DeviceProbe probe = from_lines(asked.text);
  const auto trouble = [&](std::string what) {
    probe.error = std::move(what);
    return std::move(probe);
  };
  if (!asked.child) return trouble(asked.trouble);
  const pid_t pid = asked.child->pid;
  const End end = *asked.end;
  asked.child->out = {};
  if (end != End::closed) kill(-pid, SIGKILL);
  int status = 0;
  // A child that closed its output but does not end would hold us here: it gets a moment, then the signal.
  constexpr int kWaits = 100;
  for (int i = 0; end == End::closed && i < kWaits; ++i) {
    const pid_t ended = waitpid(pid, &status, WNOHANG);
    if (ended != 0) break;
    if (i == kWaits - 1) kill(-pid, SIGKILL);
    usleep(10'000);
  }
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (probe.answered) return probe;
  if (end == End::timed_out)
    return trouble("the driver did not answer within " + std::to_string(options.timeout.count()) + " ms");
  if (end == End::too_much)
    return trouble("the probe printed more than " + std::to_string(kMaxChildOutput) + " bytes");
  if (WIFSIGNALED(status)) return trouble(std::string("the driver crashed: ") + strsignal(WTERMSIG(status)));
  return trouble("the probe ended with status " + std::to_string(WEXITSTATUS(status)) + " and no report");
}

std::string gib(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / (1ULL << 30));
  return text;
}

std::string describe(const char* api, const DeviceProbe& probe) {
  std::string out;
  if (!probe.error.empty()) out += std::string(api) + "     " + probe.error + "\n";
  for (const DeviceReport& d : probe.devices)
    out += std::string(api) + "     " + (d.id.empty() ? d.name : d.id) + ": " + d.kind +
           (d.unified && d.kind != "software" ? ", unified memory" : "") + ", " + gib(d.memory_bytes) + ", " +
           d.driver + (d.features.empty() ? "" : "; " + d.features) + "; " +
           (d.dispatched ? "ran the probe's kernel" : "does not compute: " + d.error) + "\n";
  return out;
}

}  // namespace

HardwareReport probe_hardware(const ProbeOptions& options) {
  std::array<Asked, 2> drivers{ask(options, "vulkan"), ask(options, "opencl")};
  read_until(Clock::now() + options.timeout, drivers);
  HardwareReport report;
  report.vulkan = report_of(options, drivers[0]);
  report.opencl = report_of(options, drivers[1]);
  report.cpu = cpu::probe_cpu();  // last, because it measures bandwidth
  return report;
}

int run_probe_child(std::string_view api, std::chrono::milliseconds patience) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody waits for this process once its parent is gone
  const int out = fcntl(1, F_DUPFD_CLOEXEC, 3);
  const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (out < 0 || nothing < 0 || dup2(nothing, 1) < 0) return 1;
  const auto say = [&](const Json& line) {
    const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t n = write(out, text.data() + sent, text.size() - sent);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) _exit(1);
      sent += static_cast<std::size_t>(n);
    }
  };
  const ProbeRun run{patience, [&](const DeviceReport& device) { say({{"device", to_json(device)}}); }};
  const std::string error = api == "vulkan"   ? vulkan::probe_devices(run)
                            : api == "opencl" ? opencl::probe_devices(run)
                                              : "no such API";
  say({{"error", error}});
  _exit(0);  // without the drivers' exit handlers, some of which crash
}

Json to_json(const HardwareReport& report) {
  const cpu::CpuReport& c = report.cpu;
  return {{"schema", "flyball.probe/v1"},
          {"cpu",
           {{"model", c.model},
            {"isa", c.isa},
            {"cores", c.cores},
            {"threads", c.threads},
            {"memory_total_bytes", c.memory_total},
            {"memory_available_bytes", c.memory_available},
            {"bandwidth_1t_gb_per_s", c.bandwidth_1t},
            {"bandwidth_gb_per_s", c.bandwidth}}},
          {"vulkan", to_json(report.vulkan)},
          {"opencl", to_json(report.opencl)}};
}

std::string describe(const HardwareReport& report) {
  const cpu::CpuReport& c = report.cpu;
  std::string out = "processor  " + (c.model.empty() ? std::string("unknown") : c.model) + ": " +
                    std::to_string(c.cores) + (c.cores == 1 ? " core, " : " cores, ") +
                    std::to_string(c.threads) + (c.threads == 1 ? " thread, " : " threads, ") + c.isa +
                    " kernels\n";
  out += "memory     " + gib(c.memory_total) + ", " + gib(c.memory_available) + " available";
  if (c.bandwidth_1t > 0) {
    char text[96];
    std::snprintf(text, sizeof text, "; read at %.1f GB/s by one thread, %.1f GB/s by %u", c.bandwidth_1t,
                  c.bandwidth, c.threads);
    out += text;
  } else {
    out += "; too little to measure its bandwidth";
  }
  out += "\n";
  return out + describe("vulkan", report.vulkan) + describe("opencl", report.opencl);
}

}  // namespace flyball::route
