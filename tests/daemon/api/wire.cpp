#include "tests/daemon/api/wire.hpp"

#include <charconv>
#include <cstdlib>

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

namespace flyball::testing {

std::string Answer::field(std::string_view name) const {
  std::size_t at = head.find("\r\n");
  while (at != std::string::npos && at + 2 < head.size()) {
    const std::size_t begin = at + 2;
    at = head.find("\r\n", begin);
    const std::string line = head.substr(begin, at - begin);
    const auto colon = line.find(": ");
    if (colon != std::string::npos && http::equals_ignoring_case(line.substr(0, colon), name))
      return line.substr(colon + 2);
  }
  return {};
}

std::vector<Answer> parse_answers(std::string_view bytes, bool& whole) {
  std::vector<Answer> out;
  whole = false;
  while (!bytes.empty()) {
    const auto end = bytes.find("\r\n\r\n");
    if (end == std::string_view::npos || !bytes.starts_with("HTTP/1.1 ")) return out;
    Answer one;
    one.head = std::string(bytes.substr(0, end + 2));
    one.status = std::atoi(one.head.c_str() + 9);
    bytes.remove_prefix(end + 4);
    if (one.status == 100) continue;
    if (one.field("Transfer-Encoding") == "chunked") {
      for (;;) {
        const auto eol = bytes.find("\r\n");
        std::size_t size = 0;
        if (eol == std::string_view::npos ||
            std::from_chars(bytes.data(), bytes.data() + eol, size, 16).ptr != bytes.data() + eol ||
            bytes.size() < eol + 4 + size) {
          out.push_back(std::move(one));
          return out;
        }
        one.body += bytes.substr(eol + 2, size);
        bytes.remove_prefix(eol + 4 + size);
        if (size == 0) break;
      }
    } else {
      const auto length = static_cast<std::size_t>(std::atoll(one.field("Content-Length").c_str()));
      if (bytes.size() < length) return out;
      one.body = std::string(bytes.substr(0, length));
      bytes.remove_prefix(length);
    }
    out.push_back(std::move(one));
  }
  whole = true;
  return out;
}

Rig::Rig(std::shared_ptr<settings::Settings> with, policy::Facts hardware, store::Writer* store,
         api::Codecs codecs, api::ConstraintVerdicts::Compile compile, fleet::MemoryStatus memory)
    : settings(std::move(with)),
      fleet(io, std::move(memory)),
      service(io, settings, std::move(hardware), fleet, store, {}, nullptr, codecs, compile) {
  spdlog::set_level(spdlog::level::off);
}

Wire::Wire(Rig& rig, http::Peer peer)
    : rig_(rig),
      now_(std::chrono::steady_clock::now()),  // what a request took is told from here to a real now
      connection_(
          rig.settings->config.http, rig.service, std::move(peer), [this] { return now_; },
          [] { return kDate; }, [] {}) {}

void Wire::run() {
  for (;;) {
    rig_.io.restart();
    const auto handlers = rig_.io.poll();
    std::size_t moved = 0;
    if (reading_) {
      const auto out = connection_.output();
      received_ += out;
      moved = out.size();
      connection_.sent(moved);
    }
    if (handlers > 0 || moved > 0) continue;
    if (!rig_.waits_for_other_threads || rig_.service.off_loop() == 0) return;
    rig_.io.restart();
    rig_.io.run_one_for(std::chrono::milliseconds(100));  // until another thread posts
  }
}

void Wire::send(std::string_view bytes) {
  while (!bytes.empty() && connection_.wants_input()) {  // as a socket would: in pieces, while it is read
    const auto piece = bytes.substr(0, 16 * 1024);
    bytes.remove_prefix(piece.size());
    connection_.receive(piece);
    run();
  }
  run();
}

void Wire::advance(std::chrono::milliseconds by) {
  now_ += by;
  connection_.tick();
  run();
}

void Wire::hang_up() {
  connection_.receive_eof();
  run();
}

void Wire::start_reading() {
  reading_ = true;
  run();
}

std::vector<Answer> Wire::answers() const {
  bool whole = false;
  auto out = parse_answers(received_, whole);
  EXPECT_TRUE(whole) << received_.substr(0, 2000);
  return out;
}

Answer Wire::answer() const {
  auto all = answers();
  EXPECT_EQ(all.size(), 1U) << received_.substr(0, 2000);
  return all.empty() ? Answer{} : all.front();
}

std::string post(std::string_view path, std::string_view body, std::string_view key, std::string_view more) {
  std::string out =
      "POST " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
  if (!key.empty()) out += "Authorization: Bearer " + std::string(key) + "\r\n";
  out += more;
  out += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  return out.append(body);
}

std::string get(std::string_view path, std::string_view key) {
  std::string out = "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n";
  if (!key.empty()) out += "Authorization: Bearer " + std::string(key) + "\r\n";
  return out + "\r\n";
}

}  // namespace flyball::testing
