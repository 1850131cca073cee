// Bodies to typed requests: bounded JSON, the parameter table, messages passed on in the client's own words.
#include <ranges>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/json_reader.hpp"
#include "daemon/api/json_text.hpp"
#include "daemon/api/openai/completion_request.hpp"
#include "daemon/api/openai/field_table.hpp"
#include "daemon/api/openai/token_request.hpp"
#include "daemon/api/openai/writer.hpp"
#include "daemon/api/parameters.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::api::openai {
namespace {

using nlohmann::json;
using test::text_of;
using Kind = Generate::Kind;

Result<Generate> parse(Kind kind, std::string_view text) {
  const auto body = read_packed(text);
  if (!body) return std::unexpected(body.error());
  return parse_generate(kind, body->view());
}

Generate chat(const std::string& members) {
  auto out = parse(Kind::chat, R"({"messages":[{"role":"user","content":"Hi"}])" + members + "}");
  EXPECT_TRUE(out) << (out ? "" : out.error().message);
  return out ? std::move(*out) : Generate{};
}

Error chat_error(const std::string& body) {
  auto out = parse(Kind::chat, body);
  EXPECT_FALSE(out) << body;
  return out ? Error{} : out.error();
}

// ---- JSON -------------------------------------------------------------------------------------------------

TEST(json_reader, reads_what_the_library_reads) {
  for (const char* text : {"null", "[1,2.5,-3,\"x\",true,false,null]", R"({"a":{"b":[{}]},"c":""})",
                           "18446744073709551615", R"("\ud83d\ude00")", " [ ] "})
    EXPECT_EQ(*read_json(text), json::parse(text)) << text;
}

TEST(json_reader, bounds) {
  const std::string deep = std::string(64, '[') + std::string(64, ']');
  EXPECT_TRUE(read_json(deep));
  EXPECT_EQ(read_json("[" + deep + "]").error().code, ErrorCode::json_too_deep);
  EXPECT_TRUE(read_json("[1,2,3]", {.depth = 2, .nodes = 4}));
  EXPECT_EQ(read_json("[1,2,3]", {.depth = 2, .nodes = 3}).error().code, ErrorCode::json_too_large);
  EXPECT_EQ(read_json(std::string(1'000'000, '[')).error().code, ErrorCode::json_too_deep);
}

TEST(json_reader, packs_text_up_to_its_limit) {
  const std::string text(kMaxPackedText + 1, ' ');
  const Error error = read_packed(text).error();
  EXPECT_EQ(error.code, ErrorCode::json_too_large);
  EXPECT_EQ(error.message, "The body has 134217729 bytes; the limit is 134217728.");
}

TEST(json_reader, names_the_byte) {
  EXPECT_EQ(read_json(R"({"a": tru})").error().where, "byte 9");
  EXPECT_EQ(read_json(R"({"a":1,"a":2})").error().code, ErrorCode::invalid_json);
  EXPECT_EQ(read_json(R"({"a":1,"\u0061":2})").error().where, "byte 14");  // the same key in other words
  EXPECT_EQ(read_json("\"\xff\"").error().where, "byte 1");
  EXPECT_EQ(read_json("").error().code, ErrorCode::invalid_json);
}

TEST(json_text, strings_round_trip_and_bad_bytes_are_replaced) {
  std::string all;
  for (int c = 0; c < 128; ++c) all.push_back(static_cast<char>(c));
  all += "h\u00e9 \u4e16 \U0001F600";
  std::string out;
  append_json_string(out, all);
  EXPECT_EQ(json::parse(out).get<std::string>(), all);
  for (const char* bad : {"\x80", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe4\xb8"}) {
    out.clear();
    append_json_string(out, "a" + std::string(bad) + "b");
    const auto text = json::parse(out).get<std::string>();
    EXPECT_TRUE(text.starts_with("a\uFFFD") && text.ends_with("b")) << text;
  }
}

// ---- requests ---------------------------------------------------------------------------------------------

TEST(request, defaults) {
  const auto r = chat("");
  EXPECT_EQ(r.base.sampling.temperature, 1.0F);
  EXPECT_EQ(r.base.sampling.top_logprobs, -1);
  EXPECT_EQ(r.base.max_tokens, 0U);
  EXPECT_EQ(r.n, 1U);
  EXPECT_FALSE(r.stream || r.seeded);
}

TEST(request, every_parameter_arrives) {
  const auto r = chat(
      R"(,"temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1,"typical_p":0.8,"repetition_penalty":1.1,)"
      R"("frequency_penalty":-2,"presence_penalty":2,"max_completion_tokens":9,"n":2,"seed":-2,"stop":["a","b"],)"
      R"("logit_bias":{"5":-100,"7":3.5},"logprobs":true,"top_logprobs":3,"ignore_eos":true,"stream":true)");
  const SamplingParams& s = r.base.sampling;
  EXPECT_EQ(s.temperature, 0.5F);
  EXPECT_EQ(s.top_p, 0.9F);
  EXPECT_EQ(s.top_k, 40);
  EXPECT_EQ(s.min_p, 0.1F);
  EXPECT_EQ(s.typical_p, 0.8F);
  EXPECT_EQ(s.repetition_penalty, 1.1F);
  EXPECT_EQ(s.frequency_penalty, -2.0F);
  EXPECT_EQ(s.presence_penalty, 2.0F);
  EXPECT_EQ(s.seed, UINT64_MAX - 1);
  EXPECT_EQ(s.logit_bias.at(7), 3.5F);
  EXPECT_EQ(s.top_logprobs, 3);
  EXPECT_EQ(r.base.max_tokens, 9U);
  EXPECT_EQ(r.base.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(r.base.ignore_eos && r.stream && r.seeded);
}

// The two ends of every range are in, what lies beyond is out but for the sentinel, and the engine agrees.
TEST(request, ranges_of_the_table) {
  for (const Parameter& p : field_table().parameters()) {
    if (type_name(p) == "boolean") continue;
    const bool is_chat = (p.endpoints & kChat) != 0;
    const auto is_sentinel = [&](double value) { return p.sentinel && p.sentinel->value == value; };
    const auto read = [&](double value) {
      std::string body = is_chat ? R"({"messages":[{"role":"user","content":"Hi"}])" : R"({"prompt":"Hi")";
      if (p.name == "top_logprobs") body += R"(,"logprobs":true)";
      if (p.name == "best_of")
        body += R"(,"n":)" + std::to_string(static_cast<int>(value) < 1   ? 1
                                            : static_cast<int>(value) > 8 ? 8
                                                                          : static_cast<int>(value));
      body += ",\"" + std::string(p.name) + "\":";
      append_json_number(body, value);
      return parse(is_chat ? Kind::chat : Kind::completion, body + "}");
    };
    auto high = read(p.max);
    EXPECT_TRUE(high) << p.name;
    if (high) {
      EXPECT_TRUE(check(high->base.sampling)) << p.name;
    }
    auto low = read(p.min);
    EXPECT_EQ(low.has_value(), !p.min_excluded || is_sentinel(p.min)) << p.name;
    if (low) {
      EXPECT_TRUE(check(low->base.sampling)) << p.name;
    }
    for (const double value : {p.max + 1, is_sentinel(p.min - 1) ? p.min - 2 : p.min - 1}) {
      auto out = read(value);
      ASSERT_FALSE(out) << p.name << " " << value;
      EXPECT_EQ(out.error().param, p.name);
      EXPECT_EQ(out.error().code, ErrorCode::invalid_value);
    }
  }
}

TEST(request, limits_are_written_out) {
  EXPECT_EQ(chat_error(R"({"messages":[{"role":"user","content":"Hi"}],"top_k":1000001})").message,
            "'top_k' is 1000001, but must be at least 0 and at most 1000000, or -1 (off).");
}

TEST(request, null_is_absent) {
  const auto r = chat(
      R"(,"temperature":null,"stop":null,"tools":null,"user":"x","metadata":{"a":"b"},"from_2031":null)");
  EXPECT_EQ(r.base.sampling.temperature, 1.0F);
  EXPECT_FALSE(r.unknown.refusal());
}

// ---- the table of fields ----------------------------------------------------------------------------------

std::vector<std::string> words(std::string_view names) {
  std::vector<std::string> out;
  for (const auto word : std::views::split(names, ' ')) out.emplace_back(std::string_view(word));
  return out;
}

// The group's member with this value, in the object where it belongs.
Result<Generate> with_member(const FieldGroup& group, const std::string& name, const std::string& value) {
  const std::string member = ",\"" + name + "\":" + value;
  const auto message = [](const std::string& more) {
    return R"({"messages":[{"role":"assistant")" + more + "}]}";
  };
  const auto tool = [](const std::string& of_tool, const std::string& of_function) {
    return R"({"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"f")" +
           of_function + "}" + of_tool + "}]}";
  };
  const auto call = [&](const std::string& of_call, const std::string& of_function) {
    return message(R"(,"content":"a","tool_calls":[{"function":{"name":"f")" + of_function + "}" + of_call +
                   "}]");
  };
  const Kind kind = (group.endpoints & kChat) != 0 ? Kind::chat : Kind::completion;
  const std::string of_body =
      kind == Kind::chat ? R"({"messages":[{"role":"user","content":"Hi"}])" : R"({"prompt":"Hi")";
  switch (group.of) {
    case FieldOf::body:
      if (group.endpoints == kTokenize) {
        const auto body = read_packed(R"({"prompt":"Hi")" + member + "}");
        return parse_tokenize(body->view());
      }
      return parse(kind, of_body + member + "}");
    case FieldOf::stream_options:
      return parse(kind,
                   of_body + R"(,"stream":true,"stream_options":{"include_usage":true)" + member + "}}");
    case FieldOf::response_format:
      return parse(kind, of_body + R"(,"response_format":{"type":"text")" + member + "}}");
    case FieldOf::json_schema:
      return parse(kind, of_body + R"(,"response_format":{"type":"json_schema","json_schema":{"schema":{})" +
                             member + "}}}");
    case FieldOf::structured_outputs:
      return parse(kind, of_body + R"(,"structured_outputs":{"json":{})" + member + "}}");
    case FieldOf::message:
      return parse(kind, message(R"(,"content":"a")" + member));
    case FieldOf::part:
      return parse(kind, message(R"(,"content":[{"type":"text","text":"a")" + member + "}]"));
    case FieldOf::call:
      return parse(kind, call(member, ""));
    case FieldOf::called_function:
      return parse(kind, call("", member));
    case FieldOf::tool:
      return parse(kind, tool(member, ""));
    case FieldOf::tool_function:
      return parse(kind, tool("", member));
    default:  // other APIs'
      break;
  }
  std::abort();
}

// A value that no field takes, nor asks for nothing.
constexpr const char* kOdd = R"([{"no":1}])";

// The messages and tools that a model's template gets.
std::string prompt_of(const Generate& request) {
  const auto* const chat = std::get_if<ChatPrompt>(&request.prompts.front());
  return chat == nullptr ? "" : text_of(chat->messages) + text_of(chat->tools);
}

TEST(FieldTable, AcceptedFieldsTakeAnyValueAndRefusedOnesNone) {
  for (const FieldGroup& group : field_table().groups())
    for (const std::string& name : words(group.names)) {
      if (group.use == FieldUse::served || name == "function_call")
        continue;  // messages[].function_call: below
      const auto odd = with_member(group, name, kOdd);
      if (group.use == FieldUse::accepted) {
        ASSERT_TRUE(odd) << name << ": " << odd.error().message;
        EXPECT_FALSE(odd->unknown.refusal()) << name;
        EXPECT_EQ(prompt_of(*odd), prompt_of(*with_member(group, name, "null"))) << name;
        continue;
      }
      ASSERT_FALSE(odd) << name;
      EXPECT_EQ(odd.error().code,
                group.feature ? ErrorCode::unsupported_feature : ErrorCode::unsupported_value)
          << name;
      EXPECT_TRUE(odd.error().param.ends_with(name)) << odd.error().param;
      EXPECT_NE(odd.error().message.find(note_of(group)), std::string::npos) << odd.error().message;
      EXPECT_TRUE(with_member(group, name, "null")) << name;
      for (const json& nothing : json::parse(group.asks_for_nothing)) {
        const auto read = with_member(group, name, nothing.dump());
        EXPECT_TRUE(read) << name << " " << nothing << ": " << (read ? "" : read.error().message);
        EXPECT_FALSE(read && read->unknown.refusal()) << name;
      }
    }
  EXPECT_EQ(chat_error(R"({"messages":[{"role":"user","content":"Hi","function_call":{"name":"f"}}]})").param,
            "messages[0].function_call");
  EXPECT_EQ(chat_error(R"({"messages":[{"role":"user","content":"Hi"}],"function_call":"auto"})").param,
            "function_call");
}

// A feature that the table comes to serve needs its fields read. A field with a reason of its own asks for a
// part of a feature.
TEST(FieldTable, RefusedFeaturesAreThoseThatNoEngineServes) {
  std::set<config::Feature> refused;
  // A note beside a feature says which field to use instead, so that engines must serve the feature.
  for (const FieldGroup& group : field_table().groups())
    if (group.feature) {
      EXPECT_EQ(group.use, FieldUse::refused) << group.names;
      if (!group.note.empty()) {
        EXPECT_NE(config::capability(*group.feature).served, config::Served::no) << group.names;
        continue;
      }
      EXPECT_EQ(config::capability(*group.feature).served, config::Served::no) << group.names;
      refused.insert(*group.feature);
    }
  EXPECT_TRUE(refused.contains(config::Feature::vision));
  EXPECT_FALSE(refused.contains(config::Feature::schema));
}

// A row that the parser did not read would let every value pass.
TEST(FieldTable, TheParserReadsEachServedFieldOfTheBody) {
  std::size_t read = 0;
  for (const Kind kind : {Kind::chat, Kind::completion})
    for (const std::string_view name :
         field_table().names(FieldOf::body, kind == Kind::chat ? kChat : kCompletions)) {
      const Endpoints endpoint = kind == Kind::chat ? kChat : kCompletions;
      const FieldGroup* const field = field_table().find(FieldOf::body, endpoint, name);
      ASSERT_NE(field, nullptr) << name;
      if (field->use != FieldUse::served) continue;
      json body{{"stream", true}, {kind == Kind::chat ? "messages" : "prompt", "Hi"}};
      if (kind == Kind::chat) body["messages"] = {{{"role", "user"}, {"content", "Hi"}}};
      ASSERT_TRUE(parse(kind, body.dump()));
      body[std::string(name)] = json::parse(kOdd);
      const auto odd = parse(kind, body.dump());
      ASSERT_FALSE(odd) << name;
      EXPECT_TRUE(odd.error().param.starts_with(name)) << name << ": " << odd.error().param;
      ++read;
    }
  EXPECT_GT(read, field_table().parameters().size());
}

TEST(FieldTable, HasEachNameOncePerEndpoint) {
  std::set<std::tuple<FieldOf, Endpoints, std::string>> seen;
  for (const FieldGroup& group : field_table().groups())
    for (const std::string& name : words(group.names))
      for (const Endpoints endpoint : {kChat, kCompletions, kExplain, kTokenize, kDetokenize})
        if ((group.endpoints & endpoint) != 0) {
          EXPECT_TRUE(seen.emplace(group.of, endpoint, name).second) << name;
        }
  for (const Parameter& p : field_table().parameters())
    for (const Endpoints endpoint : {kChat, kCompletions})
      if ((p.endpoints & endpoint) != 0) {
        EXPECT_TRUE(seen.emplace(FieldOf::body, endpoint, std::string(p.name)).second) << p.name;
      }
}

TEST(UnknownFields, AreNamedWithTheirPlaceAndTheirNearestNeighbour) {
  struct Case {
    const char *members, *param, *says;
  };
  for (const Case& c :
       {Case{R"("tempreature":1)", "tempreature",
             "The body has an unknown field \"tempreature\"; did you mean \"temperature\"? "},
        Case{R"("from_2031":[1])", "from_2031", "The body has an unknown field \"from_2031\". "},
        Case{R"("prompt":"x")", "prompt", "\"prompt\", which is one of /v1/completions. "},
        Case{R"("facts":{})", "facts", "\"facts\", which is one of /v1/route/explain. "},
        Case{R"("stream":true,"stream_options":{"include_usge":true})", "stream_options.include_usge",
             "'stream_options' has an unknown field \"include_usge\"; did you mean \"include_usage\"? "},
        Case{R"("response_format":{"type":"text","kind":1})", "response_format.kind",
             "'response_format' has"},
        Case{R"("tools":[{"type":"function","function":{"name":"f","paramters":{}}}])",
             "tools[0].function.paramters",
             "'tools[0].function' has an unknown field \"paramters\"; did you mean \"parameters\"? "},
        Case{R"("tools":[{"type":"function","function":{"name":"f"},"nmae":"x"}])", "tools[0].nmae",
             "'tools[0]' has"}}) {
    const auto read = chat("," + std::string(c.members));
    ASSERT_TRUE(read.unknown.refusal()) << c.members;
    EXPECT_EQ(read.unknown.refusal()->code, ErrorCode::unknown_field);
    EXPECT_EQ(read.unknown.refusal()->param, c.param);
    EXPECT_NE(read.unknown.refusal()->message.find(c.says), std::string::npos)
        << read.unknown.refusal()->message;
    EXPECT_EQ(read.unknown.listed(), std::vector<std::string>{c.param});
  }
  const auto history = parse(
      Kind::chat,
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"a","txt":"b"}]},{"role":"assistant",)"
      R"("tool_cals":[1],"empty":[],"none":null,"blank":"","tool_calls":[{"ix":0,"function":{"name":"f","args":1}}]}]})");
  ASSERT_TRUE(history) << history.error().message;
  EXPECT_EQ(
      history->unknown.listed(),
      (std::vector<std::string>{"messages[0].content[0].txt", "messages[1].tool_cals",
                                "messages[1].tool_calls[0].ix", "messages[1].tool_calls[0].function.args"}));
}

