// A JSON document written anew from parts of another: packed, with the length of each container as JSON text
// counted along.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "config/packed_json.hpp"

namespace flyball::api {

class JsonRewriter {
 public:
  explicit JsonRewriter(std::size_t reserved_bytes) { out_.reserve(reserved_bytes); }
  // Containers are opened and closed in pairs; inside an object each value follows its key.
  void open(JsonKind array_or_object);
  void close();
  void key(std::string_view name);
  void string(std::string_view text);
  void boolean(bool value);
  void value(JsonView value);  // a copy
  // The document. Precondition: one container, closed.
  PackedJson take() { return out_.take(); }

 private:
  void count(std::size_t json_bytes);

  JsonPacker out_;
  std::vector<std::size_t> open_;  // bytes of JSON text in each open container
};

}  // namespace flyball::api
