// Manifests: where keys come from, what is refused, and what only all manifests together show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "config/app_manifest.hpp"

namespace flyball::config {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
namespace fs = std::filesystem;

// SHA-256 of "correct-horse" (sha256sum).
constexpr std::array<std::uint8_t, 4> kDigestStart{0x9d, 0xca, 0x66, 0x6e};
const std::string kAppHead = "schema: flyball.app/v1\napp: a\n";

class Manifests : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() / ("flyball_apps_" + std::to_string(::getpid()) + "_" +
                                        testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(dir_);
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }
  fs::path write(const std::string& name, const std::string& text,
                 fs::perms perms = fs::perms::owner_read | fs::perms::owner_write) {
    std::ofstream(dir_ / name) << text;
    fs::permissions(dir_ / name, perms);
    return dir_ / name;
  }
  fs::path dir_;
};

void expect_digest(const Result<AppManifest>& app) {
  ASSERT_TRUE(app) << app.error().where << ": " << app.error().message;
  ASSERT_EQ(app->keys.size(), 1U);
  EXPECT_TRUE(std::equal(kDigestStart.begin(), kDigestStart.end(), app->keys[0].begin()));
}

TEST(Manifest, EveryKeyIsRead) {
  const auto app = parse_app(R"(schema: flyball.app/v1
app: indexer
description: nightly
key_sha256: [00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF, ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff]
unix_uid: 1001
workload:
  class: rag
  modalities: [text, image]
  prompt_tokens: 6000
  output_tokens: 100
  shared_prefix_tokens: 2000
  concurrency: 8
  fixed_critical: true
slo: {ttft: 2s, tpot: 50ms, deadline: 5m, hard: true}
models: [m, n]
privacy: any
limits: {in_flight: 4, max_tokens: 512, queue: 9, requests_per_minute: 60, bytes_per_minute: 64MiB, tokens_per_minute: 9000,
  tokens_per_day: 1000000000000, kv_tokens: 8192}
unknown_fields: accept
chat: {control_tokens_in_content: true}
)",
                             "apps.d/indexer.yaml");
  ASSERT_TRUE(app) << app.error().where << ": " << app.error().message;
  using namespace std::chrono_literals;
  EXPECT_EQ(app->id, "indexer");
  EXPECT_EQ(app->description, "nightly");
  EXPECT_EQ(app->source, "apps.d/indexer.yaml");
  ASSERT_EQ(app->keys.size(), 2U);
  EXPECT_EQ(app->keys[0][1], 0x11);
  EXPECT_EQ(app->keys[0][31], 0xFF);
  EXPECT_EQ(app->unix_uid, 1001U);
  EXPECT_EQ(app->workload.kind, WorkloadClass::rag);
  EXPECT_THAT(app->workload.modalities, testing::ElementsAre("text", "image"));
  EXPECT_EQ(app->workload.prompt_tokens, 6000U);
  EXPECT_EQ(app->workload.output_tokens, 100U);
  EXPECT_EQ(app->workload.shared_prefix_tokens, 2000U);
  EXPECT_EQ(app->workload.concurrency, 8U);
  EXPECT_EQ(app->workload.fixed_critical, true);
  EXPECT_EQ(app->slo.ttft, 2s);
  EXPECT_EQ(app->slo.tpot, 50ms);
  EXPECT_EQ(app->slo.deadline, 5min);
  EXPECT_TRUE(app->slo.hard);
  EXPECT_THAT(app->models, testing::ElementsAre("m", "n"));
  EXPECT_EQ(app->privacy, Privacy::any);
  EXPECT_EQ(app->limits.in_flight, 4U);
  EXPECT_EQ(app->limits.max_tokens, 512U);
  EXPECT_EQ(app->limits.queue, 9U);
  EXPECT_EQ(app->limits.requests_per_minute, 60U);
  EXPECT_EQ(app->limits.bytes_per_minute, 64U << 20);
  EXPECT_EQ(app->limits.tokens_per_minute, 9000U);
  EXPECT_EQ(app->limits.tokens_per_day, 1'000'000'000'000U);
  EXPECT_EQ(app->limits.kv_tokens, 8192U);
  EXPECT_TRUE(app->chat.control_tokens_in_content);
  EXPECT_TRUE(app->accepts_unknown_fields);
}

