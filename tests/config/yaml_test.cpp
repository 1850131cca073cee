// The YAML layer: what it takes, what it refuses, and that every refusal says where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pwd.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "config/units.hpp"
#include "config/yaml.hpp"
#include "tests/harness/cpu_time.hpp"
#include "tests/harness/temp_dir.hpp"

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
        Refusal{"tag", "a: !!int 3\n", "tags are not allowed", "f.yaml:1:4"},
        Refusal{"key_is_a_list", "? [a]\n: 1\n", "a key must be plain text", "f.yaml:1:3"},
        Refusal{"null_key", "~: 1\n", "a key must be plain text", "f.yaml:1:1"},
        Refusal{"two_documents", "a: 1\n---\nb: 2\n",
                "more than one YAML document in the file: remove the line ---", "f.yaml:2:1"},
        Refusal{"control_character", std::string("a: \x01\n"), "control character 1: remove it",
                "f.yaml:1:4"},
        Refusal{"nul", std::string("a: \0b\n", 6), "control character 0", "f.yaml:1:4"},
        Refusal{"bad_utf8", "a: \xC3(\n", "not valid UTF-8 (byte 195): save the file as UTF-8", "f.yaml:1:4"},
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

class YamlMistakes : public testing::TestWithParam<Refusal> {};

TEST_P(YamlMistakes, NamesTheCauseAndTheRemedy) {
  const auto root = parse_yaml(GetParam().text, "f.yaml");
  ASSERT_FALSE(root);
  EXPECT_EQ(root.error().code, ErrorCode::config_invalid);
  EXPECT_EQ(root.error().message, GetParam().message);
  EXPECT_EQ(root.error().where, GetParam().where);
}

constexpr const char* kTab = "a tab in the indentation: indent with spaces";
constexpr const char* kListOpen =
    "the list that begins here lacks its closing ] or a comma between two items";
constexpr const char* kMapOpen =
    "the map that begins here lacks its closing } or a comma between two entries";
constexpr const char* kAlias = "aliases are not allowed: put a text that begins with * in quotes";
constexpr const char* kAnchor = "anchors are not allowed: put a text that begins with & in quotes";
constexpr const char* kTag = "tags are not allowed: put a text that begins with ! in quotes";
constexpr const char* kMisaligned =
    "bad indentation: a line with 2 spaces before it continues no map above: align it with the keys of its "
    "map";
constexpr const char* kBehindQuote =
    "unexpected text after the closing quote: put the whole value in quotes, and write a quote inside it as "
    "'' in "
    "single quotes or \\\" in double quotes";
constexpr const char* kUtf16 = "the file is written in UTF-16 or UTF-32: save it as UTF-8";