TEST(UnknownFields, AreBoundedInNumberAndLength) {
  std::string members;
  for (int i = 0; i < 20; ++i) members += ",\"x" + std::to_string(i) + "\":1";
  const auto many = chat(members).unknown.listed();
  ASSERT_EQ(many.size(), UnknownFields::kNamed + 1);
  EXPECT_EQ(many.front(), "x0");
  EXPECT_EQ(many.back(), "and 4 more");
  const auto exact = chat(members.substr(0, members.find(",\"x16"))).unknown.listed();
  EXPECT_EQ(exact.back(), "x15");
  std::string umlauts = "a";
  for (int i = 0; i < 1000; ++i) umlauts += "\u00e4";
  const auto lengthy = chat(",\"" + umlauts + "\":1");
  EXPECT_EQ(lengthy.unknown.places().front(), umlauts.substr(0, 99)) << "no character is cut";
  EXPECT_EQ(lengthy.unknown.listed().front(), "(not a name)") << "a receipt keeps no text";
  std::string longer;
  for (int i = 0; i < 12; ++i) longer += ",\"" + std::string(90, 'x') + std::to_string(i) + "\":1";
  EXPECT_EQ(chat(longer).unknown.listed().size(), 7U) << "six places of 91 bytes, and how many more";
  EXPECT_EQ(lengthy.unknown.refusal()->param, umlauts.substr(0, 99));
  EXPECT_LT(lengthy.unknown.refusal()->message.size(), 300U);
}

