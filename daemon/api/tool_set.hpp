// The tools of a request and what its client wants of them, whatever API it speaks.
#pragma once

#include <cstdint>
#include <string>

#include "config/packed_json.hpp"

namespace flyball::api {

struct ToolSet {
  enum class Choice : std::uint8_t {
    none,       // the answer calls none
    automatic,  // the model decides
    required,   // the answer is a call, or several
  };

  // The tools as read_tools() gives them: [{"type": "function", "function": {"name", "description",
  // "parameters"}}].
  PackedJson tools = {};
  Choice choice = Choice::automatic;
  std::string named = {};  // required: the one that is called, which is among the tools; "": any
  bool parallel = true;    // an answer may have several calls
  // Calls have exactly the arguments that the tools' schemas allow, also where the model decides whether to
  // call.
  bool strict = false;
};

}  // namespace flyball::api
