// The members of a request's objects by its API's table of fields: each one is known, or noted as unknown.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/error.hpp"
#include "config/packed_json.hpp"
#include "daemon/api/field_table.hpp"
#include "daemon/api/operation.hpp"

namespace flyball::api {

// The members of the body, or of an object in it, found in one walk: in a body of 100,000 members each
// look-up by itself would walk past all the others.
class Fields {
 public:
  // `object` and `table` outlive this. `place`: the object's in the body; "": it is the body. The names of
  // unknown members are noted.
  Fields(JsonView object, const FieldTable& table, Endpoints endpoints, UnknownFields& unknown,
         FieldOf of = FieldOf::body, std::string place = {});
  // The member of that name, absent where it is null or there is none. Precondition: the table has the name
  // as served at one of the endpoints.
  JsonView member(std::string_view name) const noexcept;
  // unsupported_value or unsupported_feature for the first member that the table refuses.
  Result<void> refused() const;

  const FieldTable& table() const noexcept { return *table_; }
  Endpoints endpoints() const noexcept { return endpoints_; }
  FieldOf of() const noexcept { return of_; }
  std::string place_of(std::string_view name) const;  // "options.seed"

 private:
  const FieldTable* table_;
  Endpoints endpoints_;
  FieldOf of_;
  std::string place_;
  std::vector<JsonView::Members::Member> served_;
  std::optional<Error> refused_;
};

// A text that the object at `place` must have. missing_field, invalid_value.
Result<std::string_view> text_member(JsonView object, std::string_view name, const std::string& place);
// `object`, or absent where there is none; its members are checked. invalid_value: it is no object.
Result<JsonView> checked_object(JsonView object, const FieldTable& table, FieldOf of, Endpoints endpoints,
                                const std::string& place, UnknownFields& unknown);
// The same check of another object, which stands at `place` ("tools[2]").
Result<void> check_members(JsonView object, const FieldTable& table, FieldOf of, Endpoints endpoints,
                           const std::string& place, UnknownFields& unknown);
// missing_field for a member of the body. The message names the unknown one that may be it, misspelt.
std::unexpected<Error> missing(std::string_view name, const UnknownFields& unknown);

}  // namespace flyball::api
