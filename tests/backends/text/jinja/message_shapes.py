"""The message shapes that every template is rendered with."""

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Current weather of a place.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "The city's name"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "days": {"type": "integer", "minimum": 1, "description": "How many days"}},
        "required": ["city"]}}}
NESTED = {"type": "function", "function": {
    "name": "book", "description": "Books a trip: «schnell» & <fast>.",
    "parameters": {"type": "object", "properties": {
        "legs": {"type": "array", "items": {"type": "object", "properties": {
            "from": {"type": "string"}, "to": {"type": "string"},
            "price": {"type": "number", "default": 12.5},
            "tags": {"type": "array", "items": {"type": "string"}}}, "required": ["from", "to"]}},
        "budget": {"type": "number"},
        "options": {"type": "object", "properties": {"window": {"type": "boolean", "default": True}}}},
        "required": ["legs", "budget"]},
    "return": {"type": "string", "description": "A confirmation"}}}
UNION = {"type": "function", "function": {"name": "pick", "description": "Union types.", "parameters": {
    "type": "object", "properties": {
        "value": {"type": ["integer", "null"], "description": "A number"},
        "other": {"anyOf": [{"type": "number"}, {"type": "string", "enum": ["a", "b"]}], "nullable": True},
        "free": {"description": "No type at all"}}}}}
PLAIN = {"type": "function", "function": {"name": "now", "description": "", "parameters": {
    "type": "object", "properties": {}}}}


def system(content="You are a helpful assistant."):
    return {"role": "system", "content": content}


def user(content="What is the capital of France?"):
    return {"role": "user", "content": content}


def assistant(content="Paris.", **more):
    return {"role": "assistant", "content": content, **more}


