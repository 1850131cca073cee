// The directory of a GGUF file that this build may not read: unknown families and tensor types have their
// names all the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "config/error.hpp"

namespace flyball::model {

struct GgufOutline {
  std::string architecture;  // printable; "" where the file does not say
  struct Tensors {
    std::uint64_t count = 0, values = 0;
  };
  std::map<std::string, Tensors> types;  // by name: "Q4_K", "IQ4_XS"; "unknown": all types without a name
};

// model_invalid as of Gguf::parse, but for the types of tensors and their bytes, which need not be in the
// file.
Result<GgufOutline> outline_gguf(std::span<const std::byte> file);

}  // namespace flyball::model
