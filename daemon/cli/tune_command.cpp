// `flyball tune`: measures which work-group and tile sizes one OpenCL device multiplies a model's matrices
// fastest with, and keeps them for its engine.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "backends/model/model_file.hpp"
#include "backends/opencl/tune.hpp"
#include "backends/opencl/tuning_db.hpp"
#include "backends/opencl/weights.hpp"
#include "config/name_list.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/number_option.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/settings/config_files.hpp"

namespace flyball::cli {
namespace {

using nlohmann::json;

struct TuneCommand {
  std::string device, model;
  std::vector<std::string> shapes, formats{"Q4_0", "Q8_0", "F16"};
  std::uint32_t seconds = 120;
  bool json = false;
};

std::vector<kernels::DType> formats_of(const TuneCommand& o) {
  std::vector<kernels::DType> out;
  for (const std::string& name : o.formats) out.push_back(*kernels::dtype_named(name));
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

// "5632x2048": rows, columns.
Result<opencl::MatrixShape> parse_shape(const std::string& text) {
  opencl::MatrixShape shape;
  const char* end = text.data() + text.size();
  const auto rows = std::from_chars(text.data(), end, shape.rows);
  if (rows.ec == std::errc() && rows.ptr != end && *rows.ptr == 'x') {
    const auto cols = std::from_chars(rows.ptr + 1, end, shape.cols);
    if (cols.ec == std::errc() && cols.ptr == end) return shape;
  }
  return fail(ErrorCode::unsupported_value,
              "--shapes: " + config::quoted(text) + " is no shape; one is ROWSxCOLUMNS, as 5632x2048.",
              "shapes");
}

Result<std::vector<opencl::MatrixShape>> shapes_of(const TuneCommand& o) {
  if (!o.model.empty()) {
    const auto model = model::ModelFile::open(o.model);
    if (!model) return pass(model);
    return opencl::matrix_shapes(**model);
  }
  const auto formats = formats_of(o);
  if (o.shapes.empty()) return opencl::default_shapes(formats);
  std::vector<opencl::MatrixShape> out;
  for (const std::string& text : o.shapes) {
    auto shape = parse_shape(text);
    if (!shape) return pass(shape);
    for (const kernels::DType type : formats) out.push_back({type, shape->rows, shape->cols});
  }
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

std::string name_of(const opencl::TuningKey& key) {
  return opencl::to_string(key.matrix) + ", " + std::string(opencl::to_string(key.rows)) +
         (key.rows == opencl::RowClass::one ? " row" : " rows");
}

void print_product(const opencl::TunedProduct& p, std::size_t done, std::size_t all) {
  std::fprintf(stderr, "%3zu/%zu %-26s %u tried, %u refused; ", done, all, name_of(p.key).c_str(), p.tried,
               p.refused);
  if (p.changes.empty()) {
    std::fprintf(stderr, "the shipped tuning stays\n");
  } else {
    std::fprintf(stderr, "%.2fx: %s\n", p.speedup, p.changes.c_str());
  }
}

json to_json(const opencl::TuneReport& report) {
  json products = json::array();
  for (const opencl::TunedProduct& p : report.products)
    products.push_back({{"format", kernels::to_string(p.key.matrix.type)},
                        {"rows", p.key.matrix.rows},
                        {"cols", p.key.matrix.cols},
                        {"rows_of_x", opencl::to_string(p.key.rows)},
                        {"tried", p.tried},
                        {"refused", p.refused},
                        {"speedup", p.speedup},
                        {"changes", p.changes}});
  return {{"device", report.device},   {"driver", report.driver},     {"file", report.file.string()},
          {"seconds", report.seconds}, {"left_out", report.left_out}, {"products", std::move(products)}};
}

int tune(const TuneCommand& o) {
  auto shapes = shapes_of(o);
  if (!shapes) return report(shapes.error());
  opencl::TuneOptions options;
  options.device.name = o.device;
  options.directory = opencl::tuning_directory(settings::served_cache_dir());
  options.shapes = std::move(*shapes);
  options.budget = std::chrono::seconds(o.seconds);
  if (!o.json) options.progress = print_product;
  const auto tuned = opencl::tune(options);
  if (!tuned) return report(tuned.error());
  if (tuned->ignored) std::fprintf(stderr, "flyball: replaced: %s\n", describe(*tuned->ignored).c_str());
  if (o.json) {
    std::printf("%s\n", to_json(*tuned).dump(2, ' ', false, json::error_handler_t::replace).c_str());
  } else {
    const auto better =
        std::ranges::count_if(tuned->products, [](const auto& p) { return !p.changes.empty(); });
    std::printf("%s: %zu products in %.0f s, %zu faster than shipped, %zu left out; %s\n",
                tuned->device.c_str(), tuned->products.size(), tuned->seconds,
                static_cast<std::size_t>(better), tuned->left_out, tuned->file.c_str());
  }
  return tuned->stopped ? report(*tuned->stopped) : kOk;
}

}  // namespace

void add_tune_command(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<TuneCommand>();
  CLI::App* c = app.add_subcommand("tune", "Find the fastest work-group and tile sizes of an OpenCL device");
  c->add_option("--device", o->device,
                "Part of the device's id (probe); absent: the best GPU. Software devices only when named");
  auto* model =
      c->add_option("model,-m,--model", o->model, "GGUF file or MLX directory whose matrices are tuned");
  c->add_option("--shapes", o->shapes, "Matrices, ROWSxCOLUMNS each; absent: those of a 1.1B model")
      ->delimiter(',')
      ->excludes(model);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kernels::kDTypeCount; ++i)
    names.emplace_back(kernels::to_string(static_cast<kernels::DType>(i)));
  c->add_option("--formats", o->formats, "Of the shapes")
      ->delimiter(',')
      ->check(CLI::IsMember(names))
      ->capture_default_str()
      ->excludes(model);
  c->add_option("--seconds", o->seconds, "Ends then, with what it has")
      ->check(whole_number(1, 86'400))
      ->capture_default_str();
  c->add_flag("--json", o->json, "As JSON");
  c->footer(
      "Examples:\n"
      "  flyball tune model.gguf                  the best GPU, for this model\n"
      "  flyball tune --device pocl --shapes 5632x2048,2048x5632 --formats Q4_0 --seconds 20\n"
      "\n"
      "What is found lies in the cache directory; the OpenCL engine takes it up when it next starts. Tune on "
      "a\n"
      "machine that does nothing else.");
  c->callback([o, &exit_code] { exit_code = tune(*o); });
}

}  // namespace flyball::cli