TEST(Manifest, AHardSloNeedsAFigure) {
  const auto app = parse_app(std::string(kAppHead) + "slo:\n  hard: true\n", "a.yaml");
  ASSERT_FALSE(app);
  EXPECT_EQ(app.error().message,
            "slo.hard holds no figure: declare slo.ttft, slo.tpot or slo.deadline beside it");
  EXPECT_EQ(app.error().param, "slo.hard");
  EXPECT_TRUE(app.error().where.starts_with("a.yaml:")) << app.error().where;
  EXPECT_TRUE(parse_app(std::string(kAppHead) + "slo: {hard: false}\n", "a.yaml"));
  EXPECT_FALSE(parse_app(kAppHead, "a.yaml")->slo.hard);
}

TEST(Manifest, PromptsStayHereUnlessSaidOtherwise) {
  const auto app = parse_app(kAppHead, "a.yaml");
  ASSERT_TRUE(app);
  EXPECT_FALSE(app->privacy);  // not declared: kDefaultPrivacy holds
  EXPECT_EQ(kDefaultPrivacy, Privacy::local_only);
  EXPECT_TRUE(app->keys.empty());
  EXPECT_FALSE(app->workload.concurrency);
  EXPECT_FALSE(app->chat.control_tokens_in_content) << "what clients wrote is text";
}

TEST(Manifest, UnknownFieldsAreRefusedUnlessItAcceptsThem) {
  EXPECT_FALSE(parse_app(kAppHead, "a.yaml")->accepts_unknown_fields);
  EXPECT_FALSE(
      parse_app(std::string(kAppHead) + "unknown_fields: refuse\n", "a.yaml")->accepts_unknown_fields);
  const auto app = parse_app(std::string(kAppHead) + "unknown_fields: acept\n", "a.yaml");
  ASSERT_FALSE(app);
  EXPECT_NE(app.error().message.find("did you mean \"accept\"?"), std::string::npos) << app.error().message;
}

// ---- keep -------------------------------------------------------------------------------------------------

TEST_F(Manifests, KeptPrefixesAreReadWithTheirDefaults) {
  write("rules.txt", "Be kind.\n");
  const auto app =
      parse_app(kAppHead +
                    "keep:\n"
                    "  house_rules: {file: rules.txt}\n"
                    "  manual: {text: \"Read on\", role: user, model: small, compute: first_use}\n"
                    "  code: {text: \"def\", role: prompt}\n",
                (dir_ / "a.yaml").string());
  ASSERT_TRUE(app) << app.error().where << ": " << app.error().message;
  ASSERT_EQ(app->keep.size(), 3U);
  const KeptPrefix& rules = app->keep[0];
  EXPECT_EQ(rules.name, "house_rules");
  EXPECT_EQ(*rules.text, "Be kind.\n") << "the bytes of a file stay as they are";
  EXPECT_EQ(rules.file, dir_ / "rules.txt");
  EXPECT_EQ(rules.role, KeptPrefix::Role::system);
  EXPECT_EQ(rules.compute, KeptPrefix::Compute::load);
  EXPECT_EQ(rules.model, "");
  EXPECT_THAT(rules.at, EndsWith("a.yaml:4:3"));
  const KeptPrefix& manual = app->keep[1];
  EXPECT_EQ(*manual.text, "Read on");
  EXPECT_EQ(manual.file, fs::path());
  EXPECT_EQ(manual.role, KeptPrefix::Role::user);
  EXPECT_EQ(manual.compute, KeptPrefix::Compute::first_use);
  EXPECT_EQ(manual.model, "small");
  EXPECT_EQ(app->keep[2].role, KeptPrefix::Role::prompt);
}

