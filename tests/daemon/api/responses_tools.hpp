// Tools as clients of the Responses API declare them.
#pragma once

namespace flyball::api::openai::responses {

inline constexpr const char* kWeather =
    R"({"type":"function","name":"weather","description":"d","parameters":{"type":"object"},"strict":true})";
inline constexpr const char* kClock = R"({"type":"function","name":"clock","parameters":null})";
inline constexpr const char* kAgents =
    R"({"type":"namespace","name":"agents","description":"Other agents.","tools":[)"
    R"({"type":"function","name":"spawn","description":"Begins one.","parameters":{"type":"object"},"strict":true},)"
    R"({"type":"function","name":"close"}]})";

}  // namespace flyball::api::openai::responses
