// The words that describe a machine and a load, and the facts that they set; how a text is read by them is in
// scenario.cpp.
#include <array>

#include "policy/scenario.hpp"

namespace flyball::policy {
namespace {

// A number may stand before machines whose row has no # of its own; without one it is guessed to be 1.
// "=#*1024" multiplies, "~=" guesses.
constexpr std::array kVocabulary{
    ScenarioWord{"mac|macbook|macbook pro|macbook air|mac studio|mac mini|apple silicon|m1|m2|m3|m4|m5",
                 "hardware.cluster.nodes=# hardware.gpu.integrated_count=1 hardware.gpu.discrete_count=0 "
                 "hardware.gpu.vendor=apple hardware.os~=macos",
                 "`two macs` are two machines"},
    ScenarioWord{"pro|max|ultra", "", "of an Apple chip; says nothing"},
    ScenarioWord{"apu|amd apu",
                 "hardware.gpu.integrated_count=1 hardware.gpu.discrete_count~=0 hardware.gpu.vendor~=amd",
                 ""},
    ScenarioWord{"integrated gpu|integrated graphics|igpu",
                 "hardware.gpu.integrated_count=1 hardware.gpu.discrete_count~=0 hardware.gpu.vendor~=intel",
                 ""},
    ScenarioWord{"laptop|edge|edge box|raspberry pi|odd hardware|weird hardware|cpu", "hardware.gpu.count~=0",
                 "unless a GPU is named"},
    ScenarioWord{"no gpu",
                 "hardware.gpu.count=0 hardware.gpu.integrated_count=0 hardware.gpu.discrete_count=0 "
                 "hardware.gpu.vendor=none",
                 ""},
    ScenarioWord{"rtx 5090",
                 "hardware.gpu.discrete_count=# hardware.gpu.vendor=nvidia hardware.gpu.memory~=32GiB", ""},
    ScenarioWord{"rtx 4090|rtx 3090|rtx 3090 ti",
                 "hardware.gpu.discrete_count=# hardware.gpu.vendor=nvidia hardware.gpu.memory~=24GiB", ""},
    ScenarioWord{"rtx 4080|rtx 5080",
                 "hardware.gpu.discrete_count=# hardware.gpu.vendor=nvidia "
                 "hardware.gpu.memory~=16GiB",
                 ""},
    ScenarioWord{"rtx 3060|rtx 4070|rtx 5070",
                 "hardware.gpu.discrete_count=# hardware.gpu.vendor=nvidia hardware.gpu.memory~=12GiB", ""},
    ScenarioWord{"rtx pro 6000",
                 "hardware.gpu.discrete_count=# hardware.gpu.vendor=nvidia "
                 "hardware.gpu.memory~=96GiB",
                 ""},
    ScenarioWord{"a100|h100",
                 "hardware.gpu.discrete_count=# hardware.gpu.vendor=nvidia hardware.gpu.memory~=80GiB", ""},
    ScenarioWord{"h200",
                 "hardware.gpu.discrete_count=# hardware.gpu.vendor=nvidia hardware.gpu.memory~=141GiB", ""},
    ScenarioWord{"rtx|geforce|nvidia|nvidia gpu", "hardware.gpu.discrete_count=# hardware.gpu.vendor=nvidia",
                 "memory unknown"},
    ScenarioWord{"radeon 7900 xtx|rx 7900 xtx|radeon rx 7900 xtx",
                 "hardware.gpu.discrete_count=# hardware.gpu.vendor=amd hardware.gpu.memory~=24GiB", ""},
    ScenarioWord{"mi300x",
                 "hardware.gpu.discrete_count=# hardware.gpu.vendor=amd hardware.gpu.memory~=192GiB", ""},
    ScenarioWord{"radeon|amd gpu", "hardware.gpu.discrete_count=# hardware.gpu.vendor=amd", "memory unknown"},
    ScenarioWord{"arc|intel gpu", "hardware.gpu.discrete_count=# hardware.gpu.vendor=intel",
                 "memory unknown"},
    ScenarioWord{"gpu", "hardware.gpu.discrete_count=#", "vendor and memory unknown"},
    ScenarioWord{"# gib memory|# gb memory|# gib ram|# gb ram", "hardware.memory.total=#GiB", ""},
    ScenarioWord{"# gib vram|# gb vram|# gib gpu memory|# gb gpu memory", "hardware.gpu.memory=#GiB",
                 "of each GPU"},
    ScenarioWord{"# machine|# node", "hardware.cluster.nodes=#", ""},
    ScenarioWord{"cluster", "hardware.cluster.nodes~=2", "two machines or more"},
    ScenarioWord{"rented|cloud", "hardware.rented=true", ""},
    ScenarioWord{"linux", "hardware.os=linux", ""},
    ScenarioWord{"windows", "hardware.os=windows", ""},
    ScenarioWord{"macos", "hardware.os=macos", ""},

    ScenarioWord{"# b|# b model", "model.parameters=#*1000000000 model.bytes=#*562500000",
                 "billions of weights, at 4.5 bits each"},
    ScenarioWord{"# gib model|# gb model", "model.bytes=#GiB", ""},
    ScenarioWord{"# k|# k context", "model.context=#*1024", "tokens a sequence may hold"},
    ScenarioWord{"moe|mixture|mixture of experts|mixtral", "model.moe=true", ""},
    ScenarioWord{"gguf", "model.format=gguf", ""},
    ScenarioWord{"awq", "model.format=awq", ""},
    ScenarioWord{"gptq", "model.format=gptq", ""},
    ScenarioWord{"exl2", "model.format=exl2", ""},
    ScenarioWord{"exl3", "model.format=exl3", ""},
    ScenarioWord{"fp8", "model.format=fp8", ""},

    ScenarioWord{"chat", "workload.class=chat", ""},
    ScenarioWord{"agent|coding agent", "workload.class=agent", ""},
    ScenarioWord{"rag|indexing|indexer", "workload.class=rag", ""},
    ScenarioWord{"batch|nightly batch", "workload.class=batch", ""},
    ScenarioWord{"completion", "workload.class=completion", ""},
    ScenarioWord{"classification", "workload.class=classification", ""},
    ScenarioWord{"summarization|summary|summaries", "workload.class=summarization", ""},
    ScenarioWord{"extraction", "workload.class=extraction", ""},
    ScenarioWord{"embedding", "workload.class=embedding", ""},
    ScenarioWord{"fine tuning|fine tune", "workload.class=fine_tuning", ""},
    ScenarioWord{"# user|# stream|# request", "workload.concurrency=#", "at once"},
    ScenarioWord{"production", "workload.concurrency~=32", ""},
    ScenarioWord{"batch #", "workload.batch_size=#", ""},
    ScenarioWord{"# k prompt", "workload.prompt_tokens=#*1024", ""},
    ScenarioWord{"long prompt|long context", "workload.prompt_tokens~=32768", ""},
    ScenarioWord{"# k prefix|# k shared prefix", "workload.shared_prefix_tokens=#*1024", ""},
    ScenarioWord{"shared prefix|routing", "workload.shared_prefix_tokens~=2048", ""},
    ScenarioWord{"# k answer", "workload.output_tokens=#*1024", ""},
    ScenarioWord{"decode|decode bound|long answer", "workload.phase=decode", ""},
    ScenarioWord{"prefill|prefill bound", "workload.phase=prefill", ""},
    ScenarioWord{"latency", "workload.objective=latency", ""},
    ScenarioWord{"throughput|max throughput", "workload.objective=throughput", ""},
    ScenarioWord{"peak|maximum performance", "workload.objective=peak", ""},
    ScenarioWord{"convenience", "workload.objective=convenience", "changes nothing: never Ollama"},
    ScenarioWord{"fixed|fixed critical|fixed and critical", "workload.fixed_critical=true", ""},
    ScenarioWord{"vision|image", "workload.modalities=text,image", ""},
    ScenarioWord{"voice|speech|audio", "workload.modalities=audio", ""},
    ScenarioWord{"every modality", "workload.modalities=text,image,audio", ""},
    ScenarioWord{"json|structured output|grammar", "workload.structured_output=true", ""},
    ScenarioWord{"draft model|speculative decoding", "workload.draft_model=true", ""},
    ScenarioWord{"desktop app|consumer app", "workload.delivery=desktop_app", ""},
    ScenarioWord{"embedded|in process|library", "workload.delivery=in_process", ""},
    ScenarioWord{"single file|one file", "workload.delivery=single_file", ""},
    ScenarioWord{"cross platform|one codebase", "workload.delivery=cross_platform", ""},
    ScenarioWord{"browser", "workload.delivery=browser", ""},
    ScenarioWord{"private|local only", "app.privacy=local_only", ""},
};

}  // namespace

std::span<const ScenarioWord> scenario_vocabulary() {
  return kVocabulary;
}

}  // namespace flyball::policy
