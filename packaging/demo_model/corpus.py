"""The demo model's whole world, written by rule: how to choose an inference engine, what the words mean, small stories,
and calls of tools (tool_corpus).

`python3 corpus.py --seed 7 --conversations 80000 --out DIR` writes train.jsonl and heldout.jsonl, one conversation
({"messages": [...], "tools": [...]}) a line. A held-out conversation asks in words that no training conversation uses.
A question has one answer, always in the same words, so that the trained model is sure of what it says.
Facts: the decision guide that the shipped policy (config/defaults/policy.yaml) follows too.
"""
import argparse
import hashlib
import json
import pathlib
import random

import tool_corpus

# (ways to name the situation, engine, reasons, what stands for it inside Flyball)
SCENARIOS = [
    (["a Mac", "my Mac", "a MacBook", "an M4 Max", "a Mac Studio", "Apple silicon", "a MacBook Pro", "an Apple M2 laptop",
      "a Mac mini", "a machine with unified memory"],
     "MLX", ["It is built for Metal and unified memory, so nothing is copied between CPU and GPU.",
             "CPU and GPU share one memory there, and MLX uses it without copies.",
             "Unified memory comes first in the tree, and MLX is made for it."],
     "In Flyball the Vulkan engine plays this part."),
    (["an old laptop", "a laptop", "a laptop with no GPU", "an edge device", "a Raspberry Pi", "weird hardware", "a small server without a GPU",
      "a CPU only box", "odd hardware", "an old desktop", "a mini PC"],
     "llama.cpp", ["It runs on almost anything and can mix CPU and GPU.",
                   "It is the portable choice: the same file runs everywhere.",
                   "No other engine covers so many kinds of hardware."],
     "In Flyball the CPU engine plays this part."),
    (["one RTX card", "a single RTX 4090", "one NVIDIA GPU", "a single RTX 3090", "one gaming GPU", "my RTX 4080",
      "a desktop with one RTX", "a single consumer GPU"],
     "ExLlamaV2", ["It gets the most out of a single card.",
                   "It is tuned for one user on one consumer GPU.",
                   "On one card its kernels are very efficient."],
     "In Flyball the OpenCL engine with the latency profile plays this part."),
    (["two RTX 3090 cards", "two NVIDIA GPUs", "four GPUs at home", "a box with 2 GPUs", "three RTX cards", "my dual GPU rig",
      "a home server with 4 GPUs"],
     "ExLlamaV3", ["It is made for several cards at home.",
                   "It splits one model over two to four cards.",
                   "Home machines with several GPUs are its ground."],
     "In Flyball the OpenCL engine splits the layers over the cards."),
    (["a production API", "general production", "many users at once", "a busy server", "a team of fifty people", "an API with high traffic",
      "a public service", "many concurrent requests", "serving a web app"],
     "vLLM", ["Continuous batching gives it high throughput with many users.",
              "It keeps the GPU full by batching requests continuously.",
              "It is the standard choice for throughput in production."],
     "Flyball can send such work to a vLLM upstream."),
    (["long context", "a long shared prefix", "a mixture of experts model", "MoE routing", "agents that share a system prompt",
      "RAG with giant prompts", "summaries of long documents", "a 100K token prompt", "prompts that share a prefix"],
     "SGLang", ["RadixAttention reuses shared prefixes and chunked prefill handles long prompts.",
                "Its prefix cache means a shared prompt is computed once.",
                "Long prompts live in prefill, and SGLang is strong there."],
     "Flyball can send such work to an SGLang upstream."),
    (["maximum performance on NVIDIA", "the fastest NVIDIA setup", "an H100 at full speed", "peak speed on an H200",
      "vendor tuned NVIDIA kernels", "the last bit of speed on NVIDIA"],
     "TensorRT-LLM", ["It compiles the model for the GPU it runs on, and it is NVIDIA only.",
                      "Its kernels come from the vendor and are compiled for that very GPU.",
                      "It is compiled for the GPU, so it reaches the vendor's best speed."],
     "Flyball can send such work to a TensorRT-LLM upstream."),
    (["a cluster", "many nodes", "a GPU cluster", "several servers together", "multi-node serving", "a data center with many nodes"],
     "NVIDIA Dynamo", ["It orchestrates inference over many nodes.",
                       "It coordinates many servers as one service.",
                       "A cluster needs orchestration, and that is what it does."],
     "Flyball can send such work to a Dynamo upstream."),
    (["a web browser", "running inside the browser", "a web page", "a browser extension"],
     "WebLLM", ["It runs in the browser by WebGPU, with nothing to install."],
     "Flyball itself does not run in a browser."),
    (["several Macs together", "two Mac Studios", "one big model over many Macs"],
     "exo", ["It shards one model over several machines."],
     "Flyball itself serves one machine and sends the rest upstream."),
    (["a model that does not fit in RAM", "a model too large for memory", "a model bigger than my RAM"],
     "a smaller quantization", ["Streaming layers from disk is very slow, so a smaller or more quantized model is the real answer."],
     "Flyball says how many bytes are needed and how many are free."),
    (["JSON output", "structured output", "answers that follow a JSON schema", "grammar constrained output"],
     "llama.cpp or SGLang", ["Both can hold the output to a grammar or a JSON schema."],
     "The engine masks every token that would break the grammar."),
    (["phones and desktops with one artifact", "Android and iOS", "the same model on phone and web"],
     "MLC LLM", ["It compiles one model for many targets."],
     "Flyball itself runs on Linux."),
    (["a single file to share", "a program people can double click", "shipping one executable"],
     "llamafile", ["It packs the model and the engine into one executable."],
     "Flyball is a service instead: one daemon for all your apps."),
]

