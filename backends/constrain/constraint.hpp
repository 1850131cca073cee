// A client's constraint made into a program. Pure.
#pragma once

#include <string>
#include <string_view>

#include "backends/constrain/program.hpp"
#include "backends/constraint.hpp"
#include "backends/grammar/fuel.hpp"
#include "config/error.hpp"

namespace flyball::constrain {

// Errors are those of json_schema, regex, gbnf, choice_list, structural_tag and compile; `where` is the place
// in the source. invalid_value also for a source that is not of the constraint's kind.
Result<Program> compile(const Constraint& constraint, const grammar::Limits& limits = {});

// unsupported_value for a source that compile() would refuse for its size. Reads nothing but that.
Result<void> check_size(const Constraint& constraint, const grammar::Limits& limits = {});

// SHA-256 of all of it, in hex: equal ones have equal programs. About 2 ms for each megabyte of the source.
std::string digest_of(const Constraint& constraint);

// The spelling of the enumerator: "json_schema".
std::string_view to_string(Constraint::Kind kind) noexcept;

}  // namespace flyball::constrain
