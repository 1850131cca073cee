// Tokenizes for the oracle test: flyball_tokenize FILE [--parse-special] reads a JSON array of base64 strings
// from standard input and prints a JSON array of token id arrays. With --describe it prints what it read of
// the file instead; with --repeat N it tokenizes N times and prints the load time and speed on standard
// error.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/model/gguf.hpp"
#include "backends/model/mapped_file.hpp"
#include "backends/text/tokenizer.hpp"

namespace {

using flyball::text::Tokenizer;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

[[noreturn]] void die(const std::string& what) {
  std::cerr << "flyball_tokenize: " << what << '\n';
  std::exit(1);
}

std::string from_base64(const std::string& text) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const std::size_t digit = kAlphabet.find(c);
    if (digit == std::string_view::npos) die("not base64: " + text);
    bits = bits << 6U | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> static_cast<unsigned>(count) & 0xFFU);
    }
  }
  return out;
}

nlohmann::json describe(const Tokenizer& tokenizer) {
  nlohmann::json specials = nlohmann::json::array();
  nlohmann::json ends = nlohmann::json::array();
  for (std::uint32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const auto token = static_cast<flyball::Token>(id);
    const auto kind = tokenizer.kind(token);
    if (tokenizer.is_end_of_generation(token)) ends.push_back(token);
    if (kind == flyball::text::TokenKind::control || kind == flyball::text::TokenKind::user_defined) {
      specials.push_back(std::string(tokenizer.piece(token)));
    }
  }
  return {{"vocab_size", tokenizer.vocab_size()}, {"end_of_generation", ends}, {"specials", specials}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) die("usage: flyball_tokenize FILE [--parse-special] [--describe] [--repeat N]");
  Tokenizer::EncodeOptions options{.add_special = false, .parse_special = false};
  bool only_describe = false;
  int repeat = 0;
  for (int i = 2; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--parse-special") options.parse_special = true;
    if (argument == "--describe") only_describe = true;
    if (argument == "--repeat" && i + 1 < argc) repeat = std::atoi(argv[i + 1]);
  }
  auto file = flyball::model::MappedFile::open(argv[1]);
  if (!file) die(file.error().message);
  auto gguf = flyball::model::Gguf::parse(file->bytes());
  if (!gguf) die(gguf.error().message);
  const auto load_start = Clock::now();
  auto tokenizer = Tokenizer::load(*gguf);
  if (!tokenizer) die(tokenizer.error().message);
  const double load_seconds = seconds_since(load_start);
  if (only_describe) {
    std::cout << describe(**tokenizer).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    return 0;
  }

  const std::string input{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  const auto parsed = nlohmann::json::parse(input, nullptr, false);
  if (!parsed.is_array()) die("standard input is not a JSON array");
  std::vector<std::string> texts;
  std::size_t bytes = 0;
  for (const auto& each : parsed) {
    texts.push_back(from_base64(each.get<std::string>()));
    bytes += texts.back().size();
  }
  nlohmann::json out = nlohmann::json::array();
  for (const std::string& text : texts) out.push_back((*tokenizer)->encode(text, options));
  std::cout << out.dump() << '\n';
  if (repeat > 0) {
    std::size_t tokens = 0;
    const auto start = Clock::now();
    for (int i = 0; i < repeat; ++i) {
      for (const std::string& text : texts) tokens += (*tokenizer)->encode(text, options).size();
    }
    const double seconds = seconds_since(start);
    std::fprintf(stderr, "load %.1f ms, encode %.2f MB/s (%zu tokens)\n", load_seconds * 1e3,
                 static_cast<double>(bytes) * repeat / 1e6 / seconds, tokens);
  }
  return 0;
}
