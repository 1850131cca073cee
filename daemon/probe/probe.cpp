#include "daemon/probe/probe.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>

#include <nlohmann/json.hpp>

#include "backends/local/engine_kinds.hpp"
#include "daemon/probe/children.hpp"

namespace flyball::probe {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxDevices = 256;
constexpr std::size_t kLabelWidth = 11;      // before the lines of a report for people
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
          {"features", d.features},
          {"pci", d.pci},
          {"uuid", d.uuid}};
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
  device.pci = text_of(row, "pci");
  device.uuid = text_of(row, "uuid");
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

DeviceProbe report_of(const ProbeOptions& options, const ChildAnswer& answer) {
  using Ends = ChildAnswer::End;
  DeviceProbe probe = from_lines(answer.text);
  const auto trouble = [&](std::string what) {
    probe.error = std::move(what);
    return std::move(probe);
  };
  if (answer.end == Ends::no_start) return trouble("the probe could not be started: " + answer.trouble);
  if (probe.answered) return probe;
  if (answer.end == Ends::timed_out)
    return trouble("the driver did not answer within " + std::to_string(options.timeout.count()) + " ms");
  if (answer.end == Ends::too_much)
    return trouble("the probe printed more than " + std::to_string(kMaxChildOutput) + " bytes");
  if (WIFSIGNALED(answer.status))
    return trouble(std::string("the driver crashed: ") + strsignal(WTERMSIG(answer.status)));
  return trouble("the probe ended with status " + std::to_string(WEXITSTATUS(answer.status)) +
                 " and no report");
}

std::string gib(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / (1ULL << 30));
  return text;
}

std::string describe(std::string_view kind, const DeviceProbe& probe) {
  std::string out;
  std::string label(kind);
  label.resize(std::max(label.size() + 1, kLabelWidth), ' ');
  if (!probe.error.empty()) out += label + probe.error + "\n";
  for (const DeviceReport& d : probe.devices)
    out += label + (d.id.empty() ? d.name : d.id) + ": " + d.kind +
           (d.unified && d.kind != "software" ? ", unified memory" : "") + ", " + gib(d.memory_bytes) + ", " +
           d.driver + (d.features.empty() ? "" : "; " + d.features) + "; " +
           (d.dispatched ? "ran the probe's kernel" : "does not compute: " + d.error) + "\n";
  return out;
}

}  // namespace

HardwareReport probe_hardware(const ProbeOptions& options) {
  const std::string patience = std::to_string(options.timeout.count());
  const std::vector<std::string> kinds = config::engine_ids(config::KindFilter::with_devices);
  std::vector<std::vector<std::string>> commands;
  for (const std::string& kind : kinds)
    commands.push_back({"probe", "--child", kind, "--patience-ms", patience});
  const auto answers = ask_children(options.program, commands, options.timeout);
  HardwareReport report;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    report.devices[*config::find_engine_kind(kinds[i])] = report_of(options, answers[i]);
  report.cpu = cpu::probe_cpu();  // last, because it measures bandwidth
  return report;
}

int run_probe_child(std::string_view kind, std::chrono::milliseconds patience) {
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
  const local::EngineFunctions* engine = local::find_engine(kind);
  const std::string error = engine != nullptr && engine->probe != nullptr
                                ? engine->probe(run)
                                : "no engine kind with devices has this name";
  say({{"error", error}});
  _exit(0);  // without the drivers' exit handlers, some of which crash
}

Json to_json(const HardwareReport& report) {
  const cpu::CpuReport& c = report.cpu;
  Json out = {{"schema", "flyball.probe/v1"},
              {config::kCpu.id,
               {{"model", c.model},
                {"isa", c.isa},
                {"cores", c.cores},
                {"threads", c.threads},
                {"memory_total_bytes", c.memory_total},
                {"memory_available_bytes", c.memory_available},
                {"bandwidth_1t_gb_per_s", c.bandwidth_1t},
                {"bandwidth_gb_per_s", c.bandwidth},
                {"page_gb_per_s", c.page_rate},
                {"float_gops", c.float_gops},
                {"int8_gops", c.int8_gops}}}};
  for (const config::EngineKind& kind : config::kEngineKinds)
    if (kind.has_devices()) out[std::string(kind.id)] = to_json(report.devices[kind]);
  return out;
}

std::string describe(const HardwareReport& report) {
  const cpu::CpuReport& c = report.cpu;
  std::string out = "processor  " + (c.model.empty() ? std::string("unknown") : c.model) + ": " +
                    std::to_string(c.cores) + (c.cores == 1 ? " core, " : " cores, ") +
                    std::to_string(c.threads) + (c.threads == 1 ? " thread, " : " threads, ") + c.isa +
                    " kernels; products at " + std::to_string(std::llround(c.float_gops)) +
                    " GFLOP/s of f16, " + std::to_string(std::llround(c.int8_gops)) + " GOP/s of int8\n";
  out += "memory     " + gib(c.memory_total) + ", " + gib(c.memory_available) + " available";
  if (c.bandwidth_1t > 0) {
    char text[128];
    std::snprintf(text, sizeof text, "; read at %.1f GB/s by one thread, %.1f GB/s by %u, taken at %.2g GB/s",
                  c.bandwidth_1t, c.bandwidth, c.threads, c.page_rate);
    out += text;
  } else {
    out += "; too little to measure its bandwidth";
  }
  out += "\n";
  for (const config::EngineKind& kind : config::kEngineKinds)
    if (kind.has_devices()) out += describe(kind.id, report.devices[kind]);
  return out;
}

}  // namespace flyball::probe