TEST(UnknownFields, MayBeTheMissingFieldMisspelt) {
  EXPECT_EQ(chat_error(R"({"mesages":[{"role":"user","content":"Hi"}]})").message,
            "'messages' is required, and the body has an unknown field \"mesages\".");
  EXPECT_EQ(chat_error(R"({"other":1})").message, "'messages' is required.");
}

TEST(request, stop_limits) {
  EXPECT_EQ(chat(R"(,"stop":"\n")").base.stop, std::vector<std::string>{"\n"});
  const std::string start = R"({"messages":[{"role":"user","content":"Hi"}],"stop":)";
  EXPECT_EQ(chat(R"(,"stop":["","a"])").base.stop, std::vector<std::string>{"a"});
  EXPECT_EQ(chat_error(start + "\"" + std::string(257, 'x') + "\"}").param, "stop");
  std::string many = "[\"a\"";
  for (int i = 0; i < 16; ++i) many += ",\"a\"";
  EXPECT_EQ(chat_error(start + many + "]}").param, "stop");
}

// The fields of a request, one by one.
std::string summary(const Generate& r) {
  const SamplingParams& s = r.base.sampling;
  json out{{"temperature", s.temperature},
           {"top_p", s.top_p},
           {"top_k", s.top_k},
           {"min_p", s.min_p},
           {"typical_p", s.typical_p},
           {"repetition_penalty", s.repetition_penalty},
           {"frequency_penalty", s.frequency_penalty},
           {"presence_penalty", s.presence_penalty},
           {"seed", r.seeded ? json(s.seed) : json()},
           {"top_logprobs", s.top_logprobs},
           {"max_tokens", r.base.max_tokens},
           {"stop", r.base.stop},
           {"n", r.n},
           {"stream", r.stream.has_value()},
           {"tools", r.has_tools}};
  for (const auto& [token, bias] : s.logit_bias) out["logit_bias"][std::to_string(token)] = bias;
  return out.dump();
}

