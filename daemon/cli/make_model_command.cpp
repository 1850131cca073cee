// `flyball make-model`: a synthetic GGUF file of random weights, for tests and benchmarks.
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "backends/model/synthetic.hpp"
#include "backends/text/chat_template.hpp"
#include "config/units.hpp"
#include "config/yaml.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/number_option.hpp"

namespace flyball::cli {
namespace {

struct MakeModelOptions {
  std::string out, shape = "tiny", type = "Q4_0", rope = "none", chat_template;
  std::uint64_t seed = 1;
  std::uint32_t threads = 0;
  bool tied = false, infill = false, quiet = false;
};

const std::map<std::string, model::RopeScaling> kRopes = {{"none", model::RopeScaling::none},
                                                          {"linear", model::RopeScaling::linear},
                                                          {"yarn", model::RopeScaling::yarn},
                                                          {"llama3", model::RopeScaling::llama3},
                                                          {"longrope", model::RopeScaling::longrope}};

int complain(const Error& error) {
  std::fprintf(stderr, "flyball make-model: %s%s%s%s\n", error.message.c_str(),
               error.where.empty() ? "" : " (", error.where.c_str(), error.where.empty() ? "" : ")");
  return exit_code_for(error);
}

model::SyntheticProgress progress_line(bool wanted) {
  if (!wanted) return {};
  return [last = -1](std::uint64_t done, std::uint64_t total) mutable {
    const int percent = static_cast<int>(100 * done / total);
    if (percent == last) return;
    last = percent;
    std::fprintf(stderr, "\r%3d%% of %s", percent, config::size_text(total).c_str());
    if (done == total) std::fputc('\n', stderr);
  };
}

int make_model(const MakeModelOptions& options) {
  auto spec = model::parse_synthetic_shape(options.shape);
  if (!spec) {
    complain(spec.error());
    return kUsage;
  }
  for (const auto type : kernels::kAllDTypes) {
    if (to_string(type) == options.type) spec->type = type;  // CLI11 has checked the spelling
  }
  if (options.rope != "none") spec->rope = kRopes.at(options.rope);  // the shape may say it, too
  spec->tied = spec->tied || options.tied;
  spec->seed = options.seed;
  spec->infill = options.infill;
  if (auto ok = model::check(*spec); !ok) {
    complain(ok.error());
    return kUsage;
  }
  if (!options.chat_template.empty()) {
    auto source = config::read_text_file(options.chat_template, text::TemplateLimits().source_bytes);
    if (!source) return complain(source.error());
    if (const auto parsed = text::ChatTemplate::parse(*source); !parsed) return complain(parsed.error());
    spec->chat_template = std::move(*source);
  }
  const auto start = std::chrono::steady_clock::now();
  const auto bytes = model::write_synthetic_file(
      *spec, options.out, options.threads, progress_line(!options.quiet && ::isatty(STDERR_FILENO) == 1));
  if (!bytes) return complain(bytes.error());
  const auto elapsed =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start);
  if (!options.quiet) {
    std::printf("%s: %s %s, %s in %s\n", options.out.c_str(), spec->name.c_str(), options.type.c_str(),
                config::size_text(*bytes).c_str(), config::time_text(elapsed.count()).c_str());
  }
  return kOk;
}

}  // namespace

void add_make_model_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<MakeModelOptions>();
  auto* command = app.add_subcommand("make-model", "Write a synthetic random-weight GGUF file");
  std::vector<std::string> types;
  for (const auto type : kernels::kAllDTypes) types.emplace_back(to_string(type));
  std::vector<std::string> ropes;
  for (const auto& [name, scaling] : kRopes) ropes.push_back(name);
  command->add_option("--out", options->out, "File to write")->required();
  command
      ->add_option("--shape", options->shape,
                   model::synthetic_shape_names() + ", or dim=512,layers=4,... (also after a name) of " +
                       model::synthetic_shape_keys())
      ->capture_default_str();
  command->add_option("--type", options->type, "Type of the matrices; norms, biases and routers are F32")
      ->check(CLI::IsMember(types))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Same seed and options: same bytes")
      ->check(whole_number(0, UINT64_MAX))
      ->capture_default_str();
  command->add_option("--rope", options->rope, "Context extension")
      ->check(CLI::IsMember(ropes))
      ->capture_default_str();
  command->add_flag("--tied", options->tied, "Output weights are the embedding table");
  command->add_flag("--infill", options->infill,
                    "The vocabulary has tokens for filling in between two texts");
  command->add_option("--chat-template", options->chat_template,
                      "File with the chat template, in Jinja; without it the file has ChatML");
  command->add_option("--threads", options->threads, "0: one per core")
      ->check(whole_number(0, 4096))
      ->capture_default_str();
  command->add_flag("--quiet", options->quiet, "Print nothing but errors");
  command->footer(
      "Examples:\n"
      "  flyball make-model --out tiny.gguf --shape tiny --type Q8_0\n"
      "  flyball make-model --out bench.gguf --shape 1.1b --type Q4_0 --seed 7\n"
      "  flyball make-model --out long.gguf --shape small,context=8192 --type F16 --rope yarn\n"
      "  flyball make-model --out moe.gguf --shape "
      "tiny,arch=qwen3moe,experts=8,experts_used=2,expert_ffn=128");
  command->callback([options, &exit_code] { exit_code = make_model(*options); });
}

}  // namespace flyball::cli
