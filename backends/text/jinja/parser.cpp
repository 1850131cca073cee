// Statements. Expressions are in expression_parser.cpp.
#include "backends/text/jinja/parser.hpp"

#include <utility>

#include "backends/text/jinja/expression_parser.hpp"

namespace flyball::text::jinja {
namespace {

class StatementParser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  void run() { program_.body = block({}, 1); }

 private:
  // Statements until a block tag with one of the names, which is left as the current token (its name, the
  // tag's begin consumed); until the end of the source where no names are given.
  Block block(std::initializer_list<std::string_view> ends, std::uint32_t opened) {
    const Nesting nesting(*this);
    Block statements;
    while (true) {
      switch (current().kind) {
        case TokenKind::text:
          statements.push_back(text(take().text));
          break;
        case TokenKind::variable_begin: {
          Statement& made = statement(StatementKind::output);
          next();
          made.expression = tuple(true);
          expect_kind(TokenKind::variable_end, "'}}'");
          statements.push_back(&made);
          break;
        }
        case TokenKind::block_begin:
          next();
          for (const std::string_view end : ends) {
            if (current().is_name(end)) return statements;
          }
          tag(statements);
          expect_kind(TokenKind::block_end, "'%}'");
          break;
        default:
          if (ends.size() == 0) return statements;
          fail_template("the block opened here is not closed with '" + std::string(*(ends.end() - 1)) + "'",
                        opened);
      }
    }
  }

  Block body_until(std::initializer_list<std::string_view> ends) {
    const std::uint32_t opened = expect_kind(TokenKind::block_end, "'%}'").line;
    return block(ends, opened);
  }
  Block body_until_end(std::string_view end) {
    Block body = body_until({end});
    next();
    return body;
  }

  Statement& statement(StatementKind kind) {
    Statement& made = program_.statements.emplace_back();
    made.kind = kind;
    made.line = current().line;
    return made;
  }
  Statement* text(std::string_view text) {
    Statement& made = statement(StatementKind::text);
    made.text = text;
    return &made;
  }

  void tag(Block& out) {
    if (current().kind != TokenKind::name) fail_here("a tag name");
    const std::string_view name = current().text;
    if (name == "if") return out.push_back(conditional());
    if (name == "for") return out.push_back(loop());
    if (name == "set") return out.push_back(assign());
    if (name == "macro") return out.push_back(macro());
    if (name == "call") return out.push_back(call_block());
    if (name == "filter") return out.push_back(filter_block());
    if (name == "with") return out.push_back(with());
    if (name == "generation") return out.push_back(generation());
    if (name == "print") return print(out);
    if (name == "break" || name == "continue") {
      if (!in_loop_) fail_template("'" + std::string(name) + "' outside of a loop", current().line);
      out.push_back(&statement(name == "break" ? StatementKind::break_ : StatementKind::continue_));
      next();
      return;
    }
    fail_template("unknown tag '" + std::string(name) + "'", current().line);
  }

  Statement* conditional() {
    Statement& made = statement(StatementKind::conditional);
    const bool soft = std::exchange(soft_, true);
    while (true) {
      next();
      const Expression* test = tuple(false);
      made.branches.emplace_back(test, body_until({"elif", "else", "endif"}));
      if (!current().is_name("elif")) break;
    }
    if (take().text == "else") made.otherwise = body_until_end("endif");
    soft_ = soft;
    return &made;
  }

  Statement* loop() {
    Statement& made = statement(StatementKind::loop);
    next();
    made.target = target(false, "in");
    expect_name("in");
    made.expression = tuple(false, "recursive");
    if (skip_name("if")) made.filter = expression();
    made.recursive = skip_name("recursive");
    const bool soft = std::exchange(soft_, false);
    const bool in_loop = std::exchange(in_loop_, true);
    made.body = body_until({"else", "endfor"});
    in_loop_ = in_loop;
    if (take().text == "else") made.otherwise = body_until_end("endfor");
    soft_ = soft;
    return &made;
  }

  Statement* assign() {
    Statement& made = statement(StatementKind::assign);
    next();
    made.target = target(true, {});
    if (skip_symbol("=")) {
      made.expression = tuple(true);
      return &made;
    }
    made.kind = StatementKind::assign_block;
    made.expression = filter_chain(false);
    made.body = nested_body("endset");
    return &made;
  }

