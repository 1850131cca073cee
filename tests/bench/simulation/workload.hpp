// The load of the routing simulation: recorded requests of real services, thinned to a share of their rate.
// Chat is Mooncake's conversation trace, code and batch are Azure's traces of 2023.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "config/app_manifest.hpp"

namespace flyball::simulation {

// The traces' apps, as places in trace_apps().
struct AppId {
  static constexpr std::size_t chat = 0, code = 1, batch = 2;
};
// Their manifests declare class, objective and the medians of their traces' lengths.
std::span<const config::AppManifest> trace_apps();

inline constexpr std::uint32_t kPromptBlock = 512;      // prompt tokens behind one of Mooncake's hash ids
inline constexpr std::uint32_t kLongestPrompt = 32768;  // longer chat requests are left out

struct SimRequest {
  std::size_t app = 0;      // a place in the manifests of its world
  bool interactive = true;  // a person waits for the answer
  double at = 0;            // seconds since the simulation began
  std::uint32_t prompt_tokens = 0, output_tokens = 0;
  std::uint64_t first_block = 0;      // of a prompt that shares nothing: blocks count up from here
  std::vector<std::uint64_t> blocks;  // of a chat prompt: equal ids are equal text
  std::uint32_t shared_tokens = 0;  // so many tokens begin the prompt of each request with this shared_block
  std::uint64_t shared_block = 0;
  double slo_ttft = 0;  // seconds to the first token; 0: no SLO

  // The id of the prompt's n-th block of kPromptBlock tokens.
  std::uint64_t block(std::uint32_t n) const { return blocks.empty() ? first_block + n : blocks[n]; }
  // Equal prompts have equal tokens, and the length of the prompt's text is the sum of token_bytes().
  std::vector<Token> tokens() const;
  std::string text() const;
};
// Generated text has words of two to six bytes, four on average.
std::uint32_t token_bytes(Token token) noexcept;

// One hour of each service, in order of arrival.
struct Traces {
  std::vector<SimRequest> chat, code, conversation;
};
// Fails when a file is missing or a line has another form; the error names the line.
Result<Traces> read_traces(const std::filesystem::path& folder);
// A short trace made from `seed`, for tests that have no recorded one.
Traces synthetic_traces(std::uint64_t seed);

struct LoadOptions {
  double share = 1;                 // of the recorded rate, in (0, 1]
  std::uint32_t interactive = 400;  // about so many chat and code requests
  bool batch = true;
  std::uint64_t seed = 1;
};
struct Load {
  std::vector<SimRequest> requests;  // in order of arrival, without SLOs
  double seconds = 0;                // in which they arrive
};
// Keeps whole chat sessions, so that prefixes return as recorded. A load too thin to have enough requests in
// an hour continues with other sessions of the same hour; a denser one is cut short. The batch requests of
// each hour arrive together at its beginning.
Load make_load(const Traces& traces, const LoadOptions& options);

}  // namespace flyball::simulation
