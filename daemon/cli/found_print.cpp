#include "daemon/cli/found_print.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "daemon/cli/local_engine.hpp"
#include "daemon/cli/operators_file.hpp"
#include "daemon/cli/terminal.hpp"

namespace flyball::cli {
namespace {

using nlohmann::ordered_json;

std::string shown_path(const std::filesystem::path& path) {
  return terminal_text(path.string());
}

bool may_be_added(const ExaminedModel& model) {
  return model.info.has_value() && !model.configured;
}

std::string speed_text(double tokens_a_second) {
  char text[32];
  std::snprintf(text, sizeof text, tokens_a_second < 10 ? "%.1f" : "%.0f", tokens_a_second);
  return text;
}

std::string fit_text(const ModelFit& fit) {
  std::string out = fit.pool + ": ";
  if (fit.missing > 0) return out + "does not fit, " + size_text(fit.missing) + " more are needed";
  out += fit.fits ? "fits" : "fits with a shorter context";
  if (fit.longest_context > 0) out += ", up to " + std::to_string(fit.longest_context) + " tokens";
  if (fit.decode_tps)
    out += (fit.measured ? ", " : ", about ") + speed_text(*fit.decode_tps) + " tokens/s" +
           (fit.measured ? " as measured" : "");
  return out;
}

std::string facts_text(const ExaminedModel& m) {
  std::string out = size_text(m.found.bytes);
  if (!m.family.empty()) out += ", " + m.family;
  if (!m.quantization.empty()) out += ", " + m.quantization;
  if (!m.tensors.empty()) out += " (" + census_text(m.tensors) + ")";
  if (m.info) out += ", " + short_count(m.info->parameters) + " parameters";
  return out;
}

std::string closed_text(const ExaminedModel& model, const discover::Reader& reader) {
  const std::string command = mend_command(model.closed);
  return terminal_text(reader.name) + " cannot open it: " +
         (command.empty() ? "permissions of " + shown_path(model.closed.front().path) : command);
}

void print_model(const ExaminedModel& m, const Found& found, std::size_t number) {
  std::printf("  %s%s%s\n", number > 0 ? (std::to_string(number) + ") ").c_str() : "", m.id.c_str(),
              m.configured ? "  (in the configuration)" : "");
  const auto line = [](const std::string& text) { std::printf("      %s\n", text.c_str()); };
  line(facts_text(m));
  if (m.found.name != m.id) line("called " + terminal_text(m.found.name));
  for (const std::string& name : m.also) line("also " + terminal_text(name));
  for (const std::string& note : m.found.notes) line(terminal_text(note));
  if (m.trouble) line("not read: " + terminal_text(m.trouble->message));
  for (const ModelFit& fit : m.fits) line(fit_text(fit));
  if (!m.closed.empty()) line(closed_text(m, *found.reader));
}

// Root sees what lies behind a closed folder, and names the command that opens it to this user. sudo does not
// look for programs where the user does.
std::string remedy_of(const discover::Obstacle& obstacle) {
  if (obstacle.kind != discover::Obstacle::Kind::closed || ::geteuid() == 0) return obstacle.remedy;
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  const passwd* const self = ::getpwuid(::geteuid());
  if (failed || self == nullptr) return obstacle.remedy;
  return "sudo " + shell_word(program.string()) + " models find --user " + shell_word(self->pw_name);
}

void print_obstacle(const discover::Obstacle& obstacle) {
  const std::string path = shown_path(obstacle.path);
  std::printf(
      "  %s\n      %s: %s %s\n", obstacle.name.empty() ? path.c_str() : terminal_text(obstacle.name).c_str(),
      std::string(to_string(obstacle.kind)).c_str(), path.c_str(), terminal_text(obstacle.what).c_str());
  const std::string remedy = remedy_of(obstacle);
  if (!remedy.empty()) std::printf("      remedy: %s\n", terminal_text(remedy).c_str());
}

std::string server_text(const LocalServer& server) {
  constexpr std::size_t kShown = 4;  // models
  std::string out = "127.0.0.1:" + std::to_string(server.port) + "  ";
  if (!server.kind.empty())
    out += server.kind + (server.version.empty() ? "" : " " + server.version);
  else
    out += "a server of unknown kind" +
           (server.usual.empty() ? "" : " (the port is usually that of " + server.usual + ")");
  if (server.models_served > 0) out += ", " + std::to_string(server.models_served) + " models: ";
  for (std::size_t i = 0; i < server.models.size() && i < kShown; ++i)
    out += (i == 0 ? "" : ", ") + server.models[i];
  return out + (server.models_served > kShown ? " and more" : "");
}

ordered_json json_of(const ExaminedModel& m) {
  ordered_json out{{"id", m.id},
                   {"store", id_of(m.store)},
                   {"name", m.found.name},
                   {"also", m.also},
                   {"path", m.found.path.string()},
                   {"bytes", m.found.bytes},
                   {"notes", m.found.notes},
                   {"configured", m.configured},
                   {"family", m.family},
                   {"quantization", m.quantization},
                   {"tensors", m.tensors},
                   {"read", m.info.has_value()},
                   {"where", ordered_json::array()}};
  if (m.info) out["parameters"] = m.info->parameters;
  if (m.trouble) out["error"] = {{"code", to_string(m.trouble->code)}, {"message", m.trouble->message}};
  for (const ModelFit& fit : m.fits) {
    ordered_json one{{"engine", fit.backend},
                     {"pool", fit.pool},
                     {"fits", fit.fits},
                     {"missing_bytes", fit.missing},
                     {"longest_context", fit.longest_context}};
    if (fit.decode_tps) {
      one["decode_tps"] = std::round(*fit.decode_tps * 100) / 100;
      one["measured"] = fit.measured;
    }
    out["where"].push_back(std::move(one));
  }
  if (!m.closed.empty()) out["closed"] = mend_command(m.closed);
  return out;
}

}  // namespace

std::vector<const ExaminedModel*> candidates_of(const Found& found) {
  std::vector<const ExaminedModel*> out;
  for (const ExaminedModel& model : found.models)
    if (may_be_added(model)) out.push_back(&model);
  return out;
}

std::string mend_command(const std::vector<discover::Closing>& closed) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@,";
  const bool others =
      std::ranges::any_of(closed, [](const discover::Closing& one) { return one.owner != ::geteuid(); });
  const std::string program = others && ::geteuid() != 0 ? "sudo chmod " : "chmod ";
  std::string out, change;
  for (const discover::Closing& closing : closed) {
    const std::string path = closing.path.string();
    if (terminal_text(path) != path) return "";
    if (closing.change != change) out += (out.empty() ? "" : " && ") + program + closing.change;
    change = closing.change;
    out += " " + (path.find_first_not_of(kPlain) == std::string::npos ? path : shell_word(path));
  }
  return out;
}

