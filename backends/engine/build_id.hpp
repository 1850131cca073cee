// Which program this is: the linker's build id (ld --build-id), another for any change of its code or of what
// is embedded in it.
#pragma once

#include <string>

namespace flyball::engine {

// In hexadecimal; "" where the program was linked without one.
std::string build_id();

}  // namespace flyball::engine
