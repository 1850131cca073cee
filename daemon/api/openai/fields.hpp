// The members of a request's objects by the table of fields: each one is known, or noted as unknown.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/error.hpp"
#include "config/packed_json.hpp"
#include "daemon/api/openai/field_table.hpp"
#include "daemon/api/operation.hpp"

namespace flyball::api::openai {

// The body's members, found in one walk: in a body of 100,000 members each look-up by itself would walk past
// all the others.
class Fields {
 public:
  // `body`: an object, which outlives this. The names of unknown members are noted.
  Fields(JsonView body, Endpoints endpoints, UnknownFields& unknown);
  // The member of that name, absent where it is null or there is none. Precondition: the table has the name
  // as served at one of the endpoints.
  JsonView member(std::string_view name) const noexcept;
  // unsupported_value or unsupported_feature for the first member that the table refuses.
  Result<void> refused() const;

 private:
  Endpoints endpoints_;
  std::vector<JsonView::Members::Member> served_;
  std::optional<Error> refused_;
};

// The same check of another object, which stands at `place` ("tools[2]").
Result<void> check_members(JsonView object, FieldOf of, Endpoints endpoints, const std::string& place,
                           UnknownFields& unknown);
// missing_field for a member of the body. The message names the unknown one that may be it, misspelt.
std::unexpected<Error> missing(std::string_view name, const UnknownFields& unknown);

}  // namespace flyball::api::openai