// Values that clients send for "not set": each request says what the other one does.
TEST(ClientValues, AreReadAsWhatTheyStandFor) {
  struct Case {
    const char *sent, *stands_for;
  };
  for (const Case& c :
       {Case{R"("seed":-1)", ""},
        {R"("seed":null)", ""},
        {R"("temperature":1)", ""},
        {R"("temperature":null)", ""},
        {R"("temperature":0)", R"("temperature":0.0)"},
        {R"("top_k":0)", ""},
        {R"("top_k":-1)", ""},
        {R"("top_k":null)", ""},
        {R"("top_p":1)", ""},
        {R"("top_p":null)", ""},
        {R"("top_p":0)", R"("top_p":1.1754943508222875e-38)"},
        {R"("min_p":0)", ""},
        {R"("min_p":null)", ""},
        {R"("typical_p":1)", ""},
        {R"("repetition_penalty":1)", ""},
        {R"("repeat_penalty":1)", ""},
        {R"("repeat_penalty":1.5)", R"("repetition_penalty":1.5)"},
        {R"("repeat_penalty":1.5,"repetition_penalty":1.5)", R"("repetition_penalty":1.5)"},
        {R"("frequency_penalty":0)", ""},
        {R"("presence_penalty":0)", ""},
        {R"("frequency_penalty":null,"presence_penalty":null)", ""},
        {R"("max_tokens":-1)", ""},
        {R"("max_tokens":null)", ""},
        {R"("max_completion_tokens":-1)", ""},
        {R"("max_completion_tokens":null)", ""},
        {R"("max_tokens":7,"max_completion_tokens":null)", R"("max_tokens":7)"},
        {R"("n_predict":-1)", ""},
        {R"("num_predict":-1)", ""},
        {R"("n_predict":7)", R"("max_tokens":7)"},
        {R"("n_predict":7,"num_predict":7,"max_tokens":7,"max_completion_tokens":7)", R"("max_tokens":7)"},
        {R"("stop":"")", ""},
        {R"("stop":[])", ""},
        {R"("stop":[""])", ""},
        {R"("stop":[null])", ""},
        {R"("stop":null)", ""},
        {R"("stop":["","a"])", R"("stop":"a")"},
        {R"("n":null)", ""},
        {R"("stream":null)", ""},
        {R"("logit_bias":{})", ""},
        {R"("logit_bias":null)", ""},
        {R"("logit_bias":{"5":null})", ""},
        {R"("user":"")", ""},
        {R"("store":false,"service_tier":"auto","metadata":{"a":"b"})", ""},
        {R"("mirostat":0,"mirostat_tau":5.0,"cache_prompt":true)", ""},
        {R"("verbosity":"medium","modalities":[ "text" ],"parallel_tool_calls":false)", ""},
        {R"("tools":[])", ""},
        {R"("tools":[],"tool_choice":"auto")", ""},
        {R"("tools":null,"tool_choice":null)", ""},
        {R"("response_format":{"type":"text"})", ""},
        {R"("response_format":null)", ""},
        {R"("stream_options":null)", ""},
        {R"("stream":true,"stream_options":{"include_usage":null})", R"("stream":true)"},
        {R"("stream":true,"stream_options":{})", R"("stream":true)"},
        {R"("logprobs":null,"top_logprobs":null)", ""},
        {R"("logprobs":false,"top_logprobs":0)", ""},
        {R"("top_logprobs":0)", ""}}) {
    const auto members = [](std::string text) { return text.empty() ? text : "," + text; };
    EXPECT_EQ(summary(chat(members(c.sent))), summary(chat(members(c.stands_for)))) << c.sent;
  }
}

