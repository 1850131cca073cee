// A recorded past for pages and scripts: record_fixture DIRECTORY writes old.yaml, and recorded.db as a
// daemon with that policy leaves it: 200 requests of the last two days.
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "daemon/route/records.hpp"

namespace {

using namespace flyball;

constexpr const char* kOld = R"(schema: flyball.policy/v1
rules:
  - id: large
    because: the GPU reads large weights faster
    when: {fact: model.bytes, gte: 8GiB}
    use: vulkan
default: {because: small models are fast enough anywhere, use: cpu}
)";

// Request i of the past: every fifth to the large model, every fourth by a batch app, which waits longer.
route::Receipt request(const std::shared_ptr<const policy::Tree>& tree, int i) {
  const bool large = i % 5 == 0, batch = i % 4 == 0;
  route::Receipt out;
  out.request_id = "req-" + std::to_string(1000 + i);
  out.app = batch ? "indexer" : "assistant";
  out.model = large ? "large" : "small";
  out.operation = "chat";
  out.state = route::RunState::Kind::done;
  out.created = std::time(nullptr) - 2 * 24 * 3600 + i * 60;
  policy::Facts& facts = out.facts;
  facts.set("app.id", out.app, "manifest");
  facts.set("workload.class", std::string(batch ? "batch" : "chat"), "manifest");
  facts.set("model.id", out.model, "config");
  facts.set("model.bytes", std::int64_t{large ? 20 : 2} << 30, "model file");
  facts.set("request.prompt_bytes", std::int64_t{400 + i % 7 * 100}, "request");
  facts.set("backend.cpu.available", true, "build");
  facts.set("backend.vulkan.available", true, "probe");
  facts.set("backend.opencl.available", false, "probe");
  facts.set("backend.opencl.reason", std::string("no device found"), "probe");
  out.keep = tree;
  out.decision = policy::decide(*tree, facts);
  const std::string& backend = out.decision.target->backend;
  out.attempts.push_back({backend, route::RunState::Kind::done});
  out.ttft_ms = (backend == "cpu" ? 180 : 620) + i % 7 * 10 + (batch ? 9000 : 0);
  out.total_ms = out.ttft_ms + 900;
  out.usage = {static_cast<std::uint32_t>(100 + i % 7 * 25), 64, 0};
  return out;
}

int failed(const Error& error) {
  std::fprintf(stderr, "%s: %s\n", error.where.c_str(), error.message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 64;
  const std::filesystem::path folder = argv[1];
  std::ofstream(folder / "old.yaml") << kOld;
  auto tree = policy::parse_policy(kOld, "old.yaml");
  if (!tree) return failed(tree.error());
  auto database = store::Database::open(folder / "recorded.db", store::Database::Access::read_write);
  if (!database) return failed(database.error());
  const auto shared = std::make_shared<const policy::Tree>(std::move(*tree));
  store::Writer writer(std::move(*database));
  route::ReceiptStore receipts(&writer);
  for (int i = 0; i < 200; ++i) receipts.keep(request(shared, i));
  writer.flush();
  const store::Writer::Health health = writer.health();
  if (health.written == 200) return 0;
  std::fprintf(stderr, "%s\n", health.last_error.c_str());
  return 1;
}
