// What a process that starts from nothing costs on a Vulkan device: the time from its start to its first
// token, beside reading the model's file once, in turns, the page cache warm or --cold for both; and how much
// memory of its own it then holds. tests/bench/cold_start MODEL [--device NAME] [--runs 5] [--prompt 8]
// [--context 512] [--cache DIR] [--cold]: one line of JSON. The first start is not counted: it compiles
// kernels, which --cache and the driver keep.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "backends/local/local_backend.hpp"
#include "tests/bench/program.hpp"

extern char** environ;

namespace {

using namespace flyball;
using bench::die;
using bench::seconds;
using nlohmann::ordered_json;

struct Options {
  std::string model, device, cache;
  unsigned runs = 5, prompt = 8, context = 512;
  bool child = false, cold = false;
};

// Bytes that are this process's alone: neither the file's pages nor a library's.
std::uint64_t own_bytes() {
  std::ifstream status("/proc/self/status");
  std::uint64_t kilobytes = 0;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:") || line.starts_with("RssShmem:"))
      kilobytes += std::stoull(line.substr(line.find(':') + 1));
  return kilobytes << 10;
}

class FirstToken final : public EventSink {
 public:
  bool push(Event event) noexcept override {
    const std::scoped_lock lock(mutex_);
    if (std::holds_alternative<Delta>(event) && at_ == 0) at_ = seconds();
    if (std::holds_alternative<Done>(event) || std::holds_alternative<Error>(event)) end_ = std::move(event);
    ended_.notify_one();
    return true;
  }
  // When it came.
  double wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return end_.has_value(); });
    if (const auto* error = std::get_if<Error>(&*end_)) die(error->message);
    return at_ == 0 ? seconds() : at_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Event> end_;
  double at_ = 0;
};

// Prints when, by the steady clock, what had happened, and how much the process has grown.
int run_child(const Options& o) {
  const double started = seconds();
  const std::uint64_t before = own_bytes();
  local::LocalBackendOptions options;
  options.model_id = "bench";
  options.path = o.model;
  options.backend = "vulkan";
  options.vulkan.name = o.device;
  options.vulkan.allow_processor = true;
  options.vulkan.fence_deadline = std::chrono::minutes(10);  // it is measured, however slow
  options.cache_dir = o.cache;
  options.context = o.context;
  options.max_sequences = 1;
  auto backend = local::make_local_backend(options);
  if (!backend)
    die(backend.error().message, backend.error().code == ErrorCode::model_unavailable ? bench::kSkipped : 1);
  const double loaded = seconds();
  const std::uint64_t after_load = own_bytes();
  CompletionRequest request;
  request.id = "first";
  TokenPrompt prompt;
  for (unsigned i = 0; i < o.prompt; ++i) prompt.tokens.push_back(static_cast<Token>(1 + i));
  request.prompt = std::move(prompt);
  request.max_tokens = 1;
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  const auto sink = std::make_shared<FirstToken>();
  const auto ticket = (*backend)->start(std::move(request), sink);
  if (!ticket) die(ticket.error().message);
  const double first = sink->wait();
  std::printf("%s\n", ordered_json{{"started", started},
                                   {"loaded", loaded},
                                   {"first_token", first},
                                   {"load_bytes", after_load - std::min(before, after_load)},
                                   {"own_bytes", own_bytes()}}
                          .dump()
                          .c_str());
  return 0;
}

// Out of the page cache.
void forget(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0)
    die("cannot drop the pages of " + path);
  close(file);
}

double read_once(const std::string& path) {
  std::vector<char> buffer(1 << 20);
  const double start = seconds();
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) die("cannot open " + path);
  while (true) {
    const ssize_t n = read(file, buffer.data(), buffer.size());
    if (n < 0) die("cannot read " + path);
    if (n == 0) break;
  }
  close(file);
  return seconds() - start;
}

ordered_json start_once(const Options& o) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::string> words = {self,
                                    o.model,
                                    "--child",
                                    "--device",
                                    o.device,
                                    "--prompt",
                                    std::to_string(o.prompt),
                                    "--context",
                                    std::to_string(o.context),
                                    "--cache",
                                    o.cache};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) die("no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  const double begin = seconds();
  pid_t child = 0;
  if (posix_spawn(&child, self.c_str(), &actions, nullptr, argv.data(), environ) != 0) die("cannot start");
  close(ends[1]);
  std::string out;
  char part[4096];
  for (ssize_t n = 0; (n = read(ends[0], part, sizeof part)) > 0;)
    out.append(part, static_cast<std::size_t>(n));
  close(ends[0]);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == bench::kSkipped) std::exit(bench::kSkipped);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) die("the process that was started failed");
  ordered_json said = ordered_json::parse(out);
  for (const char* key : {"started", "loaded", "first_token"}) said[key] = said[key].get<double>() - begin;
  return said;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

int run_parent(Options o) {
  std::string folder;
  if (o.cache.empty()) {
    folder = (std::filesystem::temp_directory_path() / "flyball-cold-start-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) die("no folder " + folder);
    o.cache = folder;
  }
  const auto weights = static_cast<double>(std::filesystem::file_size(o.model));
  const ordered_json first_ever = start_once(o);
  std::vector<double> reads, firsts, loads;
  double own = 0, load = 0;
  for (unsigned i = 0; i < o.runs; ++i) {
    const auto prepare = [&] { o.cold ? forget(o.model) : (void)read_once(o.model); };
    prepare();
    reads.push_back(read_once(o.model));
    prepare();
    const ordered_json said = start_once(o);
    firsts.push_back(said["first_token"]);
    loads.push_back(said["loaded"]);
    own = std::max(own, said["own_bytes"].get<double>());
    load = std::max(load, said["load_bytes"].get<double>());
  }
  if (!folder.empty()) std::filesystem::remove_all(folder);
  std::printf("%s\n", ordered_json{{"page_cache", o.cold ? "cold" : "warm"},
                                   {"file_bytes", weights},
                                   {"read_s", median(reads)},
                                   {"loaded_s", median(loads)},
                                   {"first_token_s", median(firsts)},
                                   {"first_token_of_read", median(firsts) / median(reads)},
                                   {"first_start_ever_s", first_ever["first_token"]},
                                   {"load_growth_bytes", load},
                                   {"load_growth_of_file", load / weights},
                                   {"own_bytes", own},
                                   {"own_of_file", own / weights}}
                          .dump()
                          .c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app("Time to first token of a process that starts from nothing, on a Vulkan device.");
  app.add_option("model", o.model)->required()->check(CLI::ExistingPath);
  app.add_option("--device", o.device);
  app.add_option("--cache", o.cache);
  app.add_option("--runs", o.runs)->check(CLI::Range(1, 100));
  app.add_option("--prompt", o.prompt)->check(CLI::Range(1, 256));
  app.add_option("--context", o.context)->check(CLI::Range(64, 65536));
  app.add_flag("--cold", o.cold);
  app.add_flag("--child", o.child)->group("");
  CLI11_PARSE(app, argc, argv);
  return o.child ? run_child(o) : run_parent(o);
}