void print_text(const Found& found, bool numbered) {
  const auto candidates = candidates_of(found);
  std::size_t number = 0;  // candidates_of() has the same order
  for (std::size_t i = 0; i < found.stores.size(); ++i) {
    const discover::StoreContents& store = found.stores[i];
    std::printf("%s, %s\n", std::string(to_string(store.kind)).c_str(), shown_path(store.root).c_str());
    for (const ExaminedModel& model : found.models) {
      if (model.store_index != i) continue;
      number += may_be_added(model) ? 1 : 0;
      print_model(model, found, numbered && may_be_added(model) ? number : 0);
    }
    for (const discover::Obstacle& obstacle : store.obstacles) print_obstacle(obstacle);
  }
  if (found.stores.empty())
    std::printf(
        "no model files in the stores that are known of Ollama, LM Studio, Hugging Face and llama.cpp; "
        "name others with --in\n");
  if (!found.gone.empty()) std::printf("In the configuration, and gone\n");
  for (const GoneModel& gone : found.gone)
    std::printf("  %s\n      %s is not there; the entry is at %s\n", gone.id.c_str(),
                shown_path(gone.path).c_str(), terminal_text(gone.place).c_str());
  if (!found.servers.empty()) std::printf("Servers on this machine\n");
  for (const LocalServer& server : found.servers) std::printf("  %s\n", server_text(server).c_str());
  const auto first =
      std::ranges::find_if(candidates, [](const ExaminedModel* model) { return fits_somewhere(*model); });
  if (first != candidates.end() && !numbered)
    std::printf("\nServe one from where it lies:\n  flyball models find --write %s\n", (*first)->id.c_str());
}

void print_json(const Found& found, const std::optional<WrittenModels>& written) {
  ordered_json out{{"models", ordered_json::array()},
                   {"obstacles", ordered_json::array()},
                   {"gone", ordered_json::array()},
                   {"servers", ordered_json::array()}};
  for (const ExaminedModel& model : found.models) out["models"].push_back(json_of(model));
  for (const discover::StoreContents& store : found.stores)
    for (const discover::Obstacle& obstacle : store.obstacles)
      out["obstacles"].push_back({{"kind", to_string(obstacle.kind)},
                                  {"store", id_of(store.kind)},
                                  {"name", obstacle.name},
                                  {"path", obstacle.path.string()},
                                  {"what", obstacle.what},
                                  {"remedy", remedy_of(obstacle)}});
  for (const GoneModel& gone : found.gone)
    out["gone"].push_back({{"id", gone.id}, {"path", gone.path.string()}, {"place", gone.place}});
  for (const LocalServer& server : found.servers)
    out["servers"].push_back({{"port", server.port},
                              {"kind", server.kind},
                              {"version", server.version},
                              {"usual", server.usual},
                              {"models_served", server.models_served},
                              {"models", server.models}});
  if (written) {
    out["written"] = ordered_json::array();
    for (const auto& file : written->files) out["written"].push_back(file.string());
    out["default_model"] = written->default_model;
  }
  std::printf("%s\n", out.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

}  // namespace flyball::cli