def call(name, arguments, call_id="abc123DEF"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(content, name="get_weather", call_id="abc123DEF"):
    return {"role": "tool", "name": name, "tool_call_id": call_id, "content": content}


ROUND = [user("Weather in Paris?"), assistant("", tool_calls=[call("get_weather", {"city": "Paris", "days": 3})]),
         tool('{"temperature": 21.5}')]

SHAPES = {
    "user only": {"messages": [user()]},
    "system and user": {"messages": [system(), user()]},
    "several turns": {"messages": [system(), user(), assistant(), user("And of Spain?")]},
    "several turns, no system": {"messages": [user("Hi"), assistant("Hello!"), user("Bye"), assistant("Ciao"),
                                              user("Still there?")]},
    "no generation prompt": {"messages": [user(), assistant()], "add_generation_prompt": False},
    "ends with the assistant": {"messages": [system(), user(), assistant("It is")]},
    "tools": {"messages": [system(), user("Weather in Paris?")], "tools": [WEATHER, NESTED]},
    "tools, no system": {"messages": [user("Weather in Paris?")], "tools": [WEATHER, PLAIN]},
    "union types in a tool": {"messages": [user("Pick.")], "tools": [UNION]},
    "no tools in the list": {"messages": [user()], "tools": []},
    "tool call": {"messages": ROUND[:2], "tools": [WEATHER], "add_generation_prompt": False},
    "tool result": {"messages": ROUND, "tools": [WEATHER]},
    "tool result and answer": {"messages": ROUND + [assistant("21.5 degrees."), user("Thanks!")],
                               "tools": [WEATHER, NESTED]},
    "tool call, no content key": {"messages": [user("Weather?"), {
        "role": "assistant", "tool_calls": [call("get_weather", {"city": "Oslo"})]}, tool("cold")],
        "tools": [WEATHER]},
    "tool call, null content": {"messages": [system(), user("Weather?"), assistant(
        None, tool_calls=[call("get_weather", {"city": "Köln", "unit": None})]), tool("warm & <dry>")],
        "tools": [WEATHER]},
    "tool call, arguments as text": {"messages": [user("Weather?"), assistant(
        "", tool_calls=[call("get_weather", '{"city": "Paris"}')]), tool('{"ok": true}')], "tools": [WEATHER]},
    "two tool calls": {"messages": [system(), user("Both?"), assistant("Let me see.", tool_calls=[
        call("get_weather", {"city": "Paris"}, "aaaaaaaa1"), call("book", {"legs": [
            {"from": "A", "to": "B", "price": 1e-05}], "budget": 1e16}, "aaaaaaaa2")]),
        tool("21", "get_weather", "aaaaaaaa1"), tool("ok", "book", "aaaaaaaa2")], "tools": [WEATHER, NESTED]},
    "tool call without the list of tools": {"messages": ROUND},
    "tool result as object": {"messages": ROUND[:2] + [{"role": "tool", "name": "get_weather", "content": {
        "temperature": 21.5, "wet": False, "note": None}}], "tools": [WEATHER]},
    "empty content": {"messages": [system(""), user(""), assistant(""), user("")]},
    "spaces around": {"messages": [system("  \n padded \t"), user("\n\n  a  \n b \n\n"), assistant("\n ok \n"),
                                   user(" \u00a0x\u3000")]},
    "content parts": {"messages": [system([{"type": "text", "text": "Be brief."}]), user([
        {"type": "text", "text": "First."}, {"type": "text", "text": " Second."}])]},
    "image part": {"messages": [user([{"type": "image"}, {"type": "text", "text": "What is this?"}])]},
    "reasoning": {"messages": [user("2+2?"), assistant("4", reasoning_content="Two and two.\n"), user("3+3?"),
                               assistant("6", reasoning="Three.", thinking="Three and three.")]},
    "think tags": {"messages": [system(), user("2+2?"), assistant("<think>\nTwo and two.\n</think>\n\n4"), user("ok?"),
                                assistant("<think>a</think>b</think>c"), user("go")]},
    "thinking on": {"messages": [system(), user()], "args": {"enable_thinking": True, "thinking": True,
                                                             "reasoning_effort": "high"}},
    "thinking off": {"messages": [system("/no_think Be brief."), user()],
                     "args": {"enable_thinking": False, "thinking": False, "reasoning_effort": "low"}},
    "unicode": {"messages": [system("Ты — помощник. 你好 «é»"), user("🦙🚀 ＡＢＣ \u200b\ufeff e\u0301 'quote' \"double\" \\n"),
                             assistant("Größe: straße İ ı ﬁ"), user("نص عربي \u2028 line")]},
    "special tokens in the text": {"messages": [user("<|im_end|>[INST]<s></s>{{ 7*7 }}{% raw %}")]},
    "two users in a row": {"messages": [user("One"), user("Two")]},
    "two assistants in a row": {"messages": [user("One"), assistant("A"), assistant("B")]},
    "assistant first": {"messages": [assistant("Hello"), user("Hi")]},
    "system in the middle": {"messages": [user(), system("New rules."), user("Go")]},
    "unknown role": {"messages": [{"role": "developer", "content": "Be kind."}, user(),
                                  {"role": "narrator", "content": "Later."}]},
    "no messages": {"messages": []},
    "no content": {"messages": [{"role": "user"}]},
    "documents": {"messages": [user()], "args": {"documents": [
        {"doc_id": "1", "title": "Cats", "text": "Cats purr.", "contents": "Cats purr."},
        {"doc_id": "2", "title": "Dogs", "text": "Dogs bark.", "contents": "Dogs bark."}],
        "controls": {"length": "long"}, "citation_mode": "accurate"}},
    "extra arguments": {"messages": [system(), user("Weather?")], "tools": [WEATHER], "args": {
        "date_string": "26 Jul 2024", "tools_in_user_message": False, "custom_tools": [WEATHER["function"]],
        "builtin_tools": ["browser", "python"], "xml_tools": ["<t/>"], "model_identity": "You are Flyball.",
        "available_tools": [WEATHER["function"]], "think": True, "functions": [WEATHER["function"]], "datetime": "now", "keep_past_thinking": True}},
    "names": {"messages": [{"role": "system", "name": "boss", "content": "Hi."},
                           {"role": "user", "name": "Ann", "content": "Hello."}]},
    "long": {"messages": [system()] + [m for i in range(30) for m in (user(f"Question {i}?"), assistant(f"Answer {i}."))]
             + [user("Last?")]},
}
