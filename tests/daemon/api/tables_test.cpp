// The documents that list what a table in the code lists: every row there, in the same words, and no other.
#include <array>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include "daemon/api/error_table.hpp"
#include "daemon/api/openai/errors.hpp"
#include "daemon/api/openai/field_table.hpp"
#include "daemon/api/service.hpp"
#include "daemon/api/table/codecs.hpp"
#include "tests/daemon/api/table_rows.hpp"

namespace flyball::api {
namespace {

std::string read_doc(const char* name) {
  std::ifstream in(std::string(FLYBALL_SOURCE_DIR) + "/docs/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::size_t rows_beginning(const std::string& text, std::string_view start) {
  std::size_t n = 0;
  for (std::size_t at = text.find(start); at != std::string::npos; at = text.find(start, at + 1)) ++n;
  return n;
}

TEST(docs, errors) {
  const std::string doc = read_doc("errors.md");
  for (const ErrorRow& row : error_table()) {
    const char* retry = row.retry == Retry::no ? "no" : row.retry == Retry::later ? "later" : "client's rule";
    const std::string line = "| `" + std::string(to_string(row.code)) + "` | " + std::to_string(row.status) +
                             " | " + std::string(openai::error_type(row.code)) + " | " + retry + " | " +
                             std::string(row.meaning) + " |\n";
    EXPECT_NE(doc.find(line), std::string::npos) << "docs/errors.md lacks:\n" << line;
  }
  EXPECT_EQ(rows_beginning(doc, "\n| `"), error_table().size());
}

TEST(docs, parameters) {
  using namespace openai;
  const std::string doc = read_doc("http-api.md");
  for (const Parameter& p : field_table().parameters()) {
    const char* where = p.endpoints == kBoth ? "both" : p.endpoints == kChat ? "chat" : "completions";
    const std::string line = row_of(p, where);
    EXPECT_NE(doc.find(line), std::string::npos) << "docs/http-api.md lacks:\n" << line;
  }
  EXPECT_EQ(rows_beginning(doc, "\n| `"),
            field_table().parameters().size() + field_table().groups().size() + routes(all_codecs()).size());
}

TEST(docs, fields) {
  using namespace openai;
  const std::string doc = read_doc("http-api.md");
  std::string lines;
  for (const FieldGroup& group : field_table().groups()) {
    const auto where = [&]() -> const char* {
      switch (group.endpoints) {
        case kEverywhere:
          return "all";
        case kBoth:
          return "both";
        case kChat:
          return "chat";
        case kCompletions:
          return "completions";
        case kCompletions | kTokenize:
          return "completions, tokenize";
        case kTokenize:
          return "tokenize";
        case kDetokenize:
          return "detokenize";
        default:
          return "explain";
      }
    };
    lines += row_of(group, where());
  }
  EXPECT_NE(doc.find(lines), std::string::npos) << "docs/http-api.md lacks:\n" << lines;
}

TEST(docs, routes) {
  const std::string doc = read_doc("http-api.md");
  for (const Route& route : routes(all_codecs())) {
    constexpr std::array kWhom{"open", "open; with a key: the operator, or an app", "the operator, or an app",
                               "the operator", "an app"};  // as Access
    const char* access = kWhom.at(static_cast<std::size_t>(route.access));
    const std::string path = std::string(route.path) + (route.takes_id() ? "{id}" : "");
    const std::string start = "| `" + std::string(route.method) + " " + path + "` | " + access + " |";
    EXPECT_NE(doc.find(start), std::string::npos) << "docs/http-api.md lacks:\n" << start;
  }
}

TEST(error_table, spelling_and_shape) {
  for (const ErrorRow& row : error_table()) {
    EXPECT_EQ(error_code_from(to_string(row.code)), row.code);
    EXPECT_NE(http::reason_phrase(row.status), "Unknown") << row.status;
  }
  EXPECT_EQ(
      openai::error_json({ErrorCode::invalid_value, "a \"b\"", "", {}}),
      R"({"error":{"message":"a \"b\"","type":"invalid_request_error","param":null,"code":"invalid_value"}})");
}

}  // namespace
}  // namespace flyball::api