  // A body in a frame of its own.
  Block nested_body(std::string_view end) {
    const bool soft = std::exchange(soft_, false);
    Block body = body_until_end(end);
    soft_ = soft;
    return body;
  }
  // A body that becomes a function: loops around it are out of reach.
  Block function_body(MacroNode& node, std::string_view end) {
    const bool in_loop = std::exchange(in_loop_, false);
    macros_.push_back(&node);
    Block body = nested_body(end);
    macros_.pop_back();
    in_loop_ = in_loop;
    return body;
  }

  void signature(MacroNode& node) {
    expect_symbol("(");
    while (!current().is_symbol(")")) {
      if (!node.parameters.empty()) expect_symbol(",");
      const std::string_view name = assignable_name();
      const Expression* fallback = nullptr;
      if (skip_symbol("=")) {
        fallback = expression();
      } else if (!node.parameters.empty() && node.parameters.back().fallback != nullptr) {
        fail_template("a parameter without a default follows one with a default", current().line);
      }
      node.parameters.push_back({intern(name), name, fallback});
    }
    next();
  }

  Statement* macro() {
    Statement& made = statement(StatementKind::macro);
    next();
    made.macro = &program_.macros.emplace_back();
    made.macro->name = assignable_name();
    made.macro_name = intern(made.macro->name);
    signature(*made.macro);
    made.macro->body = function_body(*made.macro, "endmacro");
    return &made;
  }

  Statement* call_block() {
    Statement& made = statement(StatementKind::call_block);
    next();
    made.macro = &program_.macros.emplace_back();
    made.macro->name = "caller";
    if (current().is_symbol("(")) signature(*made.macro);
    made.expression = expression();
    if (made.expression->kind != ExpressionKind::postfix ||
        made.expression->steps.back().kind != StepKind::call) {
      fail_template("{% call %} wants a call", made.line);
    }
    made.macro->body = function_body(*made.macro, "endcall");
    return &made;
  }

  Statement* filter_block() {
    Statement& made = statement(StatementKind::filter_block);
    next();
    made.expression = filter_chain(true);
    made.body = nested_body("endfilter");
    return &made;
  }

  Statement* with() {
    Statement& made = statement(StatementKind::with);
    next();
    while (current().kind != TokenKind::block_end) {
      if (!made.assignments.empty()) expect_symbol(",");
      Target to = target(false, {});
      expect_symbol("=");
      made.assignments.emplace_back(std::move(to), expression());
    }
    made.body = nested_body("endwith");
    return &made;
  }

  // Transformers marks the assistant's text with this tag; here it only renders, in a frame of its own.
  Statement* generation() {
    Statement& made = statement(StatementKind::scope);
    next();
    MacroNode& frame = program_.macros.emplace_back();
    made.body = function_body(frame, "endgeneration");
    return &made;
  }

  void print(Block& out) {
    next();
    for (bool first = true; current().kind != TokenKind::block_end; first = false) {
      if (!first) expect_symbol(",");
      Statement& made = statement(StatementKind::output);
      made.expression = expression();
      out.push_back(&made);
    }
  }

  std::string_view assignable_name() {
    const LexToken name = expect_kind(TokenKind::name, "a name");
    if (is_constant_name(name.text))
      fail_template("cannot assign to '" + std::string(name.text) + "'", name.line);
    return name.text;
  }

  // A name, name.attribute (with_namespace) or a tuple, which ends before the keyword `end` or '='.
  Target target(bool with_namespace, std::string_view end) {
    Target first = single_target(with_namespace, end);
    if (!current().is_symbol(",")) return first;
    Target made;
    made.is_tuple = true;
    made.parts.push_back(std::move(first));
    while (skip_symbol(",")) {
      if (current().is_name(end) || current().is_symbol(")")) break;
      made.parts.push_back(single_target(false, end));
    }
    return made;
  }

  Target single_target(bool with_namespace, std::string_view end) {
    const Nesting nesting(*this);
    if (skip_symbol("(")) {
      Target inner = target(false, end);
      expect_symbol(")");
      return inner;
    }
    Target made;
    const bool is_reference = with_namespace && ahead().is_symbol(".");
    made.text = is_reference ? expect_kind(TokenKind::name, "a name").text : assignable_name();
    made.name = intern(made.text);
    if (is_reference) {
      next();
      made.attribute = expect_kind(TokenKind::name, "an attribute's name").text;
    }
    return made;
  }

  bool in_loop_ = false;
};

}  // namespace

std::unique_ptr<Program> parse(std::string_view source, std::uint32_t depth) {
  auto program = std::make_unique<Program>();
  program->source = source;
  std::vector<LexToken> tokens = tokenize(*program);
  StatementParser(*program, std::move(tokens), depth).run();
  return program;
}

}  // namespace flyball::text::jinja
