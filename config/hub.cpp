#include "config/hub.hpp"

#include <algorithm>
#include <cctype>

namespace flyball::config {
namespace {

bool matches_http_base(std::string_view s) {
  const auto scheme = s.starts_with("https://") ? 8U : s.starts_with("http://") ? 7U : 0U;
  return scheme != 0 && s.size() > scheme && s[scheme] != '/' && !s.ends_with('/') &&
         std::ranges::all_of(s, [](char c) {
           return c > 0x20 && c < 0x7F && c != '?' && c != '#' && c != '@' && c != '"' && c != '\\';
         });
}
const Form kHttpBase{"an address such as https://huggingface.co, without a slash at its end",
                     R"(^https?://[^\s/?#@"\\][^\s?#@"\\]*$)", &matches_http_base};

}  // namespace

const std::vector<Bound<Hub>>& hub_table() {
  static const std::vector<Bound<Hub>> table = {
      {{"url", text(1, 1024, kHttpBase), "base of a server that speaks the Hugging Face file API"},
       [](Hub& h, const Node& n) { h.url = n.text; }},
      {{"token", key_source(), "where its access token is read from; one of file, env and credential"},
       [](Hub&, const Node&) {}},  // as_key_source: it may fail
  };
  return table;
}

}  // namespace flyball::config