TEST_F(Manifests, AKeptPrefixThatCannotBeReadIsAFindingAtItsPlace) {
  write("empty", "");
  write("latin1", "caf\xe9");
  write("long", std::string(kMaxKeptPrefixBytes + 1, 'x'));
  fs::create_directories(dir_ / "folder");
  struct Case {
    const char *rows, *words, *place;
  };
  for (const Case& one : {
           Case{"{role: user}", "keep.p: expected exactly one of text and file", "a.yaml:4:6"},
           Case{"{text: x, file: y}", "keep.p: expected exactly one of text and file", "a.yaml:4:6"},
           Case{"{file: empty}", "the file is empty", "a.yaml:4:13"},
           Case{"{file: latin1}", "is not UTF-8", "a.yaml:4:13"},
           Case{"{file: long}", "4194304", "a.yaml:4:13"},
           Case{"{file: folder}", "it is a directory", "a.yaml:4:13"},
           Case{"{file: absent}", "cannot be read: No such file or directory", "a.yaml:4:13"},
           Case{"{text: \"\"}", "keep.p.text", "a.yaml:4:13"},
           Case{"{text: x, role: assistant}", "keep.p.role", "a.yaml:4:22"},
           Case{"{text: x, compute: never}", "keep.p.compute", "a.yaml:4:25"},
       }) {
    const auto app = parse_app(kAppHead + "keep:\n  p: " + one.rows + "\n", (dir_ / "a.yaml").string());
    ASSERT_FALSE(app) << one.rows;
    EXPECT_EQ(app.error().code, ErrorCode::config_invalid);
    EXPECT_THAT(app.error().message, HasSubstr(one.words));
    EXPECT_THAT(app.error().where, EndsWith(one.place)) << one.rows;
  }
}

TEST_F(Manifests, AnAppKeepsSixteenPrefixesAtMost) {
  std::string keep = "keep:\n";
  for (std::size_t i = 0; i < kMaxKeptPrefixes; ++i) keep += "  p" + std::to_string(i) + ": {text: x}\n";
  EXPECT_TRUE(parse_app(kAppHead + keep, "a.yaml"));
  const auto app = parse_app(kAppHead + keep + "  more: {text: x}\n", "a.yaml");
  ASSERT_FALSE(app);
  EXPECT_THAT(app.error().message, HasSubstr("keep: has 17, the limit is 16"));
}

TEST_F(Manifests, TheKeptPrefixesOfAllManifestsHaveSixtyFourMiBAtMost) {
  write("long", std::string(kMaxKeptPrefixBytes, 'x'));
  const std::size_t most = kMaxKeptBytes / kMaxKeptPrefixBytes;
  const auto manifest = [&](const std::string& app, std::size_t prefixes) {
    std::string text = "schema: flyball.app/v1\napp: " + app + "\nkeep:\n";
    for (std::size_t i = 0; i < prefixes; ++i) text += "  p" + std::to_string(i) + ": {file: ../long}\n";
    write("apps.d/" + app + ".yaml", text);
  };
  fs::create_directories(dir_ / "apps.d");
  manifest("a", most - 1);
  manifest("b", 1);
  EXPECT_TRUE(load_apps_all(dir_ / "apps.d"));
  manifest("b", 2);
  const auto apps = load_apps_all(dir_ / "apps.d");
  ASSERT_FALSE(apps);
  ASSERT_EQ(apps.error().size(), 1U);
  EXPECT_THAT(apps.error()[0].message, HasSubstr("have 71303168 bytes together, the limit is 67108864"));
  EXPECT_THAT(apps.error()[0].where, EndsWith("b.yaml:5:3"));
}

