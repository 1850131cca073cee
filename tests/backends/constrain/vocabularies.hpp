// Small vocabularies for tests of masks.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/constrain/vocabulary.hpp"
#include "tests/backends/constrain/reference.hpp"

namespace flyball::constrain::testing {

struct Tokens {
  std::vector<std::string> bytes;
  std::vector<TokenId> forbidden, ends;

  std::shared_ptr<const Vocabulary> vocabulary() const {
    const std::vector<std::string_view> views(bytes.begin(), bytes.end());
    return std::make_shared<const Vocabulary>(views, forbidden, ends);
  }
};

// Short texts over an alphabet, some of them twice, some forbidden, with two ends.
Tokens random_tokens(Random& random, std::string_view alphabet);
// All bytes, and what tokens of JSON look like: text of many lengths, parts of characters, quotes and
// brackets with text around them.
Tokens json_tokens(Random& random);

}  // namespace flyball::constrain::testing
