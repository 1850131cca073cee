#include "daemon/hub/url.hpp"
#include "config/percent.hpp"

#include <gtest/gtest.h>

namespace flyball::hub {
namespace {

Url url_of(std::string_view text) {
  auto url = parse_url(text);
  EXPECT_TRUE(url.has_value()) << text;
  return url.value_or(Url{});
}

TEST(HubUrl, PartsAreReadAndWrittenBack) {
  const Url url = url_of("HTTPS://Example.ORG:8443/a/./b/../c%20d?x=1&y=/../#part");
  EXPECT_TRUE(url.tls);
  EXPECT_EQ(url.host, "example.org");
  EXPECT_EQ(url.port, 8443);
  EXPECT_EQ(url.target, "/a/c%20d?x=1&y=/../");
  EXPECT_EQ(url.origin(), "https://example.org:8443");
  EXPECT_EQ(url.shown(), "https://example.org:8443/a/c%20d");
  EXPECT_EQ(url_of("https://hub.example").target, "/");
  EXPECT_EQ(url_of("https://hub.example:443/x/").origin(), "https://hub.example");
  EXPECT_EQ(url_of("https://hub.example/x/").target, "/x/");
  EXPECT_EQ(url_of("https://hub.example?q=1").target, "/?q=1");
  EXPECT_EQ(url_of("http://[::1]:80/x").authority(), "[::1]");
  EXPECT_EQ(url_of("http://[::1]:81/x").authority(), "[::1]:81");
  EXPECT_EQ(url_of("http://h/../../etc/passwd").target, "/etc/passwd");
}

TEST(HubUrl, HostileAddressesAreRefused) {
  for (const std::string_view text : {"",
                                      "hub.example/x",
                                      "ftp://hub.example/x",
                                      "file:///etc/passwd",
                                      "https://",
                                      "https:///x",
                                      "https://user@hub.example/x",
                                      "https://user:word@hub.example/x",
                                      "https://hub.example:0/x",
                                      "https://hub.example:65536/x",
                                      "https://hub.example:8a/x",
                                      "https://hub.example/a b",
                                      "https://hub.example/a\r\nHost: other",
                                      "https://hub.example/\x01",
                                      "https://h\xc3\xa4/x",
                                      "https://hub.example\\@other/x",
                                      "https://[::1/x",
                                      "https://[::1]x/",
                                      "https://[host]/",
                                      "https://a%00b/x"})
    EXPECT_FALSE(parse_url(text).has_value()) << text;
  EXPECT_FALSE(parse_url("https://h/" + std::string(kMaxUrlBytes, 'x')).has_value());
}

TEST(HubUrl, RedirectsAreJoinedWithTheAddressTheyComeFrom) {
  const Url from = url_of("https://hub.example:8443/org/repo/resolve/main/f.gguf?download=true");
  const auto to = [&](std::string_view location) {
    const auto url = redirected(from, location);
    return url ? url->origin() + url->target : "refused";
  };
  EXPECT_EQ(to("https://cdn.example/x?sig=%2F"), "https://cdn.example/x?sig=%2F");
  EXPECT_EQ(to("//cdn.example/x"), "https://cdn.example/x");
  EXPECT_EQ(to("/api/x"), "https://hub.example:8443/api/x");
  EXPECT_EQ(to("/api?to=https://other/"), "https://hub.example:8443/api?to=https://other/");
  EXPECT_EQ(to("g.gguf"), "https://hub.example:8443/org/repo/resolve/main/g.gguf");
  EXPECT_EQ(to("../other/g.gguf"), "https://hub.example:8443/org/repo/resolve/other/g.gguf");
  EXPECT_EQ(to("?x=1"), "https://hub.example:8443/org/repo/resolve/main/f.gguf?x=1");
  for (const std::string_view location : {"", "http://hub.example:8443/x", "ftp://hub.example/x",
                                          "https://user@cdn.example/x", "https://cdn.example/a b"})
    EXPECT_EQ(to(location), "refused") << location;
  const auto upward = redirected(url_of("http://hub.example/x"), "https://hub.example/x");
  EXPECT_TRUE(upward && upward->tls);
}

TEST(HubUrl, AnOriginIsSchemeHostAndPort) {
  const Url hub = url_of("https://hub.example/x");
  EXPECT_TRUE(same_origin(hub, url_of("https://HUB.example:443/y")));
  for (const std::string_view other : {"http://hub.example:443/x", "https://hub.example:8443/x",
                                       "https://a.hub.example/x", "https://hub.example.org/x"})
    EXPECT_FALSE(same_origin(hub, url_of(other))) << other;
}

TEST(HubUrl, AddressesInMessagesHoldNoSecrets) {
  EXPECT_EQ(without_secrets("https://h/a?key=secret"), "https://h/a");
  EXPECT_EQ(without_secrets("https://me:secret@h:1/a@b#x"), "https://...@h:1/a@b");
  EXPECT_EQ(without_secrets("me:secret@h/a"), "...@h/a");
  EXPECT_EQ(without_secrets("org/repo:Q8_0"), "org/repo:Q8_0");
  for (const std::string_view text : {"https://me:secret@h/a", "ftp://h/a?secret", "https://h:0/?secret"}) {
    const auto url = parse_url(text);
    ASSERT_FALSE(url.has_value()) << text;
    EXPECT_EQ(url.error().message.find("secret"), std::string::npos) << url.error().message;
  }
}

TEST(HubUrl, ThisMachineIsLoopback) {
  for (const std::string_view text :
       {"http://localhost:80", "http://127.0.0.1", "http://127.9.0.1:8", "http://[::1]"})
    EXPECT_TRUE(is_loopback(url_of(text))) << text;
  for (const std::string_view text :
       {"http://127.0.0.1.example", "http://localhost.example", "http://10.0.0.1"})
    EXPECT_FALSE(is_loopback(url_of(text))) << text;
}

TEST(HubUrl, NamesOfFilesStayInTheirFolder) {
  EXPECT_EQ(file_name_of(url_of("https://h/a/my%20model.gguf?x=/y")), "my model.gguf");
  for (const std::string_view text :
       {"https://h/", "https://h/a/", "https://h/a%2Fb", "https://h/%2e%2e", "https://h/a%00b",
        "https://h/a%0Ab", "https://h/a%5Cb", "https://h/a%zz"})
    EXPECT_EQ(file_name_of(url_of(text)), "") << text;
  EXPECT_FALSE(is_file_name(std::string(201, 'x')));
  EXPECT_FALSE(
      is_file_name("a\xc2\x9b"
                   "b"));
  EXPECT_EQ(percent_decoded(percent_encoded("a b/\xc3\xa4%+?#.gguf")), "a b/\xc3\xa4%+?#.gguf");
  EXPECT_EQ(percent_encoded("a b/c#d"), "a%20b/c%23d");
}

}  // namespace
}  // namespace flyball::hub