TEST(CrossCheck, AKeptPrefixNeedsAModelThatIsOpenToItsApp) {
  const auto findings = [](const std::string& config, const std::string& app) {
    const auto read = parse_config(
        "schema: flyball.config/v1\nlisteners: {l: {tcp: \"127.0.0.1:0\"}}\n" + config, "config.yaml");
    EXPECT_TRUE(read) << (read ? "" : read.error().message);
    const auto manifest = parse_app(kAppHead + app, "a.yaml");
    EXPECT_TRUE(manifest) << (manifest ? "" : manifest.error().message);
    return cross_check(*read, {*manifest});
  };
  const std::string models = "models: {m: {path: /m}, n: {path: /n, aliases: [nn]}}\n";
  const std::string kept = "keep:\n  p: {text: x";
  EXPECT_TRUE(findings(models + "default_model: m\n", kept + "}\n").empty());
  EXPECT_TRUE(findings(models, "models: [nn]\n" + kept + "}\n").empty()) << "the only one that is open";
  EXPECT_TRUE(findings(models, kept + ", model: nn}\n").empty());
  const auto unnamed = findings(models, kept + "}\n");
  ASSERT_EQ(unnamed.size(), 1U);
  EXPECT_THAT(unnamed[0].message, HasSubstr("write keep.p.model"));
  EXPECT_EQ(unnamed[0].where, "a.yaml:4:3");
  EXPECT_EQ(unnamed[0].code, ErrorCode::config_invalid);
  const auto unknown = findings(models, kept + ", model: mm}\n");
  ASSERT_EQ(unknown.size(), 1U);
  EXPECT_THAT(unknown[0].message, HasSubstr("names the model \"mm\", which config.yaml does not have"));
  const auto closed = findings(models, "models: [m]\n" + kept + ", model: n}\n");
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_THAT(closed[0].message, HasSubstr("not open to the app"));
}

TEST_F(Manifests, KeyFromAFile) {
  write("key", "correct-horse\n");
  expect_digest(parse_app(kAppHead + "key: {file: key}\n", (dir_ / "a.yaml").string()));
  expect_digest(parse_app(kAppHead + "key: {file: " + (dir_ / "key").string() + "}\n", "a.yaml"));
}

TEST_F(Manifests, KeyFromTheEnvironmentAndFromACredential) {
  setenv("FLYBALL_TEST_KEY", "correct-horse", 1);
  expect_digest(parse_app(kAppHead + "key: {env: FLYBALL_TEST_KEY}\n", "a.yaml"));
  unsetenv("FLYBALL_TEST_KEY");
  write("cred", "correct-horse");
  setenv("CREDENTIALS_DIRECTORY", dir_.c_str(), 1);
  expect_digest(parse_app(kAppHead + "key: {credential: cred}\n", "a.yaml"));
  unsetenv("CREDENTIALS_DIRECTORY");
}

TEST_F(Manifests, AWorldReadableKeyFileIsRefused) {
  const fs::path key = write("key", "correct-horse", fs::perms::owner_all | fs::perms::others_read);
  const auto app = parse_app(kAppHead + "key: {file: key}\n", (dir_ / "a.yaml").string());
  ASSERT_FALSE(app);
  EXPECT_EQ(app.error().code, ErrorCode::config_invalid);
  EXPECT_THAT(app.error().message, HasSubstr(key.string() + " may be read by everybody"));
  EXPECT_EQ(app.error().where, (dir_ / "a.yaml").string() + ":3:7");
}

TEST_F(Manifests, AWorldWritableKeyFileIsRefused) {
  write("key", "correct-horse", fs::perms::owner_all | fs::perms::others_write);
  const auto app = parse_app(kAppHead + "key: {file: key}\n", (dir_ / "a.yaml").string());
  ASSERT_FALSE(app);
  EXPECT_THAT(app.error().message, HasSubstr("may be written by everybody"));
}