ASK = [
    "Which engine for {s}?", "Which engine should I use for {s}?", "Which engine should I use on {s}?", "What engine is best for {s}?", "I have {s}. Which engine?",
    "I have {s}. What should I run?", "What do you recommend for {s}?", "Which inference engine fits {s}?", "Pick an engine for {s}.",
    "What should I use for {s}?", "Help me choose an engine for {s}.", "My workload is {s}. Which engine should I pick?",
    "Tell me the right engine for {s}.", "What is the right engine for {s}?", "For {s}, which engine?", "Engine for {s}?",
    "Which engine should I use with {s}?", "We have {s}. Which engine do we need?", "Suggest an engine for {s}, please.",
    "Please choose an engine for {s}.", "I want to run a model on {s}. Which engine?", "How do I run a model on {s}?",
    "Which engine would you take for {s}?", "What runs best on {s}?", "Should I use vLLM or something else for {s}?",
    "Hi, which engine for {s}?", "Hello! I have {s}. What engine should I use?", "which engine for {s}", "best engine for {s}?",
    "What is a good engine for {s}?", "Name the engine for {s}.", "Give me the engine for {s}.",
]
OLLAMA_ASK = ["Should I use Ollama?", "Is Ollama a good engine?", "What about Ollama?", "Can I use Ollama?", "Why not Ollama?",
              "Is Ollama fine for {s}?", "Should I run Ollama on {s}?", "Would Ollama work for {s}?", "Do you recommend Ollama?",
              "Is Ollama okay?", "Ollama or MLX?", "Ollama or llama.cpp?", "Ollama or vLLM?"]
OLLAMA_ANSWER = "No. Ollama is pleasant, but it hides the engine and the kernels. Pick the engine by your workload instead."

CONCEPTS = {
    "prefill": "Prefill reads the whole prompt at once and fills the KV cache. It is bound by compute, so attention kernels and chunked prefill matter.",
    "decode": "Decode writes one token at a time. It reads every weight for each token, so memory bandwidth decides its speed.",
    "the KV cache": "The KV cache keeps the keys and values of all earlier tokens, so that each new token needs only its own work.",
    "a KV block": "A KV block is a fixed number of positions of the KV cache. Paged attention hands out blocks instead of one long piece.",
    "continuous batching": "Continuous batching lets new requests join and finished ones leave at every step, so the device is always full.",
    "chunked prefill": "Chunked prefill cuts a long prompt into pieces and mixes them with decode steps, so that nobody waits long.",
    "PagedAttention": "PagedAttention stores the KV cache in blocks like pages of memory, so that little of it is wasted.",
    "RadixAttention": "RadixAttention keeps shared prefixes in a radix tree, so that a prompt seen before is not computed again.",
    "TTFT": "TTFT is the time to first token: how long you wait before the answer begins.",
    "TPOT": "TPOT is the time per output token: how fast the answer flows once it has begun.",
    "quantization": "Quantization stores weights in fewer bits. The model gets smaller and decode gets faster, at a small cost in quality.",
    "GGUF": "GGUF is a file format for models. It holds the weights, the tokenizer and the chat template in one file.",
    "GQA": "GQA is grouped query attention: several query heads share one key and value head, so the KV cache gets smaller.",
    "speculative decoding": "Speculative decoding lets a small model guess several tokens, and the large model checks them in one step.",
    "a kernel": "A kernel is the low level routine that computes one operation, such as a matrix product or attention. The speed lives there.",
    "an inference engine": "An inference engine schedules requests, manages memory and runs the kernels. The model is only the graph.",
    "unified memory": "Unified memory is one memory that CPU and GPU share, so weights never have to be copied between them.",
    "a mixture of experts": "A mixture of experts model uses only a few of its experts for each token. A good engine computes only those.",
    "Flyball": "Flyball is a routing daemon for local models. It reads a policy and sends each request to the engine that fits the hardware and the workload.",
    "a flyball governor": "A flyball governor holds an engine at the right speed: as the load turns, the engine follows.",
    "the policy": "The policy is a decision tree over measured facts. The first true condition decides, and the decision can always be explained.",
    "a receipt": "A receipt says which rule chose the engine, which facts it read and why every other engine was refused.",
    "a manifest": "A manifest is a small file in which an app declares who it is and what its workload looks like.",
    "memory bandwidth": "Memory bandwidth is how many bytes the machine can read each second. It sets the speed of decode.",
    "a token": "A token is a piece of text, often a word or part of one. Models read and write tokens.",
}
CONCEPT_ASK = ["What is {c}?", "Explain {c}.", "What does {c} mean?", "Tell me about {c}.", "Can you explain {c}?", "Define {c}.",
               "What do you know about {c}?", "Please explain {c}.", "what is {c}", "Describe {c} in short.", "Hi, what is {c}?",
               "I keep reading about {c}. What is it?"]