TEST(ClientValues, WithoutAMeaningAreRefusedByName) {
  struct Case {
    const char *sent, *param, *says;
  };
  for (const Case& c :
       {Case{R"("temperature":"0.7")", "temperature", R"(must be a number, not the string "0.7")"},
        {R"("temperature":-1)", "temperature", "is -1, but must be at least 0 and at most 2."},
        {R"("top_k":-2)", "top_k", "is -2, but must be at least 0 and at most 1000000, or -1 (off)."},
        {R"("top_k":"40")", "top_k", R"(not the string "40")"},
        {R"("top_p":-1)", "top_p", "at most 1, or 0 (the likeliest token alone)."},
        {R"("top_p":1.5)", "top_p", "is 1.5"},
        {R"("min_p":-1)", "min_p", "is -1"},
        {R"("max_tokens":0)", "max_tokens", "or -1 (what the context leaves)."},
        {R"("max_tokens":-2)", "max_tokens", "is -2"},
        {R"("max_tokens":"100")", "max_tokens", R"(not the string "100")"},
        {R"("max_completion_tokens":0)", "max_completion_tokens", "is 0"},
        {R"("n_predict":0)", "n_predict", "is 0"},
        {R"("num_predict":-2)", "num_predict", "is -2"},
        {R"("max_tokens":5,"n_predict":6)", "n_predict", "contradicts 'max_tokens'"},
        {R"("max_tokens":-1,"max_completion_tokens":6)", "max_completion_tokens", "contradicts 'max_tokens'"},
        {R"("repetition_penalty":0)", "repetition_penalty", "must be greater than 0"},
        {R"("repeat_penalty":0)", "repeat_penalty", "must be greater than 0"},
        {R"("repeat_penalty":1,"repetition_penalty":1.1)", "repeat_penalty",
         "contradicts 'repetition_penalty'"},
        {R"("frequency_penalty":3)", "frequency_penalty", "is 3"},
        {R"("stop":7)", "stop", "must be a string or an array of strings"},
        {R"("n":0)", "n", "is 0"},
        {R"("stream":"true")", "stream", R"(not the string "true")"},
        {R"("seed":"1")", "seed", "must be a 64-bit integer"},
        {R"("logit_bias":{"5":"1"})", "logit_bias", "from -100 to 100"},
        {R"("response_format":{})", "response_format", "must be an object with a 'type'"},
        {R"("top_logprobs":1)", "top_logprobs", "when 'logprobs' is true"}}) {
    const Error error =
        chat_error(R"({"messages":[{"role":"user","content":"Hi"}],)" + std::string(c.sent) + "}");
    EXPECT_EQ(error.code, ErrorCode::invalid_value) << c.sent;
    EXPECT_EQ(error.param, c.param) << c.sent;
    EXPECT_NE(error.message.find(c.says), std::string::npos) << c.sent << ": " << error.message;
  }
}

TEST(ClientValues, ACompletionWithoutATokenLimitIsNoDefaultOne) {
  const auto limit = [](const std::string& members) {
    const auto out = parse(Kind::completion, R"({"prompt":"Hi")" + members + "}");
    EXPECT_TRUE(out) << members;
    return out ? out->base.max_tokens : UINT32_MAX;
  };
  EXPECT_EQ(limit(""), 16U);
  EXPECT_EQ(limit(R"(,"max_tokens":null)"), 16U);
  EXPECT_EQ(limit(R"(,"max_tokens":-1)"), 0U) << "what the context leaves";
  EXPECT_EQ(limit(R"(,"n_predict":-1)"), 0U);
  EXPECT_EQ(limit(R"(,"n_predict":9)"), 9U);
}

