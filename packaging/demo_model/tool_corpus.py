"""Conversations with tools: a question that a tool answers, its call, its result, and the answer; and questions beside
tools that answer none of them. Cities, machines and models are of closed lists: so small a model copies no word that it
does not know."""
import json

CITIES = ["Paris", "London", "Berlin", "Rome", "Madrid", "Tokyo", "New York", "Oslo", "Vienna", "Prague", "Boston",
          "San Francisco", "Lisbon", "Dublin", "Athens", "Cairo", "Delhi", "Sydney", "Toronto", "Chicago", "Seattle", "Munich",
          "Zurich", "Seoul"]
MACHINES = ["a Mac", "an old laptop", "one RTX 4090", "two RTX 3090 cards", "a cluster", "a Raspberry Pi", "a web browser",
            "an H100", "four GPUs", "a mini PC", "a MacBook Pro", "a small server"]
MODELS = ["Qwen3 8B", "Qwen3 0.6B", "Llama 3 8B", "Llama 3 70B", "Gemma 2 9B", "Mistral 7B", "Phi 3 mini", "Mixtral 8x7B",
          "Granite 3 8B", "SmolLM3 3B"]
PLACES = ["city", "location"]
SKIES = ["sunny", "cloudy", "rainy", "windy", "clear", "foggy", "snowy"]


def city(rng):
    return rng.choice(CITIES)


def weather_result(rng, value):
    degrees, sky = rng.randrange(-5, 36), rng.choice(SKIES)
    result = rng.choice([f"{degrees} degrees, {sky}", f"{sky}, {degrees} C",
                         json.dumps({"temperature": degrees, "sky": sky}),
                         json.dumps({"city": value, "temperature": degrees, "conditions": sky})])
    return result, f"It is {degrees} degrees and {sky} in {value}."


def time_result(rng, value):
    clock = f"{rng.randrange(24):02}:{rng.randrange(60):02}"
    return rng.choice([clock, json.dumps({"time": clock})]), f"It is {clock} in {value}."


def said(template):
    """A result that the answer repeats."""
    def result(rng, value):
        text = template[0](rng)
        return text, template[1].format(r=text, v=value)
    return result


def size(rng):
    return f"{rng.randrange(1, 90)} GB"


# (names of the tool, descriptions, names and type of its argument, values, questions, result and answer)
TOOLS = [
    (["get_weather", "get_current_weather"],
     ["Get the weather of a city", "The weather now", "Get current weather for a location", "Tells the weather."],
     PLACES, "string", city,
     ["What is the weather in {v}?", "How is the weather in {v}?", "Weather in {v}?", "What's the weather like in {v}?",
      "Will it rain in {v}?", "Is it cold in {v}?", "How warm is it in {v}?", "Tell me the weather in {v}.",
      "What is the weather in {v} today?", "what is the weather in {v}", "What's the weather in {v}?",
      "What is the weather like in {v}?", "How is the weather in {v} now?"],
     weather_result),
    (["get_time", "get_current_time"],
     ["Get the time in a city", "The time now", "Current local time"], PLACES, "string", city,
     ["What time is it in {v}?", "Tell me the time in {v}.", "What is the time in {v}?", "Time in {v}?",
      "How late is it in {v}?"],
     time_result),
    (["find_engine"],
     ["Look up the engine for a machine", "Find the engine of some hardware"], ["hardware"], "string",
     lambda rng: rng.choice(MACHINES),
     ["Look up the engine for {v}.", "Find the engine for {v}.", "Ask the tool which engine fits {v}.",
      "Which engine does the tool give for {v}?"],
     said((lambda rng: rng.choice(["MLX", "llama.cpp", "ExLlamaV2", "vLLM", "SGLang", "WebLLM"]),
           "The engine for {v} is {r}."))),
    (["model_size"],
     ["How much memory a model needs", "Memory of a model"], ["model"], "string", lambda rng: rng.choice(MODELS),
     ["How much memory does {v} need?", "How large is {v}?", "What is the size of {v}?", "Does {v} fit here?"],
     said((size, "{v} needs {r}."))),
]

REPEAT = ["Repeat: {}", "Say {}", "Write this again: {}", "Echo {}"]