INSTANTIATE_TEST_SUITE_P(
    Table, YamlMistakes,
    testing::Values(
        Refusal{"tab_before_a_key", "a:\n\tb: 1\n", kTab, "f.yaml:2:1"},
        Refusal{"tab_after_spaces", "a:\n  b:\n  \tc: 1\n", kTab, "f.yaml:3:3"},
        Refusal{"tab_before_a_next_key", "a:\n  b: 1\n\tc: 2\n", kTab, "f.yaml:3:1"},
        Refusal{"tab_before_an_item", "a:\r\n\t- x\r\n", kTab, "f.yaml:2:1"},
        Refusal{"tab_in_a_block", "a: |\n\tx\n", kTab, "f.yaml:2:1"},
        Refusal{"colon_without_space", "m:\n  a:1\n  b: 2\n", "a space is missing after the colon in \"a:1\"",
                "f.yaml:2:4"},
        Refusal{"colon_without_space_in_an_item", "m:\n  - a:1\n    b: 2\n",
                "a space is missing after the colon in \"a:1\"", "f.yaml:2:6"},
        Refusal{"key_without_colon", "m:\n  a 1\n  b: 2\n", "expected a key with a colon, got \"a 1\"",
                "f.yaml:2:3"},
        Refusal{"key_without_colon_before_its_map", "models\n  demo: {a: 1}\n",
                "expected a key with a colon, got \"models\"", "f.yaml:1:1"},
        Refusal{"two_colons", "a: b: c\n", "a second colon and space in one line: put the value in quotes",
                "f.yaml:1:5"},
        Refusal{"quote_open", "b: 0\na: \"x\nc: 1\n", "the quote \" that begins here is not closed",
                "f.yaml:2:4"},
        Refusal{"quote_open_after_a_doubled_one", "a: 'it''s\n", "the quote ' that begins here is not closed",
                "f.yaml:1:4"},
        Refusal{"quote_open_behind_a_byte_order_mark",
                "\xEF\xBB\xBF"
                "a: \"\\\"\n",
                "the quote \" that begins here is not closed", "f.yaml:1:4"},
        Refusal{"quote_open_at_the_end", "a: \"x", "the file ends inside a quoted text: close the quote",
                "f.yaml:1:6"},
        Refusal{"quote_open_before_a_document", "a: 'x\n---\nb: 1\n",
                "a document marker inside a quoted text: close the quote before it", "f.yaml:2:1"},
        Refusal{"text_after_a_quote", "a: 'it's'\n", kBehindQuote, "f.yaml:1:8"},
        Refusal{"text_after_a_bracket", "a: [1] 2\n",
                "unexpected text after the closing ]: put a comma inside the brackets, or the whole value in "
                "quotes",
                "f.yaml:1:8"},
        Refusal{"comma_first", "a: ,b\n", "unexpected text: put the value in quotes", "f.yaml:1:4"},
        Refusal{"list_open", "a: [1, 2\nb: 3\n", kListOpen, "f.yaml:1:4"},
        Refusal{"inner_list_open", "a: [1, [2, 3]\n", kListOpen, "f.yaml:1:4"},
        Refusal{"map_open", "a:\n  b: {c: 1\nd: 2\n", kMapOpen, "f.yaml:2:6"},
        Refusal{"bracket_never_opened", "a: 1\nb: ]\n",
                "this ] closes no bracket: put a text that contains it in quotes", "f.yaml:2:4"},
        Refusal{"other_bracket", "a: [1, 2}\n",
                "this } closes no bracket: put a text that contains it in quotes", "f.yaml:1:9"},
        Refusal{"indented_less", "a:\n   b: 1\n  c: 2\n", kMisaligned, "f.yaml:3:3"},
        Refusal{"indented_more", "a: 1\n  b: 2\n", kMisaligned, "f.yaml:2:3"},
        Refusal{"indented_more_behind_a_quote", "a: \"x\"\n  b: 1\n", kMisaligned, "f.yaml:2:3"},
        Refusal{"indented_less_at_the_top", "  a: 1\n b: 2\n",
                "bad indentation: a line with 1 space before it continues no map above: align it with the "
                "keys of "
                "its map",
                "f.yaml:2:2"},
        Refusal{
            "item_among_keys", "a: 1\n- b\n",
            "bad indentation: a list item with 0 spaces before it continues no list above: align it with the "
            "items of its list, or indent it below its key",
            "f.yaml:2:1"},
        Refusal{"item_behind_its_key", "a: - b\n",
                "a list item cannot follow other text on its line: begin a new line, or write the list in "
                "[brackets]",
                "f.yaml:1:4"},
        Refusal{"star", "b: *x\n", kAlias, "f.yaml:1:4"},
        Refusal{"star_alone", "b: *\n", kAlias, "f.yaml:1:4"},
        Refusal{"star_first", "*b: 1\n", kAlias, "f.yaml:1:1"},
        Refusal{"ampersand", "b: &x y\n", kAnchor, "f.yaml:1:4"},
        Refusal{"ampersand_alone", "b: & x\n", kAnchor, "f.yaml:1:4"},
        Refusal{"exclamation", "b: !x y\n", kTag, "f.yaml:1:4"},
        Refusal{"exclamation_open", "b: !<x\n", kTag, "f.yaml:1:4"},
        Refusal{"percent", "b: %x\n", "a plain text cannot begin with %: put it in quotes", "f.yaml:1:4"},
        Refusal{"at", "b: [@x]\n", "a plain text cannot begin with @: put it in quotes", "f.yaml:1:5"},
        Refusal{"backtick", "b: `x`\n", "a plain text cannot begin with `: put it in quotes", "f.yaml:1:4"},
        Refusal{"question_mark", "b: ? c\n", "a plain text cannot begin with ? and a space: put it in quotes",
                "f.yaml:1:4"},
        Refusal{"text_behind_a_block", "b: > c\n",
                "the text after > belongs on the lines below, or into quotes", "f.yaml:1:4"},
        Refusal{"unknown_escape", "b: \"\\q\"\n",
                "unknown escape after \\ in double quotes: write \\\\ for a backslash, or use single quotes",
                "f.yaml:1:5"},
        Refusal{
            "windows_path", "b: \"C:\\Users\"\n",
            "too few hexadecimal digits after \\ in double quotes: write \\\\ for a backslash, or use single "
            "quotes",
            "f.yaml:1:7"},
        Refusal{"utf16_with_a_mark",
                std::string("\xFF\xFE"
                            "a\0",
                            4),
                kUtf16, "f.yaml:1:1"},
        Refusal{"utf16_big_endian", std::string("\xFE\xFF\0a", 4), kUtf16, "f.yaml:1:1"},
        Refusal{"utf16_without_a_mark", std::string("a\0:\0", 4), kUtf16, "f.yaml:1:1"},
        Refusal{"byte_order_mark_inside",
                "a: 1\n\xEF\xBB\xBF"
                "b: 2\n",
                "a byte-order mark at the beginning of a line: remove it (files that were joined leave it)",
                "f.yaml:2:1"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Yaml, AByteOrderMarkAtTheBeginningIsNoPartOfTheFirstKey) {
  const auto root = parse_yaml(
      "\xEF\xBB\xBF"
      "a: \"x\"\n",
      "f.yaml");
  ASSERT_TRUE(root) << root.error().message;
  EXPECT_EQ(root->find("a")->text, "x");
}

TEST(Yaml, HostileFilesEndSoon) {
  // Shapes that yaml-cpp scans slowly, at the largest size that reaches it.
  const std::vector<std::string> texts = {
      std::string(kMaxYamlLineBytes - 1, '['),
      repeated(std::string(4000, '{') + "\n", 200),
      repeated("a: " + std::string(4000, 'x') + "\n", 200),
      "a: \"" + repeated(std::string(4000, 'x') + "\n ", 200) + "\"",
      repeated("- ", 2000),
      repeated("? ", 2000),
      "a" + std::string(kMaxYamlBytes - 10, '\n') + "b: 1\n",
      "a: !<" + std::string(kMaxYamlBytes - 10, '\n'),
  };
  for (const std::string& text : texts) {
    const auto start = test::cpu_time();
    EXPECT_FALSE(parse_yaml(text, "f.yaml"));
    EXPECT_LT(test::cpu_time() - start, std::chrono::seconds(10)) << text.substr(0, 10);
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
  EXPECT_EQ(read_text_file("/tmp").error().message, "cannot be read: it is a directory: name a file in it");
  EXPECT_EQ(read_text_file("/dev/null").error().message, "cannot be read: not a regular file");
  EXPECT_EQ(read_text_file("/proc/self/exe", 100).error().code, ErrorCode::config_invalid);
}

// Runs `act` with the rights of an ordinary user, and returns its result.
template <class Act>
auto as_any_user(Act act) {
  const bool root = ::geteuid() == 0;  // a file's mode does not bind root
  EXPECT_TRUE(!root || ::seteuid(65534) == 0);
  auto out = act();
  EXPECT_TRUE(!root || ::seteuid(0) == 0);
  return out;
}

TEST(Yaml, AFileOfAnotherUserIsToldWithBothUsers) {
  const test::TempDir folder;
  namespace fs = std::filesystem;
  fs::permissions(folder.path(), fs::perms::all);
  const fs::path file = folder.path() / "config.yaml", inner = folder.path() / "inner";
  std::ofstream(file) << "a: 1\n";
  fs::create_directory(inner);
  std::ofstream(inner / "config.yaml") << "a: 1\n";
  fs::permissions(file, fs::perms::none);
  fs::permissions(inner, fs::perms::none);
  const passwd* const owner = ::getpwuid(::geteuid());
  ASSERT_NE(owner, nullptr);
  const std::string name = owner->pw_name;
  const std::string reader = ::geteuid() == 0 ? ::getpwuid(65534)->pw_name : name;
  const auto remedy = [&](const fs::path& path) {
    return reader == name ? " although it is that user's own: chmod u+rX " + path.string()
                          : ", which belongs to user " + name + ": run the command as user " + name +
                                ", or give the other user the right to";
  };
  EXPECT_EQ(as_any_user([&] { return read_text_file(file).error().message; }),
            "cannot be read: user " + reader + " may not read it" + remedy(file));
  EXPECT_EQ(as_any_user([&] { return read_text_file(inner / "config.yaml").error().message; }),
            "cannot be read: user " + reader + " may not enter the directory " + inner.string() + remedy(inner));
  fs::permissions(inner, fs::perms::owner_all);
}

TEST(Units, Durations) {
  using namespace std::chrono_literals;
  EXPECT_EQ(parse_duration("500ms"), 500ms);
  EXPECT_EQ(parse_duration("30s"), 30s);
  EXPECT_EQ(parse_duration("5m"), 5min);
  EXPECT_EQ(parse_duration("2h"), 2h);
  EXPECT_EQ(parse_duration("0s"), 0s);
  for (const char* bad : {"", "30", "s", "-1s", "1.5s", "30 s", "1d", "99999999999999999999s",
                          "9223372036854775807h", "30sx", "010s"})
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
  for (const char* bad :
       {"", "6", "GiB", "6GB", "6 GiB", "-1B", "0%", "101%", "18446744073709551615TiB", "010MiB"})
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
