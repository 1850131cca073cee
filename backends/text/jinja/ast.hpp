// The parsed template. Nodes are owned by the Program and live as long as it does; chains of one precedence
// level are one node with many parts, so that a node's height is the source's real nesting.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/text/jinja/value.hpp"

namespace flyball::text::jinja {

using NameId = std::uint32_t;

enum class Operator : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in,
};

struct Expression;
struct Statement;
using Block = std::vector<const Statement*>;

struct CallArguments {
  std::vector<const Expression*> positional;
  std::vector<std::pair<std::string_view, const Expression*>> keyword;
  const Expression* star = nullptr;         // *sequence
  const Expression* double_star = nullptr;  // **mapping
};

enum class StepKind : std::uint8_t { attribute, item, slice, call, filter, test };

// What follows a value: .name, [item], [a:b:c], (arguments), |filter(arguments), is test(arguments).
struct Step {
  Step(StepKind what, std::uint32_t where) : kind(what), line(where) {}

  StepKind kind;
  std::uint32_t line;
  std::string_view name;
  bool negated = false;                      // is not
  const Expression* index[3] = {};           // item: [0]; slice: start, stop, step, null where left out
  const CallArguments* arguments = nullptr;  // null: none
  Native native = nullptr;                   // filter, test; null for names nobody knows (fails when reached)
};

enum class ExpressionKind : std::uint8_t {
  constant,
  name,
  list,
  tuple,
  dict,        // parts: key, value, key, value
  concat,      // a ~ b ~ c
  arithmetic,  // parts and operators between them, from the left
  compare,     // a < b < c
  logic_and,
  logic_or,
  logic_not,
  negate,
  plus,
  conditional,  // parts: test, then, else (null if left out)
  postfix,      // parts[0] and its steps
};

struct Expression {
  ExpressionKind kind;
  std::uint32_t line = 0;
  Value value;  // constant
  NameId name = 0;
  std::string_view text;  // name
  std::vector<const Expression*> parts;
  std::vector<Operator> operators;
  std::vector<Step> steps;
};

// What an assignment writes: a name, name.attribute of a namespace, or a tuple of targets.
struct Target {
  NameId name = 0;
  std::string_view text;
  std::string_view attribute;  // "" for a plain name
  std::vector<Target> parts;   // a tuple when not empty
  bool is_tuple = false;
};

struct MacroNode {
  std::string_view name;
  struct Parameter {
    NameId name;
    std::string_view text;
    const Expression* fallback;  // null if none
  };
  std::vector<Parameter> parameters;
  Block body;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

enum class StatementKind : std::uint8_t {
  text,
  output,        // expression
  conditional,   // branches, otherwise
  loop,          // target in expression if filter: body, otherwise
  assign,        // target = expression
  assign_block,  // target from the body's text, through expression's steps
  macro,
  call_block,    // expression's call with the macro as caller
  filter_block,  // the body's text through expression's steps
  with,          // targets and expressions, body
  scope,         // body in a scope of its own ({% generation %})
  break_,
  continue_,
};

struct Statement {
  StatementKind kind;
  std::uint32_t line = 0;
  std::string_view text;
  const Expression* expression = nullptr;
  const Expression* filter = nullptr;  // loop
  bool recursive = false;              // loop
  Target target;
  std::vector<std::pair<const Expression*, Block>> branches;      // conditional
  std::vector<std::pair<Target, const Expression*>> assignments;  // with
  Block body, otherwise;
  MacroNode* macro = nullptr;
  NameId macro_name = 0;
};

// One parsed template.
struct Program {
  std::string source;  // newlines normalized
  Block body;

  std::deque<Expression> expressions;
  std::deque<Statement> statements;
  std::deque<CallArguments> arguments;
  std::deque<MacroNode> macros;
  std::deque<std::string> texts;  // unescaped literals
  std::unordered_map<std::string_view, NameId> names;
};

}  // namespace flyball::text::jinja
