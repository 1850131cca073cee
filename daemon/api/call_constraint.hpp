// The constraint that holds an answer to calls, and the places of the request that its schemas come from.
// daemon/api/calls/structure writes it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/constraint.hpp"

namespace flyball::api {

// JSON that an answer may be instead of calls, as the client's format demands.
struct JsonAnswer {
  const Constraint* format = nullptr;  // of the kind json_object or json_schema
  std::string field = {};              // its place in the request
};

// The place in the request that a JSON schema of a structural tag was copied from.
struct SchemaPlace {
  std::string field;         // "tools[3].function.parameters"
  std::string pointer = {};  // from that field's value to the schema
  bool is_format = false;    // it is the client's format of the answer; else a tool's parameters
};

struct CallConstraint {
  Constraint constraint;             // a structural tag
  std::vector<SchemaPlace> schemas;  // of its formats json_schema, in the order of its text
};

// The place in the request that `pointer`, of an error about the structural tag, leads to. The field is ""
// where it leads into no schema. Precondition: `schemas` are the tag's.
SchemaPlace schema_place(JsonView tag, const std::vector<SchemaPlace>& schemas, std::string_view pointer);

}  // namespace flyball::api
