#include "daemon/api/openai/field_table.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <tuple>

#include <nlohmann/json.hpp>

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
constexpr std::string_view kUseResponseFormat = "is not served; use 'response_format'";
constexpr std::string_view kAlwaysStrict = "every schema is enforced exactly";
constexpr std::string_view kSchemaLabels = "the schema's labels are no part of the prompt";

constexpr std::array kGroups{
    // The body.
    FieldGroup{body, kEverywhere, served, "model"},
    FieldGroup{body, kChat, served, "messages tools tool_choice chat_template_kwargs add_generation_prompt"},
    FieldGroup{body, kCompletions, served, "prompt"},
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
    FieldGroup{body, kChat, accepted, "parallel_tool_calls",
               "an answer has no `tool_calls`, so never several"},
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
    FieldGroup{body, kCompletions, refused, "suffix", "is not served: nothing is filled in between texts",
               R"([""])"},
    FieldGroup{body, kBoth, refused, "store", "is not served: no answer is kept", "[false]"},
    FieldGroup{body, kBoth, refused, "moderation", "is not served: nothing is moderated"},
    FieldGroup{body, kBoth, refused, "web_search_options plugins", "is not served: nothing is fetched"},
    FieldGroup{body, kBoth, refused, "verbosity", "is not served: say it in a message", R"(["medium"])"},
    FieldGroup{body, kBoth, refused, "reasoning_effort reasoning thinking think enable_thinking",
               "is not served: a template that reads it takes it from 'chat_template_kwargs'"},
    FieldGroup{body, kBoth, refused, "include_reasoning",
               "is not served: what the model reasons is part of the text", "[true]"},
    FieldGroup{body, kBoth, refused, "separate_reasoning",
               "is not served: what the model reasons is part of the text", "[false]"},
    FieldGroup{body, kBoth, refused, "reasoning_format",
               "is not served: what the model reasons is part of the text", R"(["none"])"},
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
    FieldGroup{body, kBoth, refused, "prompt_logprobs", "is not served: log probabilities are an answer's"},
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

    FieldGroup{tool, kChat, served, "type function"},
    FieldGroup{tool, kChat, accepted, "cache_control",
               "an app's prompts that begin alike share their KV unasked"},
    FieldGroup{tool, kChat, accepted, "strict", "a promise about calls: an answer has no `tool_calls`"},
    FieldGroup{tool_function, kChat, served, "name description parameters return"},
    FieldGroup{tool_function, kChat, accepted, "strict",
               "a promise about calls: an answer has no `tool_calls`"},
};

struct Entry {
  FieldOf of;
  std::string_view name;
  const FieldGroup* group;

  auto key() const noexcept { return std::tie(of, name); }
};

// By object and name.
const std::vector<Entry>& index() {
  static const std::deque<FieldGroup> of_parameters = [] {
    std::deque<FieldGroup> out;
    for (const Parameter& p : parameters()) out.push_back({body, p.endpoints, served, p.name});
    return out;
  }();
  static const std::vector<Entry> sorted = [] {
    std::vector<Entry> out;
    for (const FieldGroup& one : of_parameters) out.push_back({one.of, one.names, &one});
    for (const FieldGroup& group : kGroups)
      for (std::string_view rest = group.names; !rest.empty();) {
        const std::size_t end = std::min(rest.find(' '), rest.size());
        out.push_back({group.of, rest.substr(0, end), &group});
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
    std::ranges::stable_sort(out, {}, &Entry::key);
    return out;
  }();
  return sorted;
}

}  // namespace

std::string note_of(const FieldGroup& group) {
  if (!group.feature || !group.note.empty()) return std::string(group.note);
  const std::string why = config::sentence(config::capability(*group.feature));
  return "is not served. " + why.substr(0, why.size() - 1);
}

std::span<const FieldGroup> field_groups() noexcept {
  return kGroups;
}

const FieldGroup* find_field(FieldOf of, Endpoints endpoints, std::string_view name) noexcept {
  const auto same = std::ranges::equal_range(index(), std::tie(of, name), {}, &Entry::key);
  for (const Entry& entry : same)
    if ((entry.group->endpoints & endpoints) != 0) return entry.group;
  return nullptr;
}

std::vector<std::string_view> field_names(FieldOf of, Endpoints endpoints) {
  std::vector<std::string_view> out;
  for (const FieldUse use : {served, accepted})
    for (const Entry& entry : index())
      if (entry.of == of && entry.group->use == use && (entry.group->endpoints & endpoints) != 0)
        out.push_back(entry.name);
  return out;
}

bool asks_for_nothing(const FieldGroup& field, JsonView value) {
  constexpr std::uint32_t kLongest = 16;  // bytes of JSON; the table's values are shorter
  if (value.is_null()) return true;
  if (value.is_string() ? value.text().size() > kLongest
                        : (value.is_array() || value.is_object()) && value.json_bytes() > kLongest)
    return false;
  const auto asked = to_nlohmann(value);
  return std::ranges::any_of(nlohmann::json::parse(field.asks_for_nothing),
                             [&](const nlohmann::json& one) { return one == asked; });
}

std::string_view to_string(FieldOf of) noexcept {
  constexpr std::array<std::string_view, 11> kNames{"body",
                                                    "stream_options",
                                                    "response_format",
                                                    "response_format.json_schema",
                                                    "structured_outputs",
                                                    "messages[]",
                                                    "messages[].content[]",
                                                    "messages[].tool_calls[]",
                                                    "messages[].tool_calls[].function",
                                                    "tools[]",
                                                    "tools[].function"};
  return kNames.at(static_cast<std::size_t>(of));
}

std::string_view to_string(FieldUse use) noexcept {
  constexpr std::array<std::string_view, 3> kNames{"served", "accepted", "refused"};
  return kNames.at(static_cast<std::size_t>(use));
}

}  // namespace flyball::api::openai
