#include "daemon/api/ollama/field_table.hpp"

#include <array>

#include "daemon/api/parameters.hpp"

namespace flyball::api::ollama {
namespace {

using enum FieldOf;
using enum FieldUse;
using config::Feature;

constexpr std::string_view kSeeOpenAi = "is not served here; POST /v1/chat/completions has it";

constexpr std::array kGroups{
    FieldGroup{body, kBoth, served, "model format options think"},
    FieldGroup{body, kChat, served, "messages tools"},
    FieldGroup{body, kGenerate, served, "prompt suffix system raw"},
    FieldGroup{body, kBoth, accepted, "keep_alive",
               "`idle_unload` of config.yaml says when an engine ends; 0 without a prompt is the operator's"},
    FieldGroup{body, kBoth, accepted, "truncate shift",
               "a prompt is never cut: one that is too long is refused"},
    FieldGroup{body, kGenerate, refused, "images", "", "[[]]", Feature::vision},
    FieldGroup{body, kGenerate, refused, "template", "is not served: the model's file has its template",
               R"([""])"},
    FieldGroup{body, kGenerate, refused, "context", "is not served; send the whole chat to /api/chat",
               "[[]]"},
    FieldGroup{body, kGenerate, refused, "width height steps", "", "[0]", Feature::image_generation},
    FieldGroup{body, kBoth, refused, "logprobs", kSeeOpenAi, "[false]"},
    FieldGroup{body, kBoth, refused, "top_logprobs", kSeeOpenAi, "[0]"},
    FieldGroup{body, kChat, refused, "tool_choice", kSeeOpenAi, R"(["auto"])"},

    FieldGroup{options, kBoth, served, "repeat_last_n penalize_newline seed stop"},
    FieldGroup{options, kBoth, accepted, "num_ctx numCtx",
               "the context is as long as config.yaml and memory allow; no request reloads a model"},
    FieldGroup{options, kBoth, accepted,
               "num_batch num_gpu main_gpu num_thread numa low_vram f16_kv use_mmap use_mlock logits_all "
               "vocab_only embedding_only useMLock",
               "Flyball places a model by its policy; no request reloads it"},
    FieldGroup{options, kBoth, accepted, "num_keep", "a prompt is never cut"},
    FieldGroup{options, kBoth, accepted, "mirostat_tau mirostat_eta",
               "details of `mirostat`, which is refused by its own name"},
    FieldGroup{options, kBoth, refused, "mirostat", "is not served: no sampler here has it", "[0]"},
    FieldGroup{options, kBoth, refused, "tfs_z", "is not served: no sampler here has it", "[1]"},

    FieldGroup{message, kChat, served, "role content name thinking tool_calls tool_name tool_call_id"},
    FieldGroup{message, kChat, refused, "images", "", "[[]]", Feature::vision},
    FieldGroup{part, kChat, served, "type text"},
    FieldGroup{call, kChat, served, "id type function"},
    FieldGroup{called_function, kChat, served, "name arguments description"},
    FieldGroup{call, kChat, accepted, "index", "calls are in the order of their array"},
    FieldGroup{called_function, kChat, accepted, "index", "calls are in the order of their array"},
    FieldGroup{tool, kChat, served, "type function"},
    FieldGroup{tool_function, kChat, served, "name description parameters"},
    FieldGroup{tool_function, kChat, accepted, "type strict", "no template reads them"},

    FieldGroup{body, kShow, served, "model name"},
    FieldGroup{body, kShow, refused, "system template options", "is not served: a model is shown as it is",
               R"(["", {}])"},
    FieldGroup{body, kShow, accepted, "verbose", "the tokenizer is never shown"},
};

using S = SamplingParams;

// The package `ollama-ai-provider-v2` writes them into the body.
constexpr std::string_view kAsInOptions = "as in options, which go before";

constexpr Sentinel kFillsContext{-1, kNoTokenLimit, "what the context leaves", -2};

constexpr std::array kParameters{
    Parameter{"stream", kBoth, 0, 1, false, "true", &Scalars::stream},
    Parameter{"temperature", kBoth, 0, 2, false, kAsInOptions, &S::temperature},
    Parameter{"top_p", kBoth, 0, 1, true, kAsInOptions, &S::top_p, kLikeliestAlone},
    Parameter{"max_output_tokens", kBoth, 1, kMaxTokens, false,
              "as num_predict in options, which goes before", &Scalars::max_tokens, kFillsContext},
    Parameter{"temperature", kBoth, 0, 2, false, "0.8", &S::temperature, {}, options},
    Parameter{"top_p", kBoth, 0, 1, true, "0.9", &S::top_p, kLikeliestAlone, options},
    Parameter{"top_k", kBoth, 0, 1'000'000, false, "40", &S::top_k, kOff, options},
    Parameter{"min_p", kBoth, 0, 1, false, "0 (off)", &S::min_p, {}, options},
    Parameter{"typical_p", kBoth, 0, 1, true, "1 (off)", &S::typical_p, {}, options},
    Parameter{"repeat_penalty", kBoth, 0, 2, true, "1 (off)", &S::repetition_penalty, {}, options},
    Parameter{"frequency_penalty", kBoth, -2, 2, false, "0", &S::frequency_penalty, {}, options},
    Parameter{"presence_penalty", kBoth, -2, 2, false, "0", &S::presence_penalty, {}, options},
    Parameter{"num_predict", kBoth, 1, kMaxTokens, false, "what the context leaves", &Scalars::max_tokens,
              kFillsContext, options},
};

constexpr std::array kPaths{FieldTable::Path{kChat, "/api/chat"},
                            FieldTable::Path{kGenerate, "/api/generate"},
                            FieldTable::Path{kShow, "/api/show"}};

}  // namespace

const FieldTable& field_table() {
  static const FieldTable table(kGroups, kParameters, kPaths);
  return table;
}

}  // namespace flyball::api::ollama
