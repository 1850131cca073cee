#include "daemon/api/anthropic/field_table.hpp"

#include <array>

#include "daemon/api/parameters.hpp"

namespace flyball::api::anthropic {
namespace {

using enum FieldOf;
using enum FieldUse;

constexpr std::string_view kSharedUnasked = "an app's prompts that begin alike share their KV unasked";

constexpr std::array kGroups{
    FieldGroup{body, kBoth, served,
               "model messages system tools tool_choice thinking output_config output_format"},
    FieldGroup{body, kMessages, served, "stop_sequences"},
    FieldGroup{body, kBoth, accepted, "cache_control diagnostics", kSharedUnasked},
    FieldGroup{body, kBoth, accepted, "context_management compaction",
               "a prompt is never cut or summarized: one that is too long is refused"},
    FieldGroup{body, kBoth, accepted, "metadata user_profile_id workspace_id billing_policy",
               "labels of the client's own: a key says which app asks"},
    FieldGroup{body, kBoth, accepted, "service_tier speed",
               "the app's `weight` in its manifest is its share of an engine"},
    FieldGroup{body, kBoth, accepted, "fallbacks fallback_credit_token",
               "the operator's policy decides which engines are tried"},
    FieldGroup{body, kBoth, accepted, "betas anthropic_beta anthropic_version",
               "other servers take these headers in the body; none of them changes an answer here"},
    FieldGroup{body, kBoth, refused, "container", "is not served: nothing is run for a client"},
    FieldGroup{body, kBoth, refused, "mcp_servers", "is not served: the client calls its tools itself",
               "[[]]"},
    FieldGroup{body, kBoth, refused, "thread", "is not served: no conversation is kept"},
    FieldGroup{body, kBoth, refused, "inference_geo",
               "is not served: the operator's policy decides where a request goes"},

    FieldGroup{message, kBoth, served, "role content"},
    FieldGroup{message, kBoth, accepted,
               "id type model stop_reason stop_sequence stop_details usage container diagnostics",
               "answers carry them beside the content"},
    FieldGroup{message, kBoth, accepted, "cache_control", kSharedUnasked},
    FieldGroup{message, kBoth, refused, "output_config", "is served in the body only"},
    FieldGroup{message, kBoth, refused, "clear_at", "is not served: every message is part of the prompt",
               R"(["never"])"},

    FieldGroup{part, kBoth, served, "type text thinking id name input tool_use_id content is_error"},
    FieldGroup{part, kBoth, accepted, "signature data",
               "no signature is checked, and no hidden thinking can be read"},
    FieldGroup{part, kBoth, accepted, "cache_control", kSharedUnasked},
    FieldGroup{part, kBoth, accepted, "citations caller toolset_name", "no template reads them"},

    FieldGroup{tool, kBoth, served, "name description input_schema type strict"},
    FieldGroup{tool, kBoth, accepted, "cache_control", kSharedUnasked},
    FieldGroup{tool, kBoth, accepted, "input_examples", "no template reads them"},
    FieldGroup{tool, kBoth, accepted, "defer_loading", "every tool is in the prompt from the beginning"},
    FieldGroup{tool, kBoth, accepted, "eager_input_streaming",
               "the arguments of a call are streamed as they come"},
    FieldGroup{tool, kBoth, refused, "allowed_callers", "is not served: the model alone calls tools",
               R"([["direct"]])"},
    FieldGroup{tool_choice, kBoth, served, "type name disable_parallel_tool_use"},

    FieldGroup{thinking, kBoth, served, "type"},
    FieldGroup{thinking, kBoth, accepted, "budget_tokens", "`max_tokens` bounds thinking and text together"},
    FieldGroup{thinking, kBoth, accepted, "display block_binding", "thinking is sent as the model writes it"},
    FieldGroup{output_config, kBoth, served, "format effort"},
    FieldGroup{output_config, kBoth, accepted, "task_budget", "no template reads it"},
    FieldGroup{output_format, kBoth, served, "type schema"},
};

using S = SamplingParams;

constexpr std::array kParameters{
    Parameter{"max_tokens", kMessages, 1, kMaxTokens, false, "none: it is required", &Scalars::max_tokens},
    Parameter{"temperature", kMessages, 0, 1, false, "1", &S::temperature},
    Parameter{"top_p", kMessages, 0, 1, true, "1 (off)", &S::top_p, kLikeliestAlone},
    Parameter{"top_k", kMessages, 0, 1'000'000, false, "0 (off)", &S::top_k, kOff},
    Parameter{"stream", kMessages, 0, 1, false, "false", &Scalars::stream},
};

constexpr std::array kPaths{FieldTable::Path{kMessages, "/v1/messages"},
                            FieldTable::Path{kCountTokens, "/v1/messages/count_tokens"}};

}  // namespace

const FieldTable& field_table() {
  static const FieldTable table(kGroups, kParameters, kPaths);
  return table;
}

}  // namespace flyball::api::anthropic
