#include "daemon/api/openai/responses_fields.hpp"

#include <array>

#include "daemon/api/parameters.hpp"

namespace flyball::api::openai::responses {
namespace {

using enum FieldOf;
using enum FieldUse;
using config::Feature;

constexpr std::string_view kNothingKept =
    "is not served: no answer is kept; send the earlier items in 'input'";
constexpr std::string_view kBesideContent = "answers carry them beside what is read";

constexpr std::array kGroups{
    FieldGroup{body, kCreate, served,
               "model input instructions include tools tool_choice parallel_tool_calls text reasoning "
               "stream_options metadata seed stop chat_template_kwargs"},
    FieldGroup{body, kCreate, accepted, "user safety_identifier client_metadata request_id",
               "labels of the client's own: a key says which app asks, and an answer has an id of its own"},
    FieldGroup{body, kCreate, accepted, "service_tier",
               "the app's `weight` in its manifest is its share of an engine"},
    FieldGroup{body, kCreate, accepted, "prompt_cache_key prompt_cache_options prompt_cache_retention",
               "an app's prompts that begin alike share their KV unasked, and answers are the same without"},
    FieldGroup{body, kCreate, accepted, "keep_alive",
               "`idle_unload` of config.yaml says when an engine ends"},
    FieldGroup{body, kCreate, accepted, "max_tool_calls",
               "it limits the tools that OpenAI's servers run; here the client runs all of them"},
    FieldGroup{body, kCreate, accepted, "context_management",
               "a prompt is never cut or summarized: one that is too long is refused"},
    FieldGroup{body, kCreate, refused, "store", kNothingKept, "[false]"},
    FieldGroup{body, kCreate, refused, "previous_response_id conversation", kNothingKept, R"([""])"},
    FieldGroup{body, kCreate, refused, "background",
               "is not served: no answer is kept; read it as a stream, or whole", "[false]"},
    FieldGroup{body, kCreate, refused, "prompt",
               "is not served: no prompt is kept; send it as 'instructions' and 'input'"},
    FieldGroup{body, kCreate, refused, "truncation", "is not served: a prompt is never cut",
               R"(["disabled"])"},
    FieldGroup{body, kCreate, refused, "moderation", "is not served: nothing is moderated"},
    FieldGroup{body, kCreate, refused, "n", "is not served: a response is one answer", "[1]"},
    FieldGroup{body, kCreate, refused, "messages", "is not served; use 'input'"},
    FieldGroup{body, kCreate, refused, "max_tokens max_completion_tokens",
               "is not served; use 'max_output_tokens'"},
    FieldGroup{body, kCreate, refused, "response_format", "is not served; use 'text.format'"},
    FieldGroup{body, kCreate, refused, "reasoning_effort", "is not served; use 'reasoning.effort'"},
    FieldGroup{body, kCreate, refused, "verbosity", "is not served: say it in 'instructions'",
               R"(["medium"])"},
    FieldGroup{body, kCreate, refused, "logprobs",
               "is not served; use 'include' with \"message.output_text.logprobs\"", "[false]"},
    FieldGroup{body, kCreate, refused, "extra_body",
               "is an option of clients and no field: name its members in the body itself", "[{}]"},

    FieldGroup{stream_options, kCreate, accepted, "include_obfuscation",
               "pads events against listeners on the way; nothing is padded here"},
    FieldGroup{stream_options, kCreate, accepted, "include_usage", "the last event has the usage unasked"},

    FieldGroup{text, kCreate, served, "format"},
    FieldGroup{text, kCreate, refused, "verbosity", "is not served: say it in 'instructions'",
               R"(["medium"])"},
    FieldGroup{text_format, kCreate, served, "type schema"},
    FieldGroup{text_format, kCreate, accepted, "strict", "every schema is enforced exactly"},
    FieldGroup{text_format, kCreate, accepted, "name description",
               "the schema's labels are no part of the prompt"},
    FieldGroup{reasoning, kCreate, served, "effort summary generate_summary"},
    FieldGroup{reasoning, kCreate, accepted, "context",
               "the model's template decides which turns' reasoning it reads"},
    FieldGroup{reasoning, kCreate, refused, "mode", "is not served: an answer is computed once",
               R"(["standard"])"},

    FieldGroup{tool, kCreate, served, "type name description parameters strict"},
    FieldGroup{tool, kCreate, accepted, "output_schema cache_control",
               "results are read as text, and prompts that begin alike share their KV unasked"},
    FieldGroup{tool, kCreate, refused, "function",
               "is the form of /v1/chat/completions: here a tool has 'name' and 'parameters' itself"},
    FieldGroup{tool, kCreate, refused, "defer_loading", "is not served: the prompt has every tool",
               "[false]"},
    FieldGroup{tool, kCreate, refused, "allowed_callers", "is not served: the model alone calls tools",
               R"([[], ["direct"]])"},
    FieldGroup{tool_namespace, kCreate, served, "type name description tools"},
    FieldGroup{tool_choice, kCreate, served, "type name mode tools"},
    FieldGroup{allowed_tool, kCreate, served, "type name"},

    FieldGroup{input_message, kCreate, served, "type role content"},
    FieldGroup{input_message, kCreate, accepted, "id status phase end_turn", kBesideContent},
    FieldGroup{input_call, kCreate, served, "type call_id name namespace arguments"},
    FieldGroup{input_call, kCreate, accepted, "id status caller created_by parsed_arguments", kBesideContent},
    FieldGroup{input_result, kCreate, served, "type call_id output"},
    FieldGroup{input_result, kCreate, accepted, "id status caller created_by", kBesideContent},
    FieldGroup{input_reasoning, kCreate, served, "type content summary encrypted_content"},
    FieldGroup{input_reasoning, kCreate, accepted, "id status", kBesideContent},
    FieldGroup{input_part, kCreate, served, "type text refusal"},
    FieldGroup{input_part, kCreate, accepted, "annotations logprobs parsed", kBesideContent},
    FieldGroup{input_part, kCreate, accepted, "prompt_cache_breakpoint cache_control",
               "an app's prompts that begin alike share their KV unasked"},
};

using S = SamplingParams;

constexpr std::array kParameters{
    Parameter{"max_output_tokens", kCreate, 1, kMaxTokens, false, "what the context leaves",
              &Scalars::max_tokens, kNoLimit},
    Parameter{"temperature", kCreate, 0, 2, false, "1", &S::temperature},
    Parameter{"top_p", kCreate, 0, 1, true, "1", &S::top_p, kLikeliestAlone},
    Parameter{"top_k", kCreate, 0, 1'000'000, false, "0 (off)", &S::top_k, kOff},
    Parameter{"min_p", kCreate, 0, 1, false, "0 (off)", &S::min_p},
    Parameter{"typical_p", kCreate, 0, 1, true, "1 (off)", &S::typical_p},
    Parameter{"repetition_penalty", kCreate, 0, 2, true, "1 (off)", &S::repetition_penalty},
    Parameter{"frequency_penalty", kCreate, -2, 2, false, "0", &S::frequency_penalty},
    Parameter{"presence_penalty", kCreate, -2, 2, false, "0", &S::presence_penalty},
    Parameter{"top_logprobs", kCreate, 0, 20, false, "0", &Scalars::top_logprobs},
    Parameter{"stream", kCreate, 0, 1, false, "false", &Scalars::stream},
    Parameter{"ignore_eos", kCreate, 0, 1, false, "false", &Scalars::ignore_eos},
};

constexpr std::array kPaths{FieldTable::Path{kCreate, "/v1/responses"}};

}  // namespace

const FieldTable& field_table() {
  static const FieldTable table(kGroups, kParameters, kPaths);
  return table;
}

}  // namespace flyball::api::openai::responses
