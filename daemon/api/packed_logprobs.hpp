// The logprobs of one choice, packed: an answer that waits to be read holds five bytes a token, its own or a
// likely one, above the tokens' text. TokenLogprob takes forty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/backend.hpp"

namespace flyball::api {

// One token's; the bytes are another's.
struct LogprobView {
  std::string_view bytes;
  float logprob = 0.0F;
  std::vector<std::pair<std::string_view, float>> top;  // likeliest first
  bool in_text = true, known = true;                    // as in TokenLogprob

  void read(const TokenLogprob& token);
};

class PackedLogprobs {
 public:
  // A place in the list; the first one when made.
  struct Cursor {
    std::size_t block = 0, at = 0;
  };

  void append(const TokenLogprob& token);
  // The token at the cursor, which moves on; false: there is none left. The view is valid until append().
  bool read(Cursor& cursor, LogprobView& out) const;

  std::size_t size() const noexcept { return tokens_; }
  std::size_t bytes() const noexcept { return bytes_; }  // of memory

 private:
  // Large enough that blocks cost nothing, small enough that nothing large is ever copied.
  static constexpr std::size_t kBlockBytes = 16 * 1024;

  std::vector<std::string> blocks_;  // whole tokens each
  std::size_t tokens_ = 0, bytes_ = 0;
};

}  // namespace flyball::api