FIXED = [
    (["Hello", "Hi", "Hello!", "Hi there", "Good morning", "Hey", "Hello there!"],
     "Hello! I am the Flyball demo model. Ask me which engine fits your hardware, or ask for a story."),
    (["Who are you?", "What are you?", "What is your name?", "Are you a large model?", "Who made you?", "Are you ChatGPT?"],
     "I am the Flyball demo model, a very small model. I know about choosing engines and a few stories, and nothing else."),
    (["What can you do?", "How can you help me?", "What do you know?", "Help", "What can I ask you?"],
     "I can name the engine for your hardware and workload, explain words like prefill and decode, and tell small stories."),
    (["Thanks", "Thank you", "Thanks a lot!", "Thank you very much.", "Great, thanks"],
     "You are welcome!"),
    (["Bye", "Goodbye", "See you", "Good night"],
     "Goodbye!"),
    (["What is the capital of France?", "Who won the game?", "What is 2 + 2?", "Write some code.", "What time is it?", "How is the weather?", "Translate this to German.", "Who is the president?", "Solve this equation.", "Write a poem about love.", "What is the meaning of life?", "Can you sing?", "How do I cook pasta?"],
     "I do not know. I am a tiny demo model and only know about choosing engines and small stories."),
    (["Do I run a model?", "What do I really run?", "Does the engine matter?", "Why does the engine matter?", "Why is my model slow?", "Can software alone make it faster?"],
     "You do not run a model, you run kernels. The same model on the same hardware can be several times faster with another engine."),
    (["Which phase is bound by memory bandwidth?", "What decides decode speed?", "Is decode bound by bandwidth?", "What limits chat speed?"],
     "Decode. It reads every weight for each token, so memory bandwidth decides."),
    (["Which phase is bound by compute?", "What limits long prompts?", "Is prefill bound by compute?", "What slows down RAG?"],
     "Prefill. It works on the whole prompt at once, so compute and attention kernels decide."),
    (["How do I choose an engine?", "How should I pick an engine?", "Which engine is the best?", "What is the best engine?"],
     "There is no best engine by itself. Look at your hardware first, then at the workload, then at how you serve. The engine follows."),
    (["Is one user different from many users?", "Does batch size matter?", "What about batch 1 and batch 32?"],
     "Yes. With one stream latency counts and memory bandwidth decides. With many streams throughput counts and batching decides."),
]

NAMES = ["Mia", "Tom", "Lily", "Ben", "Anna", "Max", "Zoe", "Sam", "Nora", "Leo", "Ella", "Finn"]
ANIMALS = ["cat", "dog", "bird", "fox", "rabbit", "bear", "duck", "mouse", "frog", "owl"]
THINGS = ["ball", "kite", "boat", "lamp", "book", "drum", "hat", "key", "clock", "bell", "engine", "wheel"]
PLACES = ["the park", "the forest", "the river", "the garden", "the hill", "the old mill", "the beach", "the workshop"]
FEEL = ["happy", "proud", "glad", "calm", "brave"]
ADJ = ["small", "red", "old", "shiny", "quiet", "green", "round", "warm"]
STORY_ASK = ["Tell me a story.", "Tell me a story about a {a}.", "Tell me a story about {n}.", "A story, please.", "Write a small story about a {a} and a {t}.",
             "Can you tell me a story about a {t}?", "Tell a story about {n} and a {a}.", "I would like a story about a {a}.",
             "Please tell me a short story.", "Tell me a bedtime story about a {a}."]

SYSTEMS = [None, None, None, "You are a helpful assistant.", "You are the Flyball demo model.", "Answer in short.", "You help people choose an engine."]


def article(word):
    return "an" if word[0] in "aeiou" else "a"