TEST(ClientValues, ACompletionOfNoTokensHasAnEmptyAnswer) {
  const auto empty = [](Kind kind, const std::string& body) {
    const auto out = parse(kind, body);
    return out ? std::optional(out->base.empty_answer) : std::nullopt;
  };
  EXPECT_EQ(empty(Kind::completion, R"({"prompt":"Hi","max_tokens":0})"), true);
  EXPECT_EQ(empty(Kind::completion, R"({"prompt":"Hi","max_tokens":0,"n_predict":null})"), true);
  for (const char* other : {"", R"(,"max_tokens":null)", R"(,"max_tokens":1)", R"(,"max_tokens":-1)"})
    EXPECT_EQ(empty(Kind::completion, R"({"prompt":"Hi")" + std::string(other) + "}"), false) << other;
  // Other servers differ on whether these mean none or all.
  EXPECT_FALSE(empty(Kind::completion, R"({"prompt":"Hi","n_predict":0})"));
  EXPECT_FALSE(empty(Kind::completion, R"({"prompt":"Hi","max_tokens":0,"n_predict":5})"));
  EXPECT_FALSE(empty(Kind::chat, R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":0})"));
}

TEST(request, echo) {
  EXPECT_FALSE(parse(Kind::completion, R"({"prompt":"a"})")->base.echo);
  const auto out = parse(Kind::completion, R"({"prompt":[1,2],"echo":true,"logprobs":1,"max_tokens":0})");
  ASSERT_TRUE(out);
  EXPECT_TRUE(out->base.echo);
  EXPECT_EQ(out->base.sampling.top_logprobs, 1);
}

TEST(request, ASuffixMakesPromptsWithAGap) {
  const auto out = parse(Kind::completion, R"({"prompt":["a","bc"],"suffix":"d\u00e9f","n":2})");
  ASSERT_TRUE(out);
  ASSERT_EQ(out->prompts.size(), 2U);
  const auto& first = std::get<InfillPrompt>(out->prompts[0]);
  const auto& second = std::get<InfillPrompt>(out->prompts[1]);
  EXPECT_EQ(first.before, "a");
  EXPECT_EQ(second.before, "bc");
  EXPECT_EQ(*second.after, "déf");
  EXPECT_EQ(first.after, second.after) << "one text for the batch";
  EXPECT_EQ(out->prompt_bytes, 1U + 2U + 2 * 4U) << "each prompt has it";
  for (const char* nothing : {R"(,"suffix":"")", R"(,"suffix":null)", R"(,"suffix":"","echo":true)"}) {
    const auto plain = parse(Kind::completion, R"({"prompt":"a")" + std::string(nothing) + "}");
    ASSERT_TRUE(plain) << nothing;
    EXPECT_TRUE(std::holds_alternative<TextPrompt>(plain->prompts[0])) << nothing;
  }
  const auto odd = parse(Kind::completion, R"({"prompt":"a","suffix":7})");
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().code, ErrorCode::invalid_value);
  EXPECT_EQ(odd.error().param, "suffix");
}

TEST(request, too_many_choices) {
  auto out = parse(Kind::completion, R"({"prompt":["a","b","c"],"n":8})");
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().param, "n");
}

TEST(request, messages_keep_their_own_order) {
  const std::string messages =
      R"([{"content":"b \u00e9","role":"system"}, {"role":"assistant","tool_calls":[{"id":"1","function":{"z":1,"name":"f","arguments":{"z":1,"a":2}}}],"content":null}])";
  auto out = parse(
      Kind::chat,
      R"({"messages":)" + messages +
          R"(,"tools":[{"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}}],"chat_template_kwargs":{"thinking":false}})");
  ASSERT_TRUE(out);
  const auto& prompt = std::get<ChatPrompt>(out->prompts.at(0));
  EXPECT_EQ(
      text_of(prompt.messages),
      R"([{"content":"b é","role":"system"},{"role":"assistant","tool_calls":[{"id":"1","function":{"z":1,"name":"f","arguments":{"z":1,"a":2}},"type":"function"}],"content":""}])");
  EXPECT_EQ(text_of(prompt.tools),
            R"([{"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}}])");
  EXPECT_EQ(text_of(prompt.template_args), R"({"thinking":false})");
  EXPECT_TRUE(out->has_tools);
}

// They would bring unchecked messages past the checks.
TEST(request, template_variables_of_our_own_are_not_replaced) {
  for (const std::string name : {"messages", "tools", "bos_token", "eos_token"}) {
    auto out = parse(Kind::chat, R"({"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{")" +
                                     name + R"(":[{"role":"wizard"}]}})");
    ASSERT_FALSE(out) << name;
    EXPECT_EQ(out.error().code, ErrorCode::invalid_value);
    EXPECT_EQ(out.error().param, "chat_template_kwargs." + name);
  }
}

// The router's prompt_bytes: a message counts as it is passed on.
TEST(request, messages_count_without_the_blanks_between_members) {
  const auto bytes = [](const std::string& messages) {
    auto out = parse(Kind::chat, R"({"messages":)" + messages + "}");
    EXPECT_TRUE(out) << messages;
    return out ? out->prompt_bytes : 0;
  };
  const auto size = [](std::string_view text) { return text.size(); };
  EXPECT_EQ(bytes(R"([ { "role" : "user" , "content" : "a" } ])"),
            size(R"([{"role":"user","content":"a"}])"));
  EXPECT_EQ(bytes(R"([ { "role" : "developer" , "content" : "a\n" } , { "role":"user", "content":"b" }])"),
            size(R"([{"role":"system","content":"a\n"},{"role":"user","content":"b"}])"));
  EXPECT_EQ(
      bytes(
          R"([{ "role" : "user", "content" : [ {"type": "text", "text": "x\""} , {"type":"text","text":"y"} ] }])"),
      size(R"([{"role":"user","content":"x\"\ny"}])"));
  EXPECT_EQ(
      bytes(
          R"([{"role": "developer", "content": "a", "x": -1, "y": 18446744073709551615, "z": [ 0.5, null ], "u": null, "v": true, "w": false, "q": 2.5}])"),
      size(
          R"([{"role":"system","content":"a","x":-1,"y":18446744073709551615,"z":[ 0.5, null ],"v":true,"w":false,"q":2.5}])"));
}

