// Paths of the operator's files: what a leading ~/ stands for, and what is refused rather than taken for a
// name.
#include "config/path.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>

#include "config/app_manifest.hpp"
#include "config/config.hpp"
#include "tests/harness/temp_dir.hpp"

namespace flyball::config {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

// HOME for the length of a test; nullptr: unset.
class Home {
 public:
  explicit Home(const char* value) {
    if (const char* before = std::getenv("HOME")) before_ = before;
    set(value);
  }
  ~Home() { set(before_ ? before_->c_str() : nullptr); }

 private:
  static void set(const char* value) {
    if (value != nullptr)
      ::setenv("HOME", value, 1);
    else
      ::unsetenv("HOME");
  }
  std::optional<std::string> before_;
};

std::string with(const std::string& key, const std::string& value) {
  const auto one = [&](const char* name) { return key == name ? value : std::string("/x/") + name; };
  return "schema: flyball.config/v1\nlisteners: {l: {unix: '" + one("listeners.l.unix") +
         "'}}\nmodels: {m: {path: '" + one("models.m.path") + "'}}\npolicy_path: '" + one("policy_path") +
         "'\napps_dir: '" + one("apps_dir") + "'\nstate_dir: '" + one("state_dir") + "'\ncache_dir: '" +
         one("cache_dir") + "'\nmodels_dir: '" + one("models_dir") + "'\nkv_spill: {directory: '" +
         one("kv_spill.directory") + "'}\n";
}

fs::path path_of(const Config& config, const std::string& key) {
  if (key == "listeners.l.unix") return config.listeners[0].path;
  if (key == "models.m.path") return config.models[0].path;
  if (key == "policy_path") return config.policy_path;
  if (key == "apps_dir") return config.apps_dir;
  if (key == "state_dir") return config.state_dir;
  if (key == "cache_dir") return config.cache_dir;
  if (key == "models_dir") return config.models_dir;
  return config.kv_spill.directory;
}

class EveryPathKey : public testing::TestWithParam<const char*> {};

TEST_P(EveryPathKey, ExpandsALeadingTilde) {
  const Home home("/home/op");
  for (const auto& [written, meant] :
       {std::pair{"~/a/b", "/home/op/a/b"}, {"~//a", "/home/op/a"}, {"a/~/b", "/etc/x/a/~/b"}}) {
    const auto config = parse_config(with(GetParam(), written), "/etc/x/config.yaml");
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(path_of(*config, GetParam()), meant) << written;
  }
}

TEST_P(EveryPathKey, RefusesWhatNobodyExpands) {
  const Home home("/home/op");
  for (const char* written : {"~user/a", "~a", "$HOME/a", "${HOME}/a", "$DATA"}) {
    const auto config = parse_config(with(GetParam(), written), "c.yaml");
    ASSERT_FALSE(config) << written;
    EXPECT_EQ(config.error().code, ErrorCode::config_invalid);
    EXPECT_THAT(config.error().message, HasSubstr(std::string(GetParam()) + ": expected a path"));
    EXPECT_THAT(config.error().message, HasSubstr("got \"" + std::string(written) + "\""));
    EXPECT_THAT(config.error().message, HasSubstr("is written ./~name"));
    EXPECT_THAT(config.error().where, HasSubstr("c.yaml:"));
  }
}

TEST_P(EveryPathKey, TakesADotBeforeANameThatTrulyBeginsSo) {
  const Home home("/home/op");
  for (const char* written : {"./~user/a", "./$HOME/a"}) {
    const auto config = parse_config(with(GetParam(), written), "/etc/x/config.yaml");
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(path_of(*config, GetParam()), fs::path("/etc/x") / written);
  }
}

INSTANTIATE_TEST_SUITE_P(Config, EveryPathKey,
                         testing::Values("listeners.l.unix", "models.m.path", "policy_path", "apps_dir",
                                         "state_dir", "cache_dir", "models_dir", "kv_spill.directory"),
                         [](const auto& row) {
                           std::string name = row.param;
                           for (char& c : name)
                             if (c == '.') c = '_';
                           return name;
                         });

// Services of the system have no HOME.
TEST(Path, WithoutHomeThePasswordDatabaseSays) {
  const passwd* const user = ::getpwuid(::geteuid());
  if (user == nullptr) GTEST_SKIP() << "this user has no entry";
  for (const char* value : {static_cast<const char*>(nullptr), "", "relative"}) {
    const Home home(value);
    const auto path = resolve_path("~/a", "/base");
    ASSERT_TRUE(path) << path.error().message;
    EXPECT_EQ(*path, fs::path(user->pw_dir) / "a");
  }
}

TEST(Path, AKeyFileMayLieInTheHomeDirectory) {
  const test::TempDir dir;
  const Home home(dir.path().c_str());
  std::ofstream(dir.path() / "key") << "correct-horse\n";
  fs::permissions(dir.path() / "key", fs::perms::owner_read | fs::perms::owner_write);
  const auto app = parse_app("schema: flyball.app/v1\napp: a\nkey: {file: ~/key}\n", "/elsewhere/a.yaml");
  ASSERT_TRUE(app) << app.error().message;
  EXPECT_EQ(app->keys.size(), 1U);
  const auto variable = parse_app("schema: flyball.app/v1\napp: a\nkey: {file: $HOME/key}\n", "a.yaml");
  ASSERT_FALSE(variable);
  EXPECT_THAT(variable.error().message, HasSubstr("key.file: expected a path"));
  EXPECT_EQ(variable.error().where, "a.yaml:3:13");
}

TEST(Path, HasNoControlCharacters) {
  for (const char* written : {"\"a\\0b\"", "\"a\\nb\""}) {
    const auto config = parse_config(
        "schema: flyball.config/v1\nlisteners: {l: {unix: /x}}\nmodels: {m: {path: " + std::string(written) +
            "}}\n",
        "c.yaml");
    ASSERT_FALSE(config) << written;
    EXPECT_THAT(config.error().message, HasSubstr("models.m.path: expected a path"));
  }
}

TEST(Path, OfASocketFitsTheSystemOnceItIsWhole) {
  const std::string folder = "/" + std::string(90, 'f');
  const auto config = parse_config(
      "schema: flyball.config/v1\nlisteners: {l: {unix: a-long-name-of-a-socket}}\nmodels: {m: {path: x}}\n",
      folder + "/c.yaml");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("has 115 bytes, and the system takes at most 107"));
  EXPECT_THAT(config.error().where, HasSubstr("c.yaml:2:23"));
}

}  // namespace
}  // namespace flyball::config