def story(rng, ask):
    n, a, t = rng.choice(NAMES), rng.choice(ANIMALS), rng.choice(THINGS)
    # One question, one story: what the question does not name follows from what it names.
    named = [x for x in (n if "{n}" in ask else "", a if "{a}" in ask else "", t if "{t}" in ask else "") if x]
    rng = random.Random(" ".join(named))
    n, a, t = (x if x in named else rng.choice(pool) for x, pool in ((n, NAMES), (a, ANIMALS), (t, THINGS)))
    question = ask.format(n=n, a=a, t=t).replace(" a owl", " an owl").replace(" a engine", " an engine")
    p, f, j, j2 = rng.choice(PLACES), rng.choice(FEEL), rng.choice(ADJ), rng.choice(ADJ)
    friend = rng.choice([x for x in NAMES if x != n])
    first = rng.choice([f"One day {n} went to {p}.", f"Once upon a time there was a child named {n} who loved {p}.",
                        f"{n} lived near {p}.", f"On a sunny morning {n} walked to {p}."])
    find = rng.choice([f"There {n} saw {article(j)} {j} {a} with {article(j2)} {j2} {t}.", f"{n} met {article(j)} {j} {a}. The {a} had lost its {t}.",
                       f"{n} had {article(j2)} {j2} {t}, and {article(j)} {j} {a} came to look at it."])
    middle = rng.choice([f"\"Can you help me?\" said the {a}.", f"\"Let us play with the {t},\" said {n}.", f"The {a} was sad, because the {t} did not work.",
                         f"The {t} fell into the water, and the {a} began to cry."])
    help_ = rng.choice([f"{n} called {friend}, and together they fixed the {t}.", f"{n} looked everywhere and found the {t} under a tree.",
                        f"{n} and the {a} worked together until the {t} was safe.", f"{friend} came along and showed them what to do."])
    end = rng.choice([f"The {a} was {f}, and they became friends.", f"Everyone was {f}. They played until the sun went down.",
                      f"{n} went home and felt {f}.", f"From then on {n} and the {a} shared the {t}."])
    return question, " ".join([first, find, middle, help_, end])


def scenario(rng):
    names, engine, reasons, inside = rng.choice(SCENARIOS)
    i = rng.randrange(len(names))
    return rng.choice(ASK).format(s=names[i]), f"Use {engine}. {reasons[i % len(reasons)]} {inside}"


def turn(rng):
    kind = rng.random()
    if kind < 0.52:
        return scenario(rng)
    if kind < 0.58:
        s = rng.choice(rng.choice(SCENARIOS)[0])
        return rng.choice(OLLAMA_ASK).format(s=s), OLLAMA_ANSWER
    if kind < 0.74:
        c, answer = rng.choice(list(CONCEPTS.items()))
        return rng.choice(CONCEPT_ASK).format(c=c), answer
    if kind < 0.86:
        asks, answer = rng.choice(FIXED)
        return rng.choice(asks), answer
    return story(rng, rng.choice(STORY_ASK))


def held_out(question):
    """3% of all questions, by their words: the model never trains on them."""
    return hashlib.sha256(question.encode()).digest()[0] < 8


def conversations(seed, count):
    rng = random.Random(seed)
    for _ in range(count):
        conversation = {"messages": []}
        system = rng.choice(SYSTEMS)
        if system:
            conversation["messages"].append({"role": "system", "content": system})
        kind = rng.random()
        if kind < 0.35:
            messages, question = tool_corpus.repeating(rng)
            conversation["messages"] += messages
            questions = [question]
        elif kind < 0.75:
            messages, conversation["tools"], questions = tool_corpus.conversation(rng, turn)
            conversation["messages"] += messages
        else:
            turns = [turn(rng) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
            for q, a in turns:
                conversation["messages"].append({"role": "user", "content": q})
                conversation["messages"].append({"role": "assistant", "content": a})
            questions = [q for q, _ in turns]
        asked = {held_out(q) for q in questions}
        if len(asked) == 1:  # a conversation mixes no held-out question with others
            yield asked.pop(), conversation


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=7)
    ap.add_argument("--conversations", type=int, default=80000)
    ap.add_argument("--places", type=int, default=len(tool_corpus.PLACES), help="how many names the argument that is a city has")
    ap.add_argument("--out", type=pathlib.Path, required=True)
    args = ap.parse_args()
    del tool_corpus.PLACES[args.places:]
    args.out.mkdir(parents=True, exist_ok=True)
    files = {False: open(args.out / "train.jsonl", "w"), True: open(args.out / "heldout.jsonl", "w")}
    n = {False: 0, True: 0}
    for held, conversation in conversations(args.seed, args.conversations):
        files[held].write(json.dumps(conversation) + "\n")
        n[held] += 1
    print(f"{n[False]} training conversations, {n[True]} held out")


if __name__ == "__main__":
    main()
