// The HTTP client of commands: each failure names its cause and what the user can do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "config/descriptor.hpp"
#include "daemon/cli/http_client.hpp"
#include "tests/harness/temp_dir.hpp"

namespace flyball::cli {
namespace {

using flyball::test::TempDir;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::chrono::milliseconds kTimeout{20000};
constexpr const char* kNoDaemon = "the server there is no Flyball daemon: name the daemon's URL with --url";

Error failure(const std::string& url, std::chrono::milliseconds timeout = kTimeout) {
  const auto answer = http_get(url, "/metrics", "", timeout);
  EXPECT_FALSE(answer);
  return answer ? Error{} : answer.error();
}

// A TCP socket on a free port of 127.0.0.1; without `listening` connections to it are refused.
struct TcpSocket {
  Descriptor fd{::socket(AF_INET, SOCK_STREAM, 0)};
  std::string url;

  explicit TcpSocket(bool listening) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    if (listening) {
      EXPECT_EQ(::listen(fd.get(), 4), 0);
    }
    url = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
};

// The result of http_get at a server that reads the request, sends `answer` and closes the connection.
Error failure_after(const std::string& answer) {
  TcpSocket server(true);
  std::thread serving([&] {
    const Descriptor client(::accept(server.fd.get(), nullptr, nullptr));
    char request[4096];
    EXPECT_GT(::recv(client.get(), request, sizeof request, 0), 0);
    for (std::size_t sent = 0; sent < answer.size();) {
      const ssize_t n = ::send(client.get(), answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) break;
      sent += static_cast<std::size_t>(n);
    }
  });
  const Error error = failure(server.url);
  serving.join();
  EXPECT_THAT(error.message, HasSubstr(server.url));
  return error;
}

Descriptor unix_socket_at(const std::string& path) {
  Descriptor fd(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

TEST(HttpClient, ARefusedConnectionNamesTheDaemonAndTheOption) {
  const TcpSocket closed(false);
  const Error error = failure(closed.url);
  EXPECT_EQ(error.code, ErrorCode::upstream_refused);
  EXPECT_EQ(error.message,
            "no daemon answers at " + closed.url +
                " (Connection refused): start it with `flyball serve`, or name another URL with --url");
}

TEST(HttpClient, AServerThatNeverAnswersIsATimeout) {
  const TcpSocket silent(true);
  const Error error = failure(silent.url, std::chrono::milliseconds(50));
  EXPECT_EQ(error.code, ErrorCode::upstream_timeout);
  EXPECT_EQ(error.message,
            "no answer from " + silent.url + " within 50ms: the daemon is overloaded, or " + kNoDaemon);
}

TEST(HttpClient, AHostNameWithoutAnAddressIsNamed) {
  const Error error = failure("http://no-such-host.invalid:8080");
  EXPECT_EQ(error.code, ErrorCode::upstream_refused);
  EXPECT_THAT(
      error.message,
      AllOf(StartsWith("the host name \"no-such-host.invalid\" of http://no-such-host.invalid:8080 has "
                       "no address ("),
            HasSubstr("): correct the name, or give an address such as 127.0.0.1")));
}

TEST(HttpClient, AServerThatSpeaksNoHttpIsNoDaemon) {
  const Error other = failure_after("SSH-2.0-OpenSSH_9.2\r\n");
  EXPECT_EQ(other.code, ErrorCode::upstream_invalid);
  EXPECT_THAT(other.message,
              AllOf(HasSubstr(" does not answer in HTTP (bad version): "), HasSubstr(kNoDaemon)));
  const Error large = failure_after("HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n");
  EXPECT_EQ(large.code, ErrorCode::upstream_invalid);
  EXPECT_THAT(large.message, AllOf(HasSubstr(" is over the limit of 8MiB: "), HasSubstr(kNoDaemon)));
}

TEST(HttpClient, AConnectionClosedEarlyIsNamed) {
  for (const char* answer : {"", "HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nhalf"}) {
    const Error error = failure_after(answer);
    EXPECT_EQ(error.code, ErrorCode::upstream_invalid) << answer;
    EXPECT_THAT(error.message,
                AllOf(HasSubstr(" closed the connection before its answer was complete: the daemon "
                                "has just ended, or "),
                      HasSubstr(kNoDaemon)))
        << answer;
  }
}

TEST(HttpClient, EachFailureOfAUnixSocketHasItsCause) {
  const TempDir folder;
  const auto said = [&](const std::string& name) {
    const Error error = failure("unix:" + (folder.path() / name).string());
    EXPECT_EQ(error.code, ErrorCode::upstream_refused);
    return error.message;
  };
  const auto no_daemon_at = [&](const std::string& name) {
    return "no daemon answers at unix:" + (folder.path() / name).string();
  };
  constexpr const char* kRemedy = "; start it with `flyball serve`, or name another URL with --url";
  EXPECT_EQ(said("none.sock"), no_daemon_at("none.sock") + ": there is no such socket" + kRemedy);
  std::ofstream(folder.path() / "text") << "x";
  EXPECT_EQ(said("text"), no_daemon_at("text") + ": that file is no socket" + kRemedy);
  unix_socket_at(folder.path() / "left.sock");  // bound, and closed at once
  EXPECT_EQ(said("left.sock"),
            no_daemon_at("left.sock") + ": the daemon that made this socket has ended" + kRemedy);
  const Error too_long = failure("unix:/" + std::string(107, 'x'));
  EXPECT_EQ(too_long.code, ErrorCode::invalid_value);
  EXPECT_THAT(too_long.message, HasSubstr(" has 108 bytes, the limit is 107"));
}

TEST(HttpClient, AUnixSocketOfAnotherUserIsNamed) {
  const TempDir folder;
  const std::string path = (folder.path() / "own.sock").string();
  const Descriptor listening = unix_socket_at(path);
  ASSERT_EQ(::listen(listening.get(), 4), 0);
  std::filesystem::permissions(path, std::filesystem::perms::none);
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  const bool root = ::geteuid() == 0;  // root may connect everywhere
  if (root) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const Error error = failure("unix:" + path);
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_EQ(error.code, ErrorCode::upstream_refused);
  EXPECT_EQ(error.message,
            "this user may not connect to unix:" + path +
                ": run the command as the daemon's user, or as a member of the socket's group");
}

TEST(HttpClient, AnotherFormOfUrlIsRefused) {
  for (const char* url : {"ftp://x", "127.0.0.1:8080", "http://", "http://host:", "http://host:0",
                          "http://host:65536", "http://host:80a", "http://host/path"}) {
    const Error error = failure(url);
    EXPECT_EQ(error.code, ErrorCode::invalid_value) << url;
    EXPECT_EQ(error.message,
              "expected a URL such as http://127.0.0.1:8080 or unix:/run/flyball/flyball.sock, got \"" +
                  std::string(url) + "\"");
  }
}

}  // namespace
}  // namespace flyball::cli
