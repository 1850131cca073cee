// The token cursor and the expression half of the parser; parser.cpp adds the statements.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/text/jinja/ast.hpp"
#include "backends/text/jinja/failure.hpp"
#include "backends/text/jinja/lexer.hpp"

namespace flyball::text::jinja {

class ExpressionParser {
 public:
  ExpressionParser(Program& program, std::vector<LexToken> tokens, std::uint32_t depth)
      : program_(program), tokens_(std::move(tokens)), depth_(depth) {}

 protected:
  // One level of nesting, for as long as it lives.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser);
    ~Nesting() { ++parser_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    ExpressionParser& parser_;
  };

  const LexToken& current() const { return tokens_[at_]; }
  const LexToken& ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  void next() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  LexToken take() {
    const LexToken token = current();
    next();
    return token;
  }
  bool skip_symbol(std::string_view symbol);
  bool skip_name(std::string_view name);
  void expect_symbol(std::string_view symbol);
  void expect_name(std::string_view name);
  LexToken expect_kind(TokenKind kind, std::string_view what);
  [[noreturn]] void fail_here(std::string_view expected) const;
  NameId intern(std::string_view name);
  static bool is_constant_name(std::string_view name);

  const Expression* expression(bool with_conditional = true);
  // One expression, or several with commas as a tuple. Ends before the keyword `end`.
  const Expression* tuple(bool with_conditional, std::string_view end = {});
  // |filter|filter as steps of a postfix expression without a base; named: starts with a name instead of '|'.
  const Expression* filter_chain(bool named);

  Program& program_;
  std::vector<LexToken> tokens_;
  std::size_t at_ = 0;
  std::uint32_t depth_;             // levels left
  std::vector<MacroNode*> macros_;  // being parsed, outermost first
  bool soft_ = false;               // inside an if: unknown filters fail only when reached, as in Jinja2

 private:
  Expression& make(ExpressionKind kind);
  const Expression* constant(Value value);
  const Expression* logic_or();
  const Expression* logic_and();
  const Expression* logic_not();
  const Expression* compare();
  const Expression* binary(int level);
  const Expression* unary(bool with_filter);
  const Expression* primary();
  const Expression* number();
  const Expression* list();
  const Expression* dict();
  const Expression* postfix(const Expression* base, bool calls_and_dots, bool filters);
  Step dot();
  Step subscript();
  Step filter_step();
  Step test_step();
  std::string_view dotted_name();
  const CallArguments* call_arguments();
  void check_known(const Step& step) const;
};

}  // namespace flyball::text::jinja
