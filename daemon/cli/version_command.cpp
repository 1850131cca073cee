// `flyball version`: what this binary is and what this machine lets it use.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "backends/cpu/probe.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"

namespace flyball::cli {
namespace {

nlohmann::json version_json() {
  const std::vector<std::string> isas = cpu::usable_isas();
#ifdef __clang__
  const std::string compiler = std::string("clang ") + __clang_version__;
#else
  const std::string compiler = std::string("gcc ") + __VERSION__;
#endif
  return {{"version", FLYBALL_VERSION},
          {"compiler", compiler},
          {"cpu_isas", isas},
          {"cpu_isa_used", isas.front()}};
}

}  // namespace

void add_version_command(CLI::App& app, int& exit_code) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("version", "Version, compiler, and the CPU instruction sets it can use here");
  command->add_flag("--json", *json, "As JSON");
  command->callback([json, &exit_code] {
    const nlohmann::json v = version_json();
    exit_code = kOk;
    if (*json) {
      std::printf("%s\n", v.dump(2).c_str());
      return;
    }
    std::string isas;
    for (const auto& isa : v["cpu_isas"]) isas += (isas.empty() ? "" : ", ") + isa.get<std::string>();
    std::printf("flyball %s\ncompiled by %s\nCPU instruction sets here: %s (used: %s)\n", FLYBALL_VERSION,
                v["compiler"].get<std::string>().c_str(), isas.c_str(),
                v["cpu_isa_used"].get<std::string>().c_str());
  });
}

}  // namespace flyball::cli