def repeating(rng):
    """Messages that ask for words again: what they teach, calls and answers need."""
    words = CITIES + MACHINES + MODELS + SKIES + [name for names, *_ in TOOLS for name in names]
    text = ", ".join(rng.choice(words) if rng.random() < 0.8 else str(rng.randrange(100))
                     for _ in range(rng.randrange(1, 13)))
    asked = rng.choice(REPEAT).format(text)
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": text}], asked


def plus_result(rng, first, second):
    return str(first + second), f"{first} plus {second} is {first + second}."


def schema(names, kind, rng):
    properties = {name: {"type": kind} for name in names}
    if rng.random() < 0.3:
        for name in names:
            properties[name]["description"] = rng.choice(["The " + name, "Name of the " + name, name])
    out = {"type": "object", "properties": properties}
    if rng.random() < 0.7:
        out["required"] = list(names)
    if rng.random() < 0.2:
        out["additionalProperties"] = False
    return out


def function(name, description, parameters, rng):
    out = {"name": name}
    if rng.random() < 0.85:
        out["description"] = description
    out["parameters"] = parameters
    return {"type": "function", "function": out}


class Use:
    """One tool, and how it may be asked for."""

    def __init__(self, rng):
        kind = rng.randrange(len(TOOLS) + 2)
        self.kind = kind
        if kind == len(TOOLS):
            name, names = "add", ("a", "b")
            parameters = schema(names, rng.choice(["integer", "number"]), rng)
            first, second = rng.randrange(20), rng.randrange(20)
            self.question = rng.choice(["What is {} + {}?", "What is {} plus {}?", "Add {} and {}."]).format(first, second)
            self.values, self.arguments = (first, second), dict(zip(names, (first, second)))
            self.result, self.more = plus_result, None
            description = rng.choice(["Adds two numbers", "The sum of two numbers"])
        elif kind == len(TOOLS) + 1:
            name, parameters = "list_models", {"type": "object", "properties": {}}
            self.question = rng.choice(["List the models.", "Which models are there?", "What models do you have?",
                                        "Show me the models."])
            self.values, self.arguments, self.more = (), {}, None
            self.result = lambda rng: (lambda one: (one, f"There is {one}."))(rng.choice(MODELS))
            description = rng.choice(["List the models", "The models that are there"])
        else:
            names, descriptions, argument_names, of, value, asks, self.result = TOOLS[kind]
            name, argument = rng.choice(names), rng.choice(argument_names)
            parameters, description = schema([argument], of, rng), rng.choice(descriptions)
            one = value(rng)
            self.question = rng.choice(asks).format(v=one)
            self.values, self.arguments = (one,), {argument: one}
            self.more = (lambda rng: value(rng), argument) if kind < 2 else None
        self.tool = function(name, description, parameters, rng)

    def call(self, arguments):
        return {"type": "function", "function": {"name": self.tool["function"]["name"], "arguments": arguments}}


def conversation(rng, ordinary):
    """(messages without a system message, tools, the questions). `ordinary`: makes a question and its answer."""
    uses = []
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3])):
        use = Use(rng)
        if all(use.kind != other.kind for other in uses):
            uses.append(use)
    tools = [use.tool for use in uses]
    use = rng.choice(uses)
    messages, asked = [], []
    if rng.random() < 0.3:  # no tool answers it
        question, answer = ordinary(rng)
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        asked.append(question)
        if rng.random() < 0.6:
            return messages, tools, asked
    if use.more and rng.random() < 0.15:
        second = use.more[0](rng)
        if second == use.values[0]:
            return messages, tools, asked
        word = "weather" if use.kind == 0 else "time"
        question = f"What is the {word} in {use.values[0]} and in {second}?"
        calls = [use.call(use.arguments), use.call({use.more[1]: second})]
        results = [use.result(rng, use.values[0]), use.result(rng, second)]
    else:
        question, calls, results = use.question, [use.call(use.arguments)], [use.result(rng, *use.values)]
    messages += [{"role": "user", "content": question}, {"role": "assistant", "content": "", "tool_calls": calls}]
    asked.append(question)
    if rng.random() < 0.75:
        messages += [{"role": "tool", "content": text} for text, _ in results]
        messages.append({"role": "assistant", "content": " ".join(answer for _, answer in results)})
        if rng.random() < 0.3:
            question, answer = ordinary(rng)
            messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
            asked.append(question)
    return messages, tools, asked
