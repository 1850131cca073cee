// The words that describe a machine and a load, and the facts that they set; how a text is read by them is in
// scenario.cpp. Cards and machines with a memory of their own stand in machines.tsv.
#include <algorithm>
#include <array>

#include "policy/scenario.hpp"

namespace flyball::policy {
namespace {

// A number may stand before machines whose row has no # of its own, or behind them with an x; without one it
// is guessed to be 1. "=#*1024" multiplies, "~=" guesses. "topic=" is work that no fact describes.
constexpr std::array kVocabulary{
    ScenarioWord{"mac|macbook|macbook pro|macbook air|mac studio|mac mini|mac pro|imac|apple silicon",
                 "hardware.cluster.nodes=# hardware.gpu.integrated_count=1 hardware.gpu.vendor=apple "
                 "hardware.os~=macos",
                 "`two macs` are two machines; one says nothing of others"},
    ScenarioWord{"pro|max|ultra|air|mini", "", "of an Apple chip or machine"},
    ScenarioWord{"intel mac|intel macbook|intel macbook pro|intel macbook air|intel mac mini|intel imac",
                 "hardware.os=macos hardware.gpu.count~=0", "no Apple silicon"},
    ScenarioWord{"apu|amd apu", "hardware.gpu.integrated_count=1 hardware.gpu.vendor~=amd", ""},
    ScenarioWord{"integrated gpu|integrated graphics|igpu",
                 "hardware.gpu.integrated_count=1 hardware.gpu.vendor~=intel", ""},
    ScenarioWord{"steam deck",
                 "hardware.gpu.integrated_count=1 hardware.gpu.vendor=amd hardware.memory.total~=16GiB "
                 "hardware.os~=linux",
                 "Valve, Steam Deck technical specifications"},
    ScenarioWord{"laptop|notebook|thinkpad|chromebook|edge|edge box|raspberry pi|orange pi|orange pi "
                 "#|banana pi|rock # "
                 "b|odroid|rk#|"
                 "single board computer|sbc|odd hardware|weird hardware|cpu|cpu only",
                 "hardware.gpu.count~=0", "unless a GPU is named"},
    ScenarioWord{
        "pc|gaming pc|gaming rig|rig|computer|desktop|workstation|tower|box|server|home server|mini pc|nuc|"
        "homelab|nas|vps|vm|gaming laptop|gaming notebook|ryzen|ryzen #|threadripper|epyc|xeon|core "
        "i#|i#|core "
        "ultra #|"
        "core # duo",
        "", "a machine or its processor: nothing of a GPU; a size behind it is its memory"},
    ScenarioWord{"m2 ssd|m2 nvme|m2 drive|nvme|ssd|hdd", "", "a disk"},
    ScenarioWord{"no gpu|no graphics card|no discrete gpu|no dedicated gpu|without gpu|without a gpu",
                 "hardware.gpu.count=0", ""},
    ScenarioWord{"rtx|geforce|nvidia|nvidia gpu|nvidia card",
                 "hardware.gpu.discrete_count=# hardware.gpu.vendor=nvidia", "memory unknown"},
    ScenarioWord{"rtx 6000|quadro rtx 6000", "hardware.gpu.discrete_count=# hardware.gpu.vendor=nvidia",
                 "three cards have this name, with 24, 48 and 96 GB"},
    ScenarioWord{"radeon|amd gpu|amd card", "hardware.gpu.discrete_count=# hardware.gpu.vendor=amd",
                 "memory unknown"},
    ScenarioWord{"arc|intel gpu", "hardware.gpu.discrete_count=# hardware.gpu.vendor=intel",
                 "memory unknown"},
    ScenarioWord{"gpu|graphics card|video card|card", "hardware.gpu.discrete_count=#",
                 "vendor and memory unknown"},
    ScenarioWord{"# core|# core cpu|# core gpu|# thread", "", "of a processor or its GPU"},
    ScenarioWord{"amd|intel|apple", "", "a vendor, of a processor or a GPU"},
    ScenarioWord{
        "# gb memory|# gb of memory|# gb ram|# gb of ram|# gb system ram|# gb ddr#|# gb unified memory|"
        "# gb main memory|# gb total ram|# gb total memory|# gb total system ram|# gb ram total|"
        "# gb ram in total|# gb of ram in total|# gb of total ram|# gb per machine|# gb per node|"
        "# gb per server|# gb per mac",
        "hardware.memory.total=#GiB", "of each machine"},
    ScenarioWord{"# gb vram|# gb of vram|# gb gpu memory|# gb video memory|# gb per card|# gb per gpu",
                 "hardware.gpu.memory=#GiB", "of each GPU"},
    ScenarioWord{
        "# gb total vram|# gb of total vram|# gb vram total|# gb vram in total|# gb of vram in total|"
        "# gb combined vram|# gb vram combined",
        "hardware.gpu.memory_total=#GiB", "of several GPUs together"},
    ScenarioWord{"# gb across|# gb over|# gb total|# gb in total|# gb combined|# gb altogether", "",
                 "of the GPUs that are named together, else of the machines"},
    ScenarioWord{"# machine|# node|# server", "hardware.cluster.nodes=#", ""},
    ScenarioWord{"cluster", "hardware.cluster.nodes~=2", "two machines or more"},
    ScenarioWord{"rented|cloud|runpod|vast ai", "hardware.rented=true", ""},
    ScenarioWord{"linux|ubuntu|ubuntu #|debian|debian #|fedora|arch linux", "hardware.os=linux", ""},
    ScenarioWord{"windows|windows #", "hardware.os=windows", ""},
    ScenarioWord{"macos", "hardware.os=macos", ""},
    ScenarioWord{"android|android phone", "hardware.os=android topic=phone", ""},
    ScenarioWord{"ios|iphone|iphone #|iphone # pro|iphone # pro max|ipad|ipad pro",
                 "hardware.os=ios hardware.gpu.vendor=apple topic=phone", ""},
    ScenarioWord{"snapdragon|snapdragon # gen #", "hardware.gpu.vendor=qualcomm", ""},
    ScenarioWord{"phone|smartphone", "topic=phone", ""},

    ScenarioWord{"# b|# b model|# b parameter", "model.parameters=#*1000000000",
                 "billions of weights; `model.bytes` at 4.5 bits each, or as its quantization says"},
    ScenarioWord{"a#b", "model.moe=true", "behind a size: the weights that a token uses, of a mixture"},
    ScenarioWord{"# gb model|# gb file", "model.bytes=#GiB", ""},
    ScenarioWord{"# k|# k context|# k ctx|# k token|# k token context|context # k", "model.context=#*1024",
                 "tokens a sequence may hold; alone only at the end of a phrase"},
    ScenarioWord{"moe|mixture|mixture of experts|mixtral", "model.moe=true", ""},
    ScenarioWord{"gguf", "model.format=gguf", ""},
    ScenarioWord{"awq", "model.format=awq", ""},
    ScenarioWord{"gptq", "model.format=gptq", ""},
    ScenarioWord{"exl2", "model.format=exl2", ""},
    ScenarioWord{"exl3", "model.format=exl3", ""},
    ScenarioWord{"fp8", "model.format=fp8", ""},
    ScenarioWord{"bitsandbytes", "model.format=bitsandbytes", ""},

    ScenarioWord{"chat|chatting|chatbot|bot|assistant|roleplay|role play", "workload.class=chat", ""},
    ScenarioWord{"agent|agentic|coding agent", "workload.class=agent", ""},
    ScenarioWord{"# agent|# coding agent|# agent in parallel|# agent at once|# parallel agent",
                 "workload.class=agent workload.concurrency~=#", "at most one request each"},
    ScenarioWord{"rag|indexing|indexer", "workload.class=rag", ""},
    ScenarioWord{"batch|nightly batch|batch job", "workload.class=batch", ""},
    ScenarioWord{"nightly|overnight|at night|by night|a night|every night|per night", "workload.class~=batch",
                 "unless the work is named"},
    ScenarioWord{"completion|autocomplete|autocompletion", "workload.class=completion", ""},
    ScenarioWord{"classification|classifier|classify", "workload.class=classification", ""},
    ScenarioWord{"summarization|summary|summaries|summarise|summarize|summarising|summarizing",
                 "workload.class=summarization", ""},
    ScenarioWord{"extraction|extract", "workload.class=extraction", ""},
    ScenarioWord{"embedding|embed", "workload.class=embedding", ""},
    ScenarioWord{"fine tuning|fine tune|finetune|finetuning|qlora|lora training",
                 "workload.class=fine_tuning", ""},
    ScenarioWord{"coding|code|programming", "", "an agent's work, completion or a chat: say which"},
    ScenarioWord{"# user|# stream|# request|# session", "workload.concurrency=#",
                 "at once; with a period (`a day`, `per second`) it is a volume, which says nothing of that"},
    ScenarioWord{"# people|# person|# dev|# developer|# engineer|# employee|# student|# colleague|# coworker|"
                 "# kid|# member|# customer|# client|# visitor|family of #|team of #|office of #|class of "
                 "#|group of #|# of us",
                 "workload.concurrency~=#", "at most one request each"},
    ScenarioWord{"# at once|# at the same time|# at a time|# in parallel|# concurrent|# concurrently|"
                 "# simultaneous|# user at once|# user at the same time|# people at once|# people at the "
                 "same time|# request at once|# concurrent user|# concurrent request|"
                 "# parallel request|# simultaneous user",
                 "workload.concurrency=#", "holds before a number of people"},
    ScenarioWord{"just me|only me|just myself|single user|for me|for myself|for myself only",
                 "workload.concurrency~=1", ""},
    ScenarioWord{
        "me and my wife|me and my husband|me and my partner|me and my girlfriend|me and my boyfriend|"
        "my wife and i|my husband and i|my partner and i",
        "workload.concurrency~=2", ""},
    ScenarioWord{
        "production|hundreds of users|thousands of users|many users|dozens of users|few hundred users|"
        "several hundred users|few thousand users|several thousand users|few dozen users",
        "workload.concurrency~=32", ""},
    ScenarioWord{"user|people|request|dev|developer|engineer|student", "", "a number before it counts"},
    ScenarioWord{"batch #|batch of #|batches of #|batch size #|batch size of #|batchsize #",
                 "workload.batch_size=#", ""},
    ScenarioWord{"# k prompt|# k token prompt", "workload.prompt_tokens=#*1024", ""},
    ScenarioWord{"long prompt|long context", "workload.prompt_tokens~=32768", ""},
    ScenarioWord{"# k prefix|# k shared prefix", "workload.shared_prefix_tokens=#*1024", ""},
    ScenarioWord{"shared prefix|routing", "workload.shared_prefix_tokens~=2048", ""},
    ScenarioWord{"# k answer", "workload.output_tokens=#*1024", ""},
    ScenarioWord{"decode|decode bound|long answer", "workload.phase=decode", ""},
    ScenarioWord{"prefill|prefill bound", "workload.phase=prefill", ""},
    ScenarioWord{"latency", "workload.objective=latency", ""},
    ScenarioWord{"throughput|max throughput|maximum throughput", "workload.objective=throughput", ""},
    ScenarioWord{"peak|peak perf|peak performance|maximum performance|max performance|max perf",
                 "workload.objective=peak", ""},
    ScenarioWord{"convenience", "workload.objective=convenience", "changes nothing: never Ollama"},
    ScenarioWord{"fixed|fixed critical|fixed and critical", "workload.fixed_critical=true", ""},
    ScenarioWord{"vision|image|picture|photo|vl|vlm", "workload.modalities=text,image", ""},
    ScenarioWord{
        "voice|speech|audio|speech to text|stt|transcription|transcribe|transcribing|dictation|whisper",
        "workload.modalities=audio", ""},
    ScenarioWord{"every modality", "workload.modalities=text,image,audio", ""},
    ScenarioWord{"text to speech|tts|speech output|read aloud", "topic=speech_output",
                 "no fact: the documents name Kokoro"},
    ScenarioWord{"stable diffusion|stable diffusion xl|sdxl|image generation|text to image|generate images|"
                 "image output",
                 "topic=image_generation", "no fact: the documents name LocalAI"},
    ScenarioWord{"lora adapter|lora adapters|lora|adapters", "topic=adapters", "adapters beside a model"},
    ScenarioWord{"rerank|reranker|reranking|bge reranker", "topic=reranking",
                 "no fact: no document names a system"},
    ScenarioWord{"tools|tool calling|tool call|tool use|function calling|function call|calling tools|"
                 "call tools|calling functions",
                 "topic=tools", "no fact: Flyball's limits on it"},
    ScenarioWord{"logprobs|logprob|log probs|top logprobs|token probabilities", "topic=logprobs",
                 "no fact: Flyball's limits on it"},
    ScenarioWord{"json|structured output|grammar|json schema", "workload.structured_output=true", ""},
    ScenarioWord{"draft model|speculative decoding", "workload.draft_model=true", ""},
    ScenarioWord{"desktop app|consumer app", "workload.delivery=desktop_app", ""},
    ScenarioWord{"embedded|in process|library", "workload.delivery=in_process", ""},
    ScenarioWord{"single file|one file", "workload.delivery=single_file", ""},
    ScenarioWord{"cross platform|one codebase|same codebase", "workload.delivery=cross_platform", ""},
    ScenarioWord{"browser|in chrome|inside chrome|web page", "workload.delivery=browser", ""},
    ScenarioWord{"private|local only", "app.privacy=local_only", ""},
};

// Totals of weights, as the makers state them.
constexpr ScenarioModel kModels[] = {
    {"llama|qwen|gemma|mistral|phi|yi|granite|smollm|hermes|deepseek r1 distill|mistral small|mistral large|"
     "mistral nemo|codestral|qwen coder",
     0, false},
    {"falcon", 0, false, "falcon"},
    {"olmo", 0, false, "olmo2"},
    {"glm", 0, false, "glm4"},
    {"command r|command a|aya", 0, false, "command-r"},
    {"nemotron", 0, false, "nemotron"},
    {"minimax", 0, true, "minimax-m2"},
    {"deepseek|kimi", 0, false, "deepseek2"},
    {"gpt oss", 0, true, "gpt-oss"},
    {"qwen3 next|qwen next", 0, true, "qwen3next"},
    {"gemma 3n", 0, false, "gemma3n"},
    {"phi 2", 0, false, "phi2"},
    {"mamba", 0, false, "mamba"},
    {"starcoder|starcoder2", 0, false, "starcoder2"},
    {"llama 4", 0, true, "llama4"},
    {"glm 4.6", 0, true, "glm4moe"},
    {"tinyllama", 1'100'000'000, false, "llama"},
    {"mixtral 8x7b", 46'700'000'000, true, "llama"},
    {"mixtral 8x22b", 140'600'000'000, true, "llama"},
    {"gpt oss 20b", 20'900'000'000, true, "gpt-oss"},
    {"gpt oss 120b", 116'800'000'000, true, "gpt-oss"},
    {"deepseek v3|deepseek v3.1|deepseek v3.2|deepseek r1", 671'000'000'000, true, "deepseek2"},
    {"llama 4 scout|llama 4 scout 17b|llama 4 scout 17b 16e", 109'000'000'000, true, "llama4"},
    {"llama 4 maverick|llama 4 maverick 17b|llama 4 maverick 17b 128e", 400'000'000'000, true, "llama4"},
    {"kimi k2", 1'000'000'000'000, true, "deepseek2"},
    {"glm 4.5", 355'000'000'000, true, "glm4moe"},
    {"glm 4.5 air", 106'000'000'000, true, "glm4moe"},
};

// Bits per weight of whole files, as llama.cpp's quantization table measures them.
constexpr ScenarioQuantization kQuantizations[] = {
    {"q2_k", "Q2_K", 2.63, true},
    {"q3_k_s", "Q3_K_S", 3.5, true},
    {"q3_k|q3_k_m", "Q3_K_M", 3.91, true},
    {"q3_k_l", "Q3_K_L", 4.27, true},
    {"q4_0", "Q4_0", 4.5, true},
    {"q4_1", "Q4_1", 5.0, true},
    {"q4_k_s", "Q4_K_S", 4.58, true},
    {"q4_k|q4_k_m", "Q4_K_M", 4.85, true},
    {"q5_0", "Q5_0", 5.5, true},
    {"q5_1", "Q5_1", 6.0, true},
    {"q5_k_s", "Q5_K_S", 5.54, true},
    {"q5_k|q5_k_m", "Q5_K_M", 5.69, true},
    {"q6_k", "Q6_K", 6.56, true},
    {"q8_0", "Q8_0", 8.5, true},
    {"iq1_s", "IQ1_S", 1.56, true},
    {"iq1_m", "IQ1_M", 1.75, true},
    {"iq2_xxs", "IQ2_XXS", 2.06, true},
    {"iq2_xs", "IQ2_XS", 2.31, true},
    {"iq2_s", "IQ2_S", 2.5, true},
    {"iq2_m", "IQ2_M", 2.7, true},
    {"iq3_xxs", "IQ3_XXS", 3.06, true},
    {"iq3_xs", "IQ3_XS", 3.3, true},
    {"iq3_s", "IQ3_S", 3.44, true},
    {"iq3_m", "IQ3_M", 3.66, true},
    {"iq4_xs", "IQ4_XS", 4.25, true},
    {"iq4_nl", "IQ4_NL", 4.5, true},
    {"f16|fp16|bf16|16 bit", "F16", 16, false},
    {"f32|fp32|32 bit", "F32", 32, false},
    {"int8|8 bit|q8", "", 8.5, false},
    {"q6|6 bit", "", 6.56, false},
    {"q5|5 bit", "", 5.5, false},
    {"int4|4 bit|q4|nf4", "", 4.5, false},
    {"q3|3 bit", "", 3.5, false},
    {"q2|2 bit", "", 2.63, false},
    {"mxfp4", "", 4.25, false},
};

// Sorted.
constexpr std::array kFillers = std::to_array<std::string_view>({"a",         "about",     "across",
                                                                 "advice",    "advise",    "ai",
                                                                 "all",       "also",      "am",
                                                                 "an",        "and",       "any",
                                                                 "app",       "approx",    "approximately",
                                                                 "are",       "around",    "as",
                                                                 "at",        "auf",       "back",
                                                                 "be",        "best",      "better",
                                                                 "between",   "big",       "both",
                                                                 "but",       "by",        "can",
                                                                 "code",      "coder",     "could",
                                                                 "das",       "day",       "der",
                                                                 "did",       "die",       "do",
                                                                 "does",      "e",         "each",
                                                                 "ein",       "eine",      "engine",
                                                                 "engines",   "even",      "fast",
                                                                 "fastest",   "for",       "from",
                                                                 "fuer",      "g",         "get",
                                                                 "gets",      "getting",   "going",
                                                                 "gonna",     "good",      "got",
                                                                 "had",       "has",       "have",
                                                                 "hello",     "help",      "here",
                                                                 "hes",       "hey",       "hi",
                                                                 "host",      "hosting",   "how",
                                                                 "i",         "ich",       "if",
                                                                 "ill",       "im",        "in",
                                                                 "inference", "inside",    "install",
                                                                 "instruct",  "into",      "is",
                                                                 "it",        "its",       "ive",
                                                                 "job",       "jobs",      "just",
                                                                 "know",      "large",     "let",
                                                                 "lets",      "like",      "llm",
                                                                 "llms",      "local",     "locally",
                                                                 "lot",       "lots",      "make",
                                                                 "makes",     "making",    "many",
                                                                 "may",       "maybe",     "me",
                                                                 "mein",      "meine",     "meinem",
                                                                 "might",     "mit",       "model",
                                                                 "more",      "most",      "much",
                                                                 "must",      "my",        "native",
                                                                 "need",      "needs",     "new",
                                                                 "no",        "not",       "nothing",
                                                                 "now",       "oder",      "of",
                                                                 "oh",        "ok",        "okay",
                                                                 "old",       "on",        "one",
                                                                 "only",      "or",        "our",
                                                                 "over",      "own",       "per",
                                                                 "perhaps",   "please",    "plus",
                                                                 "preview",   "pure",      "put",
                                                                 "quick",     "read",      "reads",
                                                                 "really",    "recommend", "recommendation",
                                                                 "right",     "roughly",   "run",
                                                                 "running",   "runs",      "s",
                                                                 "same",      "serve",     "serving",
                                                                 "set",       "shall",     "share",
                                                                 "shared",    "sharing",   "shes",
                                                                 "should",    "single",    "size",
                                                                 "sized",     "small",     "so",
                                                                 "some",      "still",     "stuff",
                                                                 "suggest",   "thanks",    "that",
                                                                 "the",       "their",     "then",
                                                                 "there",     "these",     "they",
                                                                 "theyre",    "thing",     "things",
                                                                 "thinking",  "this",      "those",
                                                                 "through",   "to",        "together",
                                                                 "too",       "try",       "tuned",
                                                                 "two",       "type",      "typing",
                                                                 "und",       "up",        "us",
                                                                 "use",       "used",      "using",
                                                                 "versus",    "very",      "via",
                                                                 "vs",        "w",         "wanna",
                                                                 "want",      "wants",     "was",
                                                                 "way",       "we",        "what",
                                                                 "whats",     "when",      "where",
                                                                 "which",     "who",       "wholl",
                                                                 "why",       "wie",       "will",
                                                                 "with",      "within",    "work",
                                                                 "working",   "works",     "would",
                                                                 "x",         "yes",       "yet",
                                                                 "you"});
static_assert(std::ranges::is_sorted(kFillers));

}  // namespace

std::span<const ScenarioWord> scenario_vocabulary() {
  return kVocabulary;
}
std::span<const ScenarioModel> scenario_models() {
  return kModels;
}
std::span<const ScenarioQuantization> scenario_quantizations() {
  return kQuantizations;
}
bool is_filler(std::string_view word) {
  return std::ranges::binary_search(kFillers, word);
}

}  // namespace flyball::policy