TEST(request, tools) {
  const std::string start = R"({"messages":[{"role":"user","content":"Hi"}],)";
  EXPECT_EQ(chat_error(start + R"("tools":[{"type":"browser"}]})").param, "tools[0].type");
  EXPECT_EQ(chat_error(start + R"("tools":[{"type":"function"}]})").param, "tools[0].function");
  EXPECT_EQ(chat_error(start + R"("functions":[]})").code, ErrorCode::unsupported_value);
  const auto tools =
      chat(R"(,"tools":[{"type":"function","strict":null,"function":{"name":"f","description":null,)"
           R"("strict":null,"parameters":{"default":null}}}])");
  EXPECT_EQ(test::text_of(std::get<ChatPrompt>(tools.prompts.at(0)).tools),
            R"([{"type":"function","function":{"name":"f","parameters":{"default":null}}}])");
}

constexpr const char* kTwoTools =
    R"(,"tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}])";

// The tools and the choice, as a text.
std::string tools_of(const std::string& members) {
  const Generate r = chat(kTwoTools + members);
  const auto& prompt = std::get<ChatPrompt>(r.prompts.at(0));
  EXPECT_EQ(r.has_tools, r.tools != nullptr) << members;
  if (!r.tools) {
    EXPECT_TRUE(prompt.tools.empty()) << members;
    return "none";
  }
  EXPECT_EQ(text_of(prompt.tools), text_of(r.tools->tools)) << members;
  std::string out = r.tools->choice == ToolSet::Choice::required ? "required" : "auto";
  if (!r.tools->named.empty()) out += " " + r.tools->named;
  for (const json& tool : json::parse(text_of(r.tools->tools)))
    out += " [" + tool["function"]["name"].get<std::string>() + "]";
  if (!r.tools->parallel) out += " one";
  if (r.tools->strict) out += " strict";
  return out;
}

TEST(ToolChoice, SaysWhichToolsAreCalled) {
  EXPECT_EQ(tools_of(""), "auto [a] [b]");
  EXPECT_EQ(tools_of(R"(,"tool_choice":"auto","parallel_tool_calls":true)"), "auto [a] [b]");
  EXPECT_EQ(tools_of(R"(,"tool_choice":"none")"), "none");
  EXPECT_EQ(tools_of(R"(,"tool_choice":"required","parallel_tool_calls":false)"), "required [a] [b] one");
  EXPECT_EQ(tools_of(R"(,"tool_choice":{"type":"function","function":{"name":"b"}})"), "required b [a] [b]");
  const auto allowed = [](const char* mode) {
    return R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":")" + std::string(mode) +
           R"(","tools":[{"type":"function","function":{"name":"b"}}]}})";
  };
  EXPECT_EQ(tools_of(allowed("auto")), "auto [b]") << "the model is not told of the other";
  EXPECT_EQ(tools_of(allowed("required")), "required [b]");
  EXPECT_EQ(tools_of(R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[
      {"type":"function","function":{"name":"b","description":"B.","strict":true,"parameters":{"type":"object"}}}]}})"),
            "auto [b]")
      << "a whole tool, as OpenAI's type has it";
  EXPECT_FALSE(chat(R"(,"tools":[],"parallel_tool_calls":false)").tools);
}

TEST(ToolChoice, WithoutAMeaningIsRefusedByName) {
  struct Case {
    const char *choice, *param;
    ErrorCode code = ErrorCode::invalid_value;
  };
  const std::string start = R"({"messages":[{"role":"user","content":"Hi"}])";
  for (
      const Case& c :
      {Case{R"("any")", "tool_choice"}, Case{"7", "tool_choice"}, Case{"{}", "tool_choice"},
       Case{R"({"type":"custom","custom":{"name":"a"}})", "tool_choice.type", ErrorCode::unsupported_value},
       Case{R"({"type":"function"})", "tool_choice.function"},
       Case{R"({"type":"function","function":{"name":"c"}})", "tool_choice.function.name"},
       Case{R"({"type":"allowed_tools"})", "tool_choice.allowed_tools"},
       Case{R"({"type":"allowed_tools","allowed_tools":{"mode":"any"}})", "tool_choice.allowed_tools.mode"},
       Case{R"({"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}})",
            "tool_choice.allowed_tools.tools"},
       Case{
           R"({"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"c"}}]}})",
           "tool_choice.allowed_tools.tools[0].function.name"}}) {
    const Error error = chat_error(start + kTwoTools + R"(,"tool_choice":)" + c.choice + "}");
    EXPECT_EQ(error.code, c.code) << c.choice;
    EXPECT_EQ(error.param, c.param) << c.choice;
  }
  EXPECT_EQ(chat_error(start + R"(,"tool_choice":"required"})").param, "tool_choice");
  EXPECT_EQ(chat_error(start + R"(,"tools":[],"tool_choice":"required"})").param, "tool_choice");
  EXPECT_EQ(chat_error(start + R"(,"tool_choice":{"type":"function","function":{"name":"a"}}})").param,
            "tool_choice.function.name");
  EXPECT_EQ(chat_error(start + R"(,"parallel_tool_calls":1})").param, "parallel_tool_calls");
}

