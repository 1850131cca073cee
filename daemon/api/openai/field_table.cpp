#include "daemon/api/openai/field_table.hpp"

#include <array>

#include "daemon/api/parameters.hpp"

namespace flyball::api::openai {
namespace {

using enum FieldOf;
using enum FieldUse;
using config::Feature;

constexpr std::string_view kNoLazyGrammar =
    "is not served: a grammar holds for the whole answer; 'structural_tag' constrains parts of one";
constexpr std::string_view kNoWhitespacePattern =
    "is not served; 'structured_outputs' has 'disable_any_whitespace'";
constexpr std::string_view kOwnFields =
    "is not served; 'guided_json', 'guided_regex', 'guided_choice' and 'guided_grammar' are";
constexpr std::string_view kReasoningApart =
    "is not served: 'reasoning_content' of an answer has what the model reasons";
constexpr std::string_view kReasoningInText = "is not served: what the model reasons is part of the text";
constexpr std::string_view kUseResponseFormat = "is not served; use 'response_format'";
constexpr std::string_view kAlwaysStrict = "every schema is enforced exactly";
constexpr std::string_view kSchemaLabels = "the schema's labels are no part of the prompt";

constexpr std::array kGroups{
    // The body.
    FieldGroup{body, kEverywhere, served, "model"},
    FieldGroup{body, kChat, served,
               "messages tools tool_choice parallel_tool_calls chat_template_kwargs reasoning_effort "
               "add_generation_prompt"},
    FieldGroup{body, kCompletions | kTokenize, served, "prompt"},
    FieldGroup{body, kCompletions, served, "suffix"},
    FieldGroup{body, kTokenize, served, "content add_special"},
    FieldGroup{body, kDetokenize, served, "tokens"},
    FieldGroup{body, kBoth, served, "logit_bias response_format seed stop stream_options"},
    FieldGroup{body, kBoth, served,
               "guided_json guided_regex guided_choice guided_grammar structured_outputs grammar json_schema "
               "regex ebnf structural_tag"},
    FieldGroup{body, kExplain, served, "facts"},

    FieldGroup{body, kBoth, accepted, "user safety_identifier metadata request_id",
               "labels of the client's own: a key says which app asks, and an answer has an id of its own"},
    FieldGroup{body, kBoth, accepted, "service_tier",
               "the app's `weight` in its manifest is its share of an engine"},
    FieldGroup{body, kBoth, accepted,
               "prompt_cache_key prompt_cache_options prompt_cache_retention cache_prompt id_slot",
               "an app's prompts that begin alike share their KV unasked, and answers are the same without"},
    FieldGroup{body, kBoth, accepted, "keep_alive", "`idle_unload` of config.yaml says when an engine ends"},
    FieldGroup{body, kChat, accepted, "prediction", "a hint for speed; the answer is the same"},
    FieldGroup{body, kBoth, accepted, "spaces_between_special_tokens",
               "control tokens are no part of an answer's text"},
    FieldGroup{body, kBoth, accepted,
               "mirostat_tau mirostat_eta dynatemp_exponent dry_base dry_allowed_length dry_penalty_last_n "
               "dry_sequence_breakers xtc_threshold",
               "details of features that are refused by their own names"},
    FieldGroup{body, kBoth, accepted, "guided_decoding_backend", "one compiler reads every constraint"},

    FieldGroup{body, kChat, refused, "functions function_call", "is deprecated and not served; use 'tools'"},
    FieldGroup{body, kBoth, refused, "audio", "", "[]", Feature::speech_output},
    FieldGroup{body, kBoth, refused, "modalities", "", R"([["text"]])", Feature::speech_output},
    FieldGroup{body, kBoth, refused, "image_data images mm_processor_kwargs", "", "[[]]", Feature::vision},
    FieldGroup{body, kBoth, refused, "store", "is not served: no answer is kept", "[false]"},
    FieldGroup{body, kBoth, refused, "moderation", "is not served: nothing is moderated"},
    FieldGroup{body, kBoth, refused, "web_search_options plugins", "is not served: nothing is fetched"},
    FieldGroup{body, kBoth, refused, "verbosity", "is not served: say it in a message", R"(["medium"])"},
    FieldGroup{
        body, kChat, refused, "reasoning thinking think enable_thinking",
        "is not served; use 'reasoning_effort', or 'chat_template_kwargs' for a template's own variables"},
    FieldGroup{body, kChat, refused, "include_reasoning separate_reasoning", kReasoningApart, "[true]"},
    FieldGroup{body, kChat, refused, "reasoning_format", kReasoningApart, R"(["auto", "deepseek"])"},
    FieldGroup{body, kCompletions, refused, "reasoning_effort reasoning thinking think enable_thinking",
               "is not served: no template reads it"},
    FieldGroup{body, kCompletions, refused, "include_reasoning", kReasoningInText, "[true]"},
    FieldGroup{body, kCompletions, refused, "separate_reasoning", kReasoningInText, "[false]"},
    FieldGroup{body, kCompletions, refused, "reasoning_format", kReasoningInText, R"(["none"])"},
    FieldGroup{body, kBoth, refused, "format", kUseResponseFormat, R"([""])", Feature::schema},
    FieldGroup{body, kBoth, refused, "guided_decoding", kOwnFields, "[]", Feature::schema},
    FieldGroup{body, kBoth, refused, "guided_json_object", kUseResponseFormat, "[false]", Feature::schema},
    FieldGroup{body, kBoth, refused, "grammar_lazy", kNoLazyGrammar, "[false]", Feature::schema},
    FieldGroup{body, kBoth, refused, "grammar_triggers", kNoLazyGrammar, "[[]]", Feature::schema},
    FieldGroup{body, kBoth, refused, "guided_whitespace_pattern", kNoWhitespacePattern, R"([""])",
               Feature::schema},
    FieldGroup{body, kBoth, refused, "draft_model speculative", "", "[]", Feature::draft_model},
    FieldGroup{body, kBoth, refused, "chat_template", "is not served: the model's file has its template"},
    FieldGroup{body, kBoth, refused, "documents",
               "is not served: a template that reads it takes it from 'chat_template_kwargs'", "[[]]"},
    FieldGroup{body, kBoth, refused, "continue_final_message",
               "is not served: an answer begins a turn of its own", "[false]"},
    FieldGroup{body, kChat, refused, "add_special_tokens", "is not served: the template has them", "[false]"},
    FieldGroup{body, kCompletions, refused, "add_special_tokens",
               "is not served: the model's tokenizer decides about them", "[true]"},
    FieldGroup{body, kTokenize, served, "add_special_tokens"},
    FieldGroup{body, kTokenize, refused, "parse_special",
               "is not served: control tokens in a text are read as /v1/completions reads them", "[true]"},
    FieldGroup{body, kTokenize, refused, "return_token_strs with_pieces",
               "is not served: '/detokenize' tells the text of tokens", "[false]"},
    FieldGroup{body, kBoth, refused, "skip_special_tokens",
               "is not served: control tokens are no part of an answer's text", "[true]"},
    FieldGroup{body, kBoth, refused, "stop_token_ids bad_words", "is not served; use 'stop' or 'logit_bias'",
               "[[]]"},
    FieldGroup{body, kBoth, refused, "include_stop_str_in_output",
               "is not served: a stop string is no part of an answer's text", "[false]"},
    FieldGroup{body, kBoth, refused, "allowed_token_ids logits_processors", "is not served; use 'logit_bias'",
               "[[]]"},
    FieldGroup{body, kBoth, refused, "min_tokens", "is not served; 'ignore_eos' is", "[0]"},
    FieldGroup{body, kBoth, refused, "t_max_predict_ms", "is not served; use 'max_tokens'", "[-1, 0]"},
    FieldGroup{body, kBoth, refused, "n_indent", "is not served", "[0]"},
    FieldGroup{body, kBoth, refused, "truncate_prompt_tokens n_keep n_discard",
               "is not served: a prompt is never cut", "[-1, 0]"},
    FieldGroup{body, kBoth, refused, "prompt_logprobs", "is not served: use 'echo' with 'logprobs'"},
    FieldGroup{body, kBoth, refused, "n_probs", "is not served; use 'logprobs'", "[0]"},
    FieldGroup{
        body, kBoth, refused,
        "return_tokens_as_token_ids return_token_ids return_tokens return_progress post_sampling_probs "
        "timings_per_token",
        "is not served: an answer has the API's own members alone", "[false]"},
    FieldGroup{body, kBoth, refused, "response_fields",
               "is not served: an answer has the API's own members alone", "[[]]"},
    FieldGroup{body, kBoth, refused, "use_beam_search early_stopping", "is not served: answers are sampled",
               "[false]"},
    FieldGroup{body, kBoth, refused, "length_penalty tfs_z", "is not served: no sampler here has it", "[1]"},
    FieldGroup{body, kBoth, refused, "mirostat dynatemp_range dry_multiplier xtc_probability top_a min_keep",
               "is not served: no sampler here has it", "[0]"},
    FieldGroup{body, kBoth, refused, "top_n_sigma", "is not served: no sampler here has it", "[-1, 0]"},
    FieldGroup{body, kBoth, refused, "samplers sampler_seq", "is not served: samplers have one order"},
    FieldGroup{body, kBoth, refused, "repeat_last_n",
               "is not served: 'repeat_penalty' sees the whole sequence", "[-1]"},
    FieldGroup{body, kBoth, refused, "penalize_nl", "is not served: newlines are tokens as others", "[true]"},
    FieldGroup{body, kBoth, refused, "priority", "is not served: policy and manifest order requests", "[0]"},
    FieldGroup{body, kBoth, refused, "cache_salt",
               "is not served: KV is never shared between apps, and always within one"},
    FieldGroup{body, kBoth, refused, "lora lora_request adapters", "", "[[]]", Feature::adapters},
    FieldGroup{body, kBoth, refused, "kv_transfer_params vllm_xargs", "is not served: it is vLLM's own"},
    FieldGroup{body, kBoth, refused, "options", "is not served: name its members in the body itself", "[{}]"},
    FieldGroup{body, kBoth, refused, "extra_body",
               "is an option of clients and no field: name its members in the body itself", "[{}]"},
    FieldGroup{body, kBoth, refused, "provider models route transforms",
               "is not served: the operator's policy decides where a request goes"},

    // The objects in the body.
    FieldGroup{stream_options, kBoth, served, "include_usage"},
    FieldGroup{stream_options, kBoth, accepted, "include_obfuscation",
               "pads events against listeners on the way; nothing is padded here"},
    FieldGroup{stream_options, kBoth, refused, "continuous_usage_stats",
               "is not served: usage comes once, at the end", "[false]"},

    FieldGroup{response_format, kBoth, served, "type json_schema schema structures triggers format"},
    FieldGroup{response_format, kBoth, accepted, "strict", kAlwaysStrict},
    FieldGroup{response_format, kBoth, accepted, "name description", kSchemaLabels},
    FieldGroup{response_format, kBoth, refused, "value grammar regex pattern", kOwnFields, "[]",
               Feature::schema},
    FieldGroup{json_schema, kBoth, served, "schema"},
    FieldGroup{json_schema, kBoth, accepted, "strict", kAlwaysStrict},
    FieldGroup{json_schema, kBoth, accepted, "name description", kSchemaLabels},

    FieldGroup{structured_outputs, kBoth, served,
               "json regex choice grammar structural_tag json_object disable_any_whitespace"},
    FieldGroup{structured_outputs, kBoth, accepted, "disable_fallback",
               "one compiler reads every constraint"},
    FieldGroup{structured_outputs, kBoth, refused, "disable_additional_properties",
               "is not served: say 'additionalProperties' in the schema", "[false]", Feature::schema},
    FieldGroup{structured_outputs, kBoth, refused, "whitespace_pattern", kNoWhitespacePattern, R"([""])",
               Feature::schema},

    FieldGroup{
        message, kChat, served,
        "role content name tool_calls tool_call_id refusal reasoning_content reasoning thinking tool_plan "
        "tool_name tool_responses"},
    FieldGroup{message, kChat, accepted,
               "annotations parsed id cache_control weight provider_specific_fields reasoning_details "
               "thinking_blocks opts",
               "answers of other servers carry them beside the text"},
    FieldGroup{message, kChat, refused, "function_call", "is served as 'tool_calls' only"},
    FieldGroup{message, kChat, refused, "audio", "", "[]", Feature::audio},
    FieldGroup{message, kChat, refused, "images", "", "[]", Feature::vision},
    FieldGroup{message, kChat, refused, "prefix partial", "is not served: an answer begins a turn of its own",
               "[false]"},

    FieldGroup{part, kChat, served, "type text refusal"},
    FieldGroup{part, kChat, accepted, "cache_control prompt_cache_breakpoint annotations",
               "an app's prompts that begin alike share their KV unasked, and annotations are no text"},
    FieldGroup{part, kChat, refused, "image_url video_url", "", "[]", Feature::vision},
    FieldGroup{part, kChat, refused, "input_audio audio_url", "", "[]", Feature::audio},
    FieldGroup{part, kChat, refused, "file", "is not served: messages are text"},

    FieldGroup{call, kChat, served, "id type function"},
    FieldGroup{call, kChat, accepted, "index", "calls are in the order of their array"},
    FieldGroup{call, kChat, accepted, "provider_specific_fields extra_content",
               "answers of other servers carry them beside a call"},
    FieldGroup{called_function, kChat, served, "name arguments description"},
    FieldGroup{called_function, kChat, accepted, "parsed_arguments",
               "the same as `arguments`, which is read"},

    FieldGroup{tool, kChat, served, "type function strict"},
    FieldGroup{tool, kChat, accepted, "cache_control",
               "an app's prompts that begin alike share their KV unasked"},
    FieldGroup{tool_function, kChat, served, "name description parameters return strict"},

    FieldGroup{tool_choice, kChat, served, "type function allowed_tools"},
    FieldGroup{chosen_function, kChat, served, "name"},
    FieldGroup{allowed_tools, kChat, served, "mode tools"},
};

using S = SamplingParams;

constexpr std::array kParameters{
    Parameter{"temperature", kBoth, 0, 2, false, "1", &S::temperature},
    Parameter{"top_p", kBoth, 0, 1, true, "1", &S::top_p, kLikeliestAlone},
    Parameter{"top_k", kBoth, 0, 1'000'000, false, "0 (off)", &S::top_k, kOff},
    Parameter{"min_p", kBoth, 0, 1, false, "0 (off)", &S::min_p},
    Parameter{"typical_p", kBoth, 0, 1, true, "1 (off)", &S::typical_p},
    Parameter{"repetition_penalty", kBoth, 0, 2, true, "1 (off)", &S::repetition_penalty},
    Parameter{"repeat_penalty", kBoth, 0, 2, true, "as repetition_penalty, which it is",
              &S::repetition_penalty},
    Parameter{"frequency_penalty", kBoth, -2, 2, false, "0", &S::frequency_penalty},
    Parameter{"presence_penalty", kBoth, -2, 2, false, "0", &S::presence_penalty},
    Parameter{"max_tokens", kChat, 1, kMaxTokens, false, "what the context leaves", &Scalars::max_tokens,
              kNoLimit},
    Parameter{"max_tokens", kCompletions, 0, kMaxTokens, false, "16", &Scalars::max_tokens, kNoLimit},
    Parameter{"max_completion_tokens", kChat, 1, kMaxTokens, false, "as max_tokens, which it replaces",
              &Scalars::max_tokens, kNoLimit},
    Parameter{"n_predict", kBoth, 1, kMaxTokens, false, "as max_tokens, which it is", &Scalars::max_tokens,
              kNoLimit},
    Parameter{"num_predict", kBoth, 1, kMaxTokens, false, "as max_tokens, which it is", &Scalars::max_tokens,
              kNoLimit},
    Parameter{"n", kBoth, 1, 8, false, "1", &Scalars::n},
    Parameter{"best_of", kCompletions, 1, 8, false, "n (no other value is served)", &Scalars::best_of},
    Parameter{"stream", kBoth, 0, 1, false, "false", &Scalars::stream},
    Parameter{"echo", kCompletions, 0, 1, false, "false", &Scalars::echo},
    Parameter{"logprobs", kChat, 0, 1, false, "false", &Scalars::logprobs},
    Parameter{"top_logprobs", kChat, 0, 20, false, "0", &Scalars::top_logprobs},
    Parameter{"logprobs", kCompletions, 0, 20, false, "none", &Scalars::legacy_logprobs},
    Parameter{"ignore_eos", kBoth, 0, 1, false, "false", &Scalars::ignore_eos},
};

constexpr std::array kPaths{
    FieldTable::Path{kChat, "/v1/chat/completions"}, FieldTable::Path{kCompletions, "/v1/completions"},
    FieldTable::Path{kExplain, "/v1/route/explain"}, FieldTable::Path{kTokenize, "/tokenize"},
    FieldTable::Path{kDetokenize, "/detokenize"}};

}  // namespace

const FieldTable& field_table() {
  static const FieldTable table(kGroups, kParameters, kPaths);
  return table;
}

}  // namespace flyball::api::openai
