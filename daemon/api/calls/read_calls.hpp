// The calls of a chat: its answers are read for them, and held to them where the client wants it.
#pragma once

#include "daemon/api/operation.hpp"

namespace flyball::api::calls {

// unsupported_feature at `tools`: beside a constraint of the client's own that is not JSON's, which leaves an
// answer no place for calls.
Result<void> check_constraint(const Generate& chat);
// Sets `parser` and `call_constraint`, and has control tokens marked. Sets none of them where a constraint of
// the client's own holds the answers and there are no tools: all that they have is text. Beside tools that
// the model may call, an answer is calls or the constraint's JSON; where calls are demanded, the constraint
// is dropped. Precondition: `tools` is what the request has, and check_constraint() has passed.
void read_calls(Generate& chat);

}  // namespace flyball::api::calls
