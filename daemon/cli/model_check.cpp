#include "daemon/cli/model_check.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <system_error>

#include <nlohmann/json.hpp>

#include "config/units.hpp"
#include "daemon/cli/running_daemon.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/hub/folder.hpp"
#include "daemon/hub/part.hpp"
#include "daemon/hub/url.hpp"
#include "daemon/probe/children.hpp"

namespace flyball::cli {
namespace {

// Reading the directory of a file on a slow disk takes seconds.
constexpr std::chrono::minutes kCheckTime{2};

// A folder of links that goes with the object.
struct LinkFolder {
  std::filesystem::path path;
  ~LinkFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace

Result<void> check_model_file(const std::filesystem::path& model) {
  const auto answers =
      probe::ask_children("/proc/self/exe", {{"inspect", "--json", "--", model.string()}}, kCheckTime);
  const probe::ChildAnswer& answer = answers.front();
  if (answer.ended_well()) return {};
  using End = probe::ChildAnswer::End;
  if (answer.end == End::no_start)
    return fail(ErrorCode::model_unavailable,
                "the process that reads the model's file cannot be started: " + answer.trouble);
  if (answer.end == End::timed_out)
    return fail(ErrorCode::worker_died, "the process that reads the model's file did not end within " +
                                            config::format_duration(kCheckTime));
  constexpr std::size_t kMostText = 500;  // bytes of another process's words
  const auto said = nlohmann::json::parse(answer.text, nullptr, false);
  const nlohmann::json& error = member(said, "error");
  const nlohmann::json &code = member(error, "code"), &message = member(error, "message");
  if (!code.is_string() || !message.is_string())
    return fail(ErrorCode::worker_died,
                "the process that reads the model's file died" +
                    (WIFSIGNALED(answer.status) ? " of signal " + std::to_string(WTERMSIG(answer.status))
                                                : std::string()));
  return fail(error_code_from(code.get<std::string>()),
              terminal_text(message.get<std::string>()).substr(0, kMostText));
}

Result<void> check_model_parts(std::span<const std::filesystem::path> files,
                               std::span<const std::filesystem::path> names) {
  const LinkFolder links{hub::check_folder(names.front())};
  std::error_code failed;
  std::filesystem::remove_all(links.path, failed);  // of a process that was killed
  if (auto made = hub::make_folders(links.path); !made) return made;
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::filesystem::create_symlink(std::filesystem::absolute(files[i]), links.path / names[i].filename(),
                                    failed);
    if (failed)
      return fail(ErrorCode::io_error, links.path.string() + " takes no links: " + failed.message());
  }
  return check_model_file(links.path / names.front().filename());
}

}  // namespace flyball::cli
