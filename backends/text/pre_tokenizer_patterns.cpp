// Patterns written for PCRE2. Where they differ in form from the models' own files they match the same text:
// white space is spelled out (PCRE2's \s counts U+180E in), case-insensitive suffixes are sets, and sets that
// intersect (letters that are not a-z) are negated sets, which backtrack without a stack.
#include "backends/text/pre_tokenizer_patterns.hpp"

#include <algorithm>

namespace flyball::text {
namespace {

// clang-format off
#define SPACES R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})"
#define SPACE "[" SPACES "]"
#define BLANK_RUN SPACE "+(?![^" SPACES "])|" SPACE "+"
#define NEWLINE_RUN SPACE R"(*[\r\n]+)"
#define SUFFIX "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
#define WORD R"([^\r\n\p{L}\p{N}]?\p{L}+)"
#define OTHER R"( ?[^\p{L}\p{N})" SPACES "]+"

#define GPT2 R"('(?:[stmd]|re|ve|ll)| ?\p{L}+| ?\p{N}+|)" OTHER "|" BLANK_RUN
#define LLAMA3(digits) SUFFIX "|" WORD "|" digits "|" OTHER R"([\r\n]*|)" NEWLINE_RUN "|" BLANK_RUN
// Upper case is any letter but a-z, lower case any letter but A-Z: what llama.cpp makes of \p{Lu} and \p{Ll}.
#define UPPER R"([^\P{L}a-z])"
#define LOWER R"([^\P{L}A-Z])"
#define CASED(suffix) R"([^\r\n\p{L}\p{N}]?)" UPPER "*" LOWER "+" suffix R"(|[^\r\n\p{L}\p{N}]?)" UPPER "+" LOWER "*" suffix
#define TEKKEN(suffix, digits) CASED(suffix) "|" digits "|" OTHER R"([\r\n/]*|)" NEWLINE_RUN "|" BLANK_RUN
// U+0800 to U+9FA5 and Hangul, less the white space among them.
#define CJK R"([\x{800}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF})" \
            R"(\x{3001}-\x{9FA5}\x{AC00}-\x{D7FF}]+)"

constexpr std::string_view kGpt2[] = {GPT2};
constexpr std::string_view kSingleDigitGpt2[] = {R"(\p{N})", GPT2};
constexpr std::string_view kLlama3[] = {LLAMA3(R"(\p{N}{1,3})")};
constexpr std::string_view kQwen2[] = {LLAMA3(R"(\p{N})")};
constexpr std::string_view kQwen35[] = {
    SUFFIX R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\p{L}\p{M}\p{N})" SPACES R"(]+[\r\n]*|)" NEWLINE_RUN "|" BLANK_RUN};
constexpr std::string_view kTekken[] = {TEKKEN("", R"(\p{N})")};
constexpr std::string_view kGpt4o[] = {TEKKEN("(?:" SUFFIX ")?", R"(\p{N}{1,3})")};
constexpr std::string_view kSeedCoder[] = {
    SUFFIX "|" WORD R"(|\p{N}| ?[^\p{L}\p{N}\r\n)" SPACES "]+|" NEWLINE_RUN "|" BLANK_RUN};
constexpr std::string_view kBailing[] = {
    SUFFIX "|" WORD R"(|\p{N}|)" OTHER R"([\r\n]*|)" SPACE R"(*[\r\n]|)" BLANK_RUN};
constexpr std::string_view kDefault[] = {R"([\p{P}$+<=>^~|]+)", GPT2, R"(\p{N}+)", "[0-9][0-9][0-9]"};
constexpr std::string_view kFalcon[] = {R"([\p{P}$+<=>^~|`]+)", GPT2, "[0-9][0-9][0-9]"};
// Trailing white space is "\s+$"; anchored to where its run starts so that long runs elsewhere cost nothing.
constexpr std::string_view kDeepseekLlm[] = {
    R"([\r\n])",
    SPACE R"(?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A})"
    R"(\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B})"
    R"(\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134})"
    R"(\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})"
    R"(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"
    R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)",
    SPACE R"(?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3001}\x{3002}]+)",
    "(?<!" SPACE ")" SPACE R"(++\z)",
    CJK,
    R"(\p{N}+)"};
constexpr std::string_view kDeepseekCoder[] = {
    R"([\r\n])", SPACE R"(?\p{L}+)", SPACE R"(?\p{P}+)", CJK, R"(\p{N})"};
constexpr std::string_view kDeepseekV3[] = {
    R"(\p{N}{1,3})",
    R"([\x{3040}-\x{30FF}\x{4E00}-\x{9FA5}]+)",
    R"([!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)" NEWLINE_RUN "|" BLANK_RUN};

constexpr std::string_view kLlama3Names[] = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1",
                                             "pixtral", "midm-2.0", "lfm2"};
constexpr std::string_view kLlama3MergingNames[] = {"smaug-bpe", "dbrx", "glm4", "chatglm-bpe"};
constexpr std::string_view kQwen2Names[] = {"qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez", "grok-2",
                                            "kormo", "solar-open"};
constexpr std::string_view kQwen35Names[] = {"qwen35"};
constexpr std::string_view kGpt2Names[] = {"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "exaone4",
                                           "gigachat", "a.x-4.0", "mellum", "granite-docling"};
constexpr std::string_view kSingleDigitGpt2Names[] = {"smollm", "starcoder", "refact", "command-r", "codeshell",
                                                      "exaone", "minerva-7b"};
constexpr std::string_view kTekkenNames[] = {"tekken"};
constexpr std::string_view kGpt4oNames[] = {"gpt-4o", "llama4", "kanana2", "minimax-m2"};
constexpr std::string_view kSeedCoderNames[] = {"seed-coder"};
constexpr std::string_view kBailingNames[] = {"bailingmoe", "bailingmoe2", "llada-moe"};
constexpr std::string_view kDefaultNames[] = {"default"};
constexpr std::string_view kFalconNames[] = {"falcon"};
constexpr std::string_view kDeepseekLlmNames[] = {"deepseek-llm"};
constexpr std::string_view kDeepseekCoderNames[] = {"deepseek-coder"};
constexpr std::string_view kDeepseekV3Names[] = {"deepseek-v3", "hunyuan-dense", "joyai-llm"};
// clang-format on

constexpr PreTokenizerRules kRules[] = {
    {kLlama3Names, kLlama3, true, true},
    {kLlama3MergingNames, kLlama3},
    {kQwen2Names, kQwen2},
    {kQwen35Names, kQwen35},
    {kGpt2Names, kGpt2},
    {kSingleDigitGpt2Names, kSingleDigitGpt2},
    {kTekkenNames, kTekken, true, true},
    {kGpt4oNames, kGpt4o},
    {kSeedCoderNames, kSeedCoder},
    {kBailingNames, kBailing},
    {kDefaultNames, kDefault},
    {kFalconNames, kFalcon},
    {kDeepseekLlmNames, kDeepseekLlm},
    {kDeepseekCoderNames, kDeepseekCoder},
    {kDeepseekV3Names, kDeepseekV3},
};

}  // namespace

const PreTokenizerRules* find_pre_tokenizer(std::string_view name) noexcept {
  for (const PreTokenizerRules& rules : kRules) {
    if (std::ranges::find(rules.names, name) != rules.names.end()) return &rules;
  }
  return nullptr;
}

std::span<const PreTokenizerRules> pre_tokenizer_rules() noexcept {
  return kRules;
}

}  // namespace flyball::text
