// The members of a request's body that this API knows, found in one walk: in a body of 100,000 members each
// look-up by itself would walk past all the others.
#pragma once

#include <string_view>
#include <vector>

#include "config/packed_json.hpp"

namespace flyball::api::openai {

class Fields {
 public:
  // `body`: an object, which outlives this.
  explicit Fields(JsonView body);
  // The member of that name, absent where it is null or there is none. Precondition: the API knows the name.
  JsonView member(std::string_view name) const noexcept;

 private:
  std::vector<JsonView::Members::Member> known_;
};

}  // namespace flyball::api::openai