// A key pasted where its source or digest belongs must not end up in a log.
TEST(Manifest, MessagesDoNotShowKeysInTheWrongPlace) {
  const std::string key = "sk-live-0123456789abcdef0123456789abcdef0123456789abcdef01234567";
  for (const std::string& line : {"key: " + key, "key: [" + key + "]", "key: {" + key + ": x}",
                                  "key: {" + key + "}", "key_sha256: " + key, "key_sha256: [" + key + "]"}) {
    const auto app = parse_app(kAppHead + line + "\n", "a.yaml");
    ASSERT_FALSE(app) << line;
    EXPECT_THAT(app.error().message, testing::Not(HasSubstr("sk-live"))) << line;
    EXPECT_THAT(app.error().where, HasSubstr("a.yaml:3:")) << line;
  }
}

TEST_F(Manifests, KeysThatCannotBe) {
  const std::string file = (dir_ / "a.yaml").string();
  write("short", "abc");
  write("spaces", "correct horse battery");
  const auto refused = [&](const std::string& line, const char* message) {
    const auto app = parse_app(kAppHead + line + "\n", file);
    ASSERT_FALSE(app) << line;
    EXPECT_THAT(app.error().message, HasSubstr(message)) << line;
    EXPECT_THAT(app.error().where, HasSubstr("a.yaml:3:")) << line;
  };
  refused("key: {file: short}", "the key has 3 bytes, expected 8 to 512");
  refused("key: {file: spaces}", "cannot stand in an Authorization header");
  refused("key: {file: nothing}", "No such file");
  refused("key: {env: FLYBALL_NO_SUCH_VARIABLE}", "FLYBALL_NO_SUCH_VARIABLE is not set");
  refused("key: {env: POCL_CHAT}", "passes the environment variable POCL_CHAT on to its engines");
  refused("key: {credential: ../x}", "expected a name of letters");
  refused("key: {credential: ..}", "expected a name of letters");
  refused("key: {}", "exactly one of file, env and credential");
  refused("key: {file: a, env: B}", "exactly one of file, env and credential");
  refused("key: sk-secret", "key: expected a map");
  refused("key_sha256: zz", "has 2 bytes, expected 64");
  EXPECT_THAT(parse_app(kAppHead + "key_sha256: zz\n", file).error().message, EndsWith("expected 64"));
}

TEST(Manifest, MistakesAreNamedWithTheirPlace) {
  const auto refused = [&](const std::string& line, const char* message, const char* where) {
    const auto app = parse_app(kAppHead + line + "\n", "a.yaml");
    ASSERT_FALSE(app) << line;
    EXPECT_THAT(app.error().message, HasSubstr(message)) << line;
    EXPECT_EQ(app.error().where, where) << line;
  };
  refused("models: []", "models: expected at least 1 item", "a.yaml:3:9");
  refused("workload: {class: chta}", "did you mean \"chat\"?", "a.yaml:3:19");
  refused("workload: {conccurrency: 3}", "in workload; did you mean \"concurrency\"?", "a.yaml:3:12");
  refused("privacy: local", "expected local_only or any", "a.yaml:3:10");
  refused("workload: {modalities: [text, smell]}", "workload.modalities[1]: expected text, image or audio",
          "a.yaml:3:31");
  refused("limits: {in_flight: 0}", "0 is out of range", "a.yaml:3:21");
}

