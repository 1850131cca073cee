// An API whose answers have parts of every kind: the fake engine's pieces are read as those.
#pragma once

#include <memory>
#include <string_view>
#include <variant>

#include "daemon/api/codec.hpp"

namespace flyball::testing {

// "t0 " is reasoning, "t1 " is text, the next two pieces are a call, and the second of them is another one,
// too.
class PiecesAsParts final : public api::TextParser {
 public:
  void parse(std::string_view text, bool, api::AnswerEvents& out) override {
    switch (piece_++) {
      case 0:
        out.push_back(api::event::Reasoning{text});
        return;
      case 2:
        out.push_back(api::event::CallBegin{0, "call_1", "weather"});
        out.push_back(api::event::CallArguments{0, R"({"city":)"});
        return;
      case 3:
        out.push_back(api::event::CallArguments{0, R"("Bern"})"});
        out.push_back(api::event::CallEnd{0, true});
        out.push_back(api::event::CallBegin{1, "call_2", "clock"});
        out.push_back(api::event::CallArguments{1, "{}"});
        out.push_back(api::event::CallEnd{1, true});
        return;
      default:
        out.push_back(api::event::Text{text});
    }
  }
  void end(api::AnswerEvents& out) override {
    if (piece_ == 3) out.push_back(api::event::CallEnd{0, false});
  }
  bool in_reasoning() const noexcept override { return piece_ == 0; }

 private:
  int piece_ = 0;
};

template <const api::Codec& codec>
api::Codec with_parts() {
  const auto parse = [](const api::Route& route, const http::Request& request) {
    auto operation = codec.parse(route, request);
    if (operation)
      if (auto* generate = std::get_if<api::Generate>(&*operation))
        generate->parser = [](const AnswerForm&, std::string_view) {
          return std::make_unique<PiecesAsParts>();
        };
    return operation;
  };
  return {codec.name, codec.routes, codec.keys, parse, codec.error, codec.id_field};
}

}  // namespace flyball::testing
