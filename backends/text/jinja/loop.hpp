// The `loop` variable of a for statement.
#pragma once

#include <span>
#include <string_view>

#include "backends/text/jinja/ast.hpp"

namespace flyball::text::jinja {

struct Loop {
  std::span<const Value> items;
  std::size_t index = 0;  // from 0
  std::size_t depth = 1;  // of recursion
  const Statement* statement = nullptr;
  Scope* scope = nullptr;        // around the loop, for the recursive call
  std::vector<Value> last_seen;  // arguments of the last loop.changed()
  bool has_seen = false;
};

// loop.index and its like; false where `name` is no attribute. Methods are found by find_method.
bool loop_attribute(const Loop& loop, std::string_view name, Value& found);
std::size_t loop_size(const Loop& loop) noexcept;

}  // namespace flyball::text::jinja