TEST_F(Manifests, TwoAppsOfOneIdOrKeyAreBothNamed) {
  const std::string key = "key_sha256: ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff\n";
  write("1.yaml", "schema: flyball.app/v1\napp: a\nunix_uid: 7\n" + key);
  write("2.yaml", "schema: flyball.app/v1\napp: a\n");
  write("3.yaml", "schema: flyball.app/v1\napp: c\nunix_uid: 7\n" + key);
  const auto all = load_apps_all(dir_);
  ASSERT_FALSE(all);
  ASSERT_EQ(all.error().size(), 3U);
  EXPECT_THAT(all.error()[0].message,
              testing::AllOf(HasSubstr("1.yaml"), HasSubstr("2.yaml"), HasSubstr("the same app \"a\"")));
  EXPECT_THAT(all.error()[1].message,
              testing::AllOf(HasSubstr("1.yaml"), HasSubstr("3.yaml"), HasSubstr("the same key")));
  EXPECT_THAT(all.error()[2].message,
              testing::AllOf(HasSubstr("1.yaml"), HasSubstr("3.yaml"), HasSubstr("unix_uid 7")));
  EXPECT_THAT(all.error()[1].message, testing::Not(HasSubstr("ffff")));
  EXPECT_THAT(all.error()[0].where, testing::EndsWith("2.yaml:2:6"));
  EXPECT_THAT(all.error()[1].where, testing::EndsWith("3.yaml"));
  EXPECT_FALSE(load_apps(dir_));
}

TEST_F(Manifests, TwoFilesOfOneAppThatDifferInExtensionAloneAreBothNamed) {
  write("a.yaml", "schema: flyball.app/v1\napp: a\n");
  write("a.yml", "schema: flyball.app/v1\napp: a\n");
  const auto apps = load_apps(dir_);
  ASSERT_FALSE(apps);
  EXPECT_EQ(apps.error().message,
            (dir_ / "a.yaml").string() + " and " + (dir_ / "a.yml").string() + " declare the same app \"a\"");
}

TEST_F(Manifests, FolderInNameOrder) {
  write("b.yaml", "schema: flyball.app/v1\napp: b\n");
  write("a.yaml", "schema: flyball.app/v1\napp: a\n");
  write("notes.md", "x");
  const auto apps = load_apps(dir_);
  ASSERT_TRUE(apps) << apps.error().message;
  ASSERT_EQ(apps->size(), 2U);
  EXPECT_EQ((*apps)[0].id, "a");
  EXPECT_EQ(load_apps(dir_ / "nothing").error().code, ErrorCode::config_invalid);
}

TEST(Manifest, CrossCheckWithTheConfiguration) {
  auto config = parse_config(default_config_yaml(), "config.yaml");
  ASSERT_TRUE(config);
  config->default_app = "exampel";
  const auto app = parse_app("schema: flyball.app/v1\napp: example\nmodels: [demo, dmeo]\n", "example.yaml");
  ASSERT_TRUE(app);
  const auto findings = cross_check(*config, {*app});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].where, "example.yaml:3:16");
  EXPECT_THAT(findings[0].message, HasSubstr("did you mean \"demo\"?"));
  EXPECT_THAT(findings[1].message, HasSubstr("did you mean \"example\"?"));
  EXPECT_EQ(findings[1].where, config->place("default_app"));
  EXPECT_THAT(findings[1].where, HasSubstr("config.yaml:"));
}

TEST(Manifest, TheOperatorsKeyIsNoApps) {
  const std::string digest(64, 'a');
  auto config = parse_config(std::string(default_config_yaml()) + "operator: {key_sha256: " + digest + "}\n",
                             "config.yaml");
  ASSERT_TRUE(config) << config.error().message;
  config->default_app.clear();
  const auto same = parse_app("schema: flyball.app/v1\napp: a\nkey_sha256: " + digest + "\n", "a.yaml");
  const auto other =
      parse_app("schema: flyball.app/v1\napp: b\nkey_sha256: " + std::string(64, 'b') + "\n", "b.yaml");
  ASSERT_TRUE(same && other);
  const auto findings = cross_check(*config, {*other, *same});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].message,
              testing::AllOf(HasSubstr("config.yaml:"), HasSubstr("a.yaml"), HasSubstr("have the same key"),
                             testing::Not(HasSubstr("aaaa"))));
  EXPECT_THAT(findings[0].where, HasSubstr("config.yaml:"));
}

}  // namespace
}  // namespace flyball::config