TEST(Tools, HaveNamesOfTheirOwnAndSchemas) {
  const auto refused = [](const std::string& functions) {
    const Error error =
        chat_error(R"({"messages":[{"role":"user","content":"Hi"}],"tools":[)" + functions + "]}");
    EXPECT_EQ(error.code, ErrorCode::invalid_value) << functions;
    return error.param;
  };
  const auto tool = [](const std::string& name, const std::string& more = "") {
    return R"({"type":"function","function":{"name":")" + name + "\"" + more + "}}";
  };
  EXPECT_TRUE(chat(R"(,"tools":[)" + tool("mcp__a.b-c_9") + "," + tool(std::string(128, 'x')) + "]").tools);
  EXPECT_EQ(refused(tool("")), "tools[0].function.name");
  EXPECT_EQ(refused(tool("a b")), "tools[0].function.name");
  EXPECT_EQ(refused(tool(std::string(129, 'x'))), "tools[0].function.name");
  EXPECT_EQ(refused(tool("a") + "," + tool("b") + "," + tool("a")), "tools[2].function.name");
  EXPECT_EQ(refused(tool("a", R"(,"parameters":"{}")")), "tools[0].function.parameters");
  EXPECT_EQ(refused(tool("a", R"(,"strict":"yes")")), "tools[0].function.strict");
  EXPECT_TRUE(chat(R"(,"tools":[)" + tool("a") + "," + tool("b", R"(,"strict":true)") + "]").tools->strict);
  EXPECT_FALSE(chat(R"(,"tools":[)" + tool("a", R"(,"strict":false,"parameters":null)") + "]").tools->strict);
}

TEST(ReasoningEffort, IsToldToTheTemplateUnderTheNamesThatTemplatesRead) {
  const auto told = [](const std::string& members) {
    return text_of(std::get<ChatPrompt>(chat(members).prompts.at(0)).template_args);
  };
  EXPECT_EQ(told(""), "");
  EXPECT_EQ(told(R"(,"reasoning_effort":"high")"),
            R"({"reasoning_effort":"high","enable_thinking":true,"thinking":true})");
  EXPECT_EQ(told(R"(,"reasoning_effort":"none")"), R"({"enable_thinking":false,"thinking":false})");
  EXPECT_EQ(told(R"(,"reasoning_effort":"xhigh")"),
            R"({"reasoning_effort":"high","enable_thinking":true,"thinking":true})");
  EXPECT_EQ(told(R"(,"reasoning_effort":"low","chat_template_kwargs":{"thinking":null,"a":1})"),
            R"({"thinking":null,"a":1,"reasoning_effort":"low","enable_thinking":true})")
      << "the client's own variables win";
  EXPECT_EQ(chat_error(R"({"messages":[{"role":"user","content":"Hi"}],"reasoning_effort":"much"})").param,
            "reasoning_effort");
}

TEST(request, messages_at_all) {
  EXPECT_EQ(chat_error("{}").code, ErrorCode::missing_field);
  EXPECT_EQ(chat_error(R"({"messages":[]})").param, "messages");
  EXPECT_EQ(chat_error(R"({"messages":[{"role":"user","content":"a"},7]})").param, "messages[1]");
  const std::string called =
      R"({"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":)";
  EXPECT_EQ(parse(Kind::chat, called + R"("x"}}]}]})")->note,
            "messages[0].tool_calls[0].function.arguments is not readable as a JSON object; it goes to the "
            "model's template as text.");
}

TEST(request, what_completions_do_not_serve) {
  const std::pair<const char*, const char*> bodies[] = {
      {R"({"prompt":"a","best_of":2})", "best_of"},
      {R"({"prompt":"a","suffix":"b","echo":true})", "echo"},
      {R"({"prompt":[1,2],"suffix":"b"})", "suffix"},
      {R"({"prompt":["a",[1]],"suffix":"b"})", "suffix"}};
  for (const auto& [body, param] : bodies) {
    auto out = parse(Kind::completion, body);
    ASSERT_FALSE(out) << body;
    EXPECT_EQ(out.error().code, ErrorCode::unsupported_value);
    EXPECT_EQ(out.error().param, param);
  }
  for (const char* prompt : {"7", "[]", "[\"a\",7]", "[-1]", "[1.5]", "[[]]", "[1,\"a\"]", "[3000000000]"}) {
    auto out = parse(Kind::completion, R"({"prompt":)" + std::string(prompt) + "}");
    ASSERT_FALSE(out) << prompt;
    EXPECT_EQ(out.error().param, "prompt");
  }
}

TEST(openai_writer, legacy_top_logprobs_have_no_duplicate_keys) {
  Writer writer(Kind::completion, true, false);
  writer.begin({"req-1", 1, "m", 1});
  Choice choice;
  choice.logprobs.append({1, "\xff", -1.0F, {{"\xff", -1.0F}, {"\xfe", -2.0F}}});
  std::string body;
  EXPECT_FALSE(writer.whole({&choice, 1}, {}, body)) << "there is no second piece";
  EXPECT_TRUE(read_json(body)) << body;  // which refuses duplicates
}

TEST(openai_writer, impossible_logprobs_are_finite) {
  Writer writer(Kind::chat, true, false);
  writer.begin({"req-1", 1, "m", 1});
  Choice choice;
  choice.logprobs.append({1, "a", -std::numeric_limits<float>::infinity(), {}});
  std::string body;
  EXPECT_FALSE(writer.whole({&choice, 1}, {}, body));
  EXPECT_EQ(json::parse(body)["choices"][0]["logprobs"]["content"][0]["logprob"], -9999.0);
}

}  // namespace
}  // namespace flyball::api::openai
