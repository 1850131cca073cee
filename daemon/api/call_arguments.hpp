// The arguments of the calls in a chat's history. Clients send them as text that spells a JSON object, or as
// the object itself; models' templates read the object. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "config/error.hpp"
#include "config/packed_json.hpp"
#include "daemon/api/json_rewriter.hpp"

namespace flyball::api {

// JSON values in the arguments of all calls of one history.
inline constexpr std::size_t kMaxArgumentValues = 100'000;

class CallArguments {
 public:
  // Writes the arguments of one call, which stand at `place` in the body: the object that they are or spell,
  // {} where they are null or empty. Text that spells no object stays text, and note() says so.
  // invalid_value, json_too_deep, json_too_large name the place.
  Result<void> read(JsonView arguments, const std::string& place, JsonRewriter& out);
  static void write_none(JsonRewriter& out);  // {}

  std::string note() const;  // for the client; "": all of them were objects

 private:
  std::string first_text_;      // the sentence about the first arguments that stay text
  std::size_t more_texts_ = 0;  // arguments that stay text, beside those
  std::size_t values_left_ = kMaxArgumentValues;
};

}  // namespace flyball::api
