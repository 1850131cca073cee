// The calls of a chat: its answers are read for them, and held to them where the client wants it.
#pragma once

#include "daemon/api/operation.hpp"

namespace flyball::api::calls {

// unsupported_feature at `tools`: beside the client's own constraint, which leaves an answer no place for
// calls.
Result<void> check_constraint(const Generate& chat);
// Sets `parser` and `call_constraint`, and has control tokens marked. Nothing of it where a constraint of the
// client's own holds the answers: all that they have is text. Precondition: `tools` is what the request has.
void read_calls(Generate& chat);

}  // namespace flyball::api::calls
