// The YAML layer: what it takes, what it refuses, and that every refusal says where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "config/units.hpp"
#include "config/yaml.hpp"

namespace flyball::config {
namespace {

using testing::HasSubstr;

TEST(Yaml, TreeWithPlaces) {
  const auto root = parse_yaml("a: 1\nb:\n  - x\n  - \"y z\"\nc: {d: }\n", "f.yaml");
  ASSERT_TRUE(root) << root.error().message;
  ASSERT_EQ(root->kind, Node::Kind::map);
  EXPECT_EQ(root->find("a")->text, "1");
  EXPECT_FALSE(root->find("a")->quoted);
  const Node* b = root->find("b");
  ASSERT_EQ(b->items.size(), 2U);
  EXPECT_TRUE(b->items[1].quoted);
  EXPECT_EQ(b->items[1].at.where(), "f.yaml:4:5");
  EXPECT_EQ(root->find("c")->find("d")->kind, Node::Kind::null);
  EXPECT_EQ(root->find("c")->find("d")->at.where(), "f.yaml:5:5");
  EXPECT_EQ(root->find("e"), nullptr);
}

struct Refusal {
  const char* name;
  std::string text;
  const char* message;
  const char* where;
};
void PrintTo(const Refusal& one, std::ostream* out) {
  *out << one.name;
}
class YamlRefusals : public testing::TestWithParam<Refusal> {};

TEST_P(YamlRefusals, NamesThePlace) {
  const auto root = parse_yaml(GetParam().text, "f.yaml");
  ASSERT_FALSE(root);
  EXPECT_EQ(root.error().code, ErrorCode::config_invalid);
  EXPECT_THAT(root.error().message, HasSubstr(GetParam().message));
  EXPECT_EQ(root.error().where, GetParam().where);
}

std::string repeated(const std::string& part, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += part;
  return out;
}

std::string many_lines(std::size_t n) {
  std::string out = "a:\n";
  for (std::size_t i = 0; i < n; ++i) out += "- b\n";
  return out;
}

INSTANTIATE_TEST_SUITE_P(
    Table, YamlRefusals,
    testing::Values(
        Refusal{"duplicate_key", "a: 1\nb: 2\na: 3\n", "duplicate key \"a\"", "f.yaml:3:1"},
        Refusal{"duplicate_key_in_flow", "x: {k: 1, k: 2}\n", "duplicate key \"k\"", "f.yaml:1:11"},
        Refusal{"alias", "a: &x 1\nb: *x\n", "anchors are not allowed", "f.yaml:1:4"},
        Refusal{"alias_alone", "b: *x\n", "not valid YAML", "f.yaml:1:4"},
        Refusal{"tag", "a: !!int 3\n", "tags are not allowed", "f.yaml:1:4"},
        Refusal{"key_is_a_list", "? [a]\n: 1\n", "a key must be plain text", "f.yaml:1:3"},
        Refusal{"null_key", "~: 1\n", "a key must be plain text", "f.yaml:1:1"},
        Refusal{"two_documents", "a: 1\n---\nb: 2\n", "more than one YAML document", "f.yaml:1:1"},
        Refusal{"broken", "a: [1, 2\nb: 3\n", "not valid YAML", "f.yaml:2:2"},
        Refusal{"tab_indent", "a:\n\tb: 1\n", "not valid YAML", "f.yaml:2:3"},
        Refusal{"control_character", std::string("a: \x01\n"), "control character 1", "f.yaml:1:4"},
        Refusal{"nul", std::string("a: \0b\n", 6), "control character 0", "f.yaml:1:4"},
        Refusal{"bad_utf8", "a: \xC3(\n", "not valid UTF-8", "f.yaml:1:4"},
        Refusal{"overlong_utf8", "a: \xE0\x80\xAF\n", "not valid UTF-8", "f.yaml:1:4"},
        Refusal{"surrogate", "a: \xED\xA0\x80\n", "not valid UTF-8", "f.yaml:1:4"},
        Refusal{"too_deep", repeated("[", 40) + repeated("]", 40), "nested deeper than 32", "f.yaml:1:33"},
        Refusal{"too_long_a_line", "a: " + std::string(5000, 'x') + "\n", "limit of 4096 bytes",
                "f.yaml:1:4097"},
        Refusal{"too_long_a_value", "a: |\n" + repeated("  " + std::string(90, 'y') + "\n", 200),
                "limit of 16384", "f.yaml:1:4"},
        Refusal{"too_many_nodes", many_lines(50'001), "more than 50000", "f.yaml:49999:3"},
        Refusal{"too_large", std::string((1 << 20) + 1, '\n'), "limit is 1048576", "f.yaml"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Yaml, HostileFilesEndSoon) {
  // Shapes that yaml-cpp scans slowly, at the largest size that reaches it.
  const std::vector<std::string> texts = {
      std::string(kMaxYamlLineBytes - 1, '['),
      repeated(std::string(4000, '{') + "\n", 200),
      repeated("a: " + std::string(4000, 'x') + "\n", 200),
      "a: \"" + repeated(std::string(4000, 'x') + "\n ", 200) + "\"",
      repeated("- ", 2000),
      repeated("? ", 2000),
  };
  for (const std::string& text : texts) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_FALSE(parse_yaml(text, "f.yaml"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << text.substr(0, 10);
  }
}

TEST(Yaml, DropInsMergeByKey) {
  auto base = parse_yaml("a: 1\nm: {x: 1, y: [1, 2]}\n", "base.yaml");
  auto over = parse_yaml("m: {y: [3], z: 4}\nb: 2\n", "over.yaml");
  ASSERT_TRUE(base && over);
  merge(*base, std::move(*over));
  EXPECT_EQ(base->find("a")->text, "1");
  EXPECT_EQ(base->find("b")->text, "2");
  const Node* m = base->find("m");
  EXPECT_EQ(m->find("x")->text, "1");
  EXPECT_EQ(m->find("y")->items.size(), 1U);
  EXPECT_EQ(m->find("y")->at.where(), "over.yaml:1:8");
  EXPECT_EQ(m->find("z")->text, "4");
}

TEST(Yaml, FilesThatCannotBeRead) {
  EXPECT_EQ(read_text_file("/nonexistent/x").error().code, ErrorCode::io_error);
  EXPECT_EQ(read_text_file("/nonexistent/x").error().message, "cannot be read: No such file or directory");
  EXPECT_EQ(read_text_file("/nonexistent/x").error().where, "/nonexistent/x");
  EXPECT_EQ(read_operators_file("/nonexistent/x").error().code, ErrorCode::config_invalid);
  EXPECT_THAT(read_text_file("/tmp").error().message, HasSubstr("not a regular file"));
  EXPECT_EQ(read_text_file("/proc/self/exe", 100).error().code, ErrorCode::config_invalid);
}

TEST(Units, Durations) {
  using namespace std::chrono_literals;
  EXPECT_EQ(parse_duration("500ms"), 500ms);
  EXPECT_EQ(parse_duration("30s"), 30s);
  EXPECT_EQ(parse_duration("5m"), 5min);
  EXPECT_EQ(parse_duration("2h"), 2h);
  EXPECT_EQ(parse_duration("0s"), 0s);
  for (const char* bad :
       {"", "30", "s", "-1s", "1.5s", "30 s", "1d", "99999999999999999999s", "9223372036854775807h", "30sx"})
    EXPECT_FALSE(parse_duration(bad)) << bad;
  EXPECT_EQ(format_duration(90s), "90s");
  EXPECT_EQ(format_duration(1500ms), "1500ms");
  EXPECT_EQ(format_duration(0ms), "0ms");
}

TEST(Units, Sizes) {
  EXPECT_EQ(parse_size("6GiB")->bytes, 6ULL << 30);
  EXPECT_EQ(parse_size("64KiB")->bytes, 65536U);
  EXPECT_EQ(parse_size("512B")->bytes, 512U);
  EXPECT_EQ(parse_size("80%")->percent, 80U);
  for (const char* bad : {"", "6", "GiB", "6GB", "6 GiB", "-1B", "0%", "101%", "18446744073709551615TiB"})
    EXPECT_FALSE(parse_size(bad)) << bad;
  EXPECT_EQ(format_bytes(65536), "64KiB");
  EXPECT_EQ(format_bytes(1000), "1000B");
}

TEST(Units, ClosestName) {
  const std::vector<std::string_view> names = {"context", "threads", "aliases", "path"};
  EXPECT_EQ(closest("contxt", names), "context");
  EXPECT_EQ(closest("thraeds", names), "threads");  // a swap is one edit
  EXPECT_EQ(closest("pth", names), "path");
  EXPECT_FALSE(closest("listeners", names));
  EXPECT_FALSE(closest("", names));
  EXPECT_FALSE(closest(std::string(5000, 'x'), names));
}

}  // namespace
}  // namespace flyball::config
