"""What the providers refuse, written from their documents and error messages and not from turnfold's own checks.

Each function takes the body of a request and gives the reason a provider would refuse it for, or None. They are
stricter than any one server: what passes here passes everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from turnfold.testing.model_replies import Body, seal

TOOL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
AUTHOR = re.compile(r"[^\s<|\\/>]{1,64}")
CHAT_FIELDS = frozenset(
    "model messages tools tool_choice temperature max_tokens max_completion_tokens stream stream_options "
    "reasoning_effort parallel_tool_calls seed top_p stop".split()
)
RESPONSES_FIELDS = frozenset(
    "model input instructions tools tool_choice temperature max_output_tokens stream store include reasoning "
    "parallel_tool_calls text context_management".split()
)
ANTHROPIC_FIELDS = frozenset(
    "model messages system tools tool_choice temperature max_tokens stream thinking stop_sequences top_p top_k "
    "metadata context_management".split()
)


class Refused(Exception):
    """The reason, in the provider's words."""


def need(condition: object, reason: str) -> None:
    if not condition:
        raise Refused(reason)


def no_others(found: Iterable[str], known: frozenset[str], where: str) -> None:
    others = sorted(set(found) - known)
    need(not others, f"{where}: Extra inputs are not permitted: {others}")


def objects(value: Any, where: str) -> list[Body]:
    need(isinstance(value, list) and value, f"{where}: expected a non-empty array")
    need(all(isinstance(item, dict) for item in value), f"{where}: expected objects")
    return value


# --------------------------------------------------------------------------------------- OpenAI Chat


def check_chat(body: Body) -> None:
    no_others(body, CHAT_FIELDS, "body")
    need(isinstance(body.get("model"), str), "you must provide a model parameter")
    need(
        not ("max_tokens" in body and "max_completion_tokens" in body),
        "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
    )
    need(
        "stream_options" not in body or body.get("stream"),
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
    )
    if "tools" in body:
        _chat_tools(objects(body["tools"], "tools"))
    open_calls: list[str] = []
    for index, message in enumerate(objects(body.get("messages"), "messages")):
        where = f"messages.{index}"
        if message.get("role") != "tool":
            need(
                not open_calls,
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. The following tool_call_ids did not have response messages: {open_calls}",
            )
        open_calls = _chat_message(message, where, open_calls)
    need(not open_calls, f"tool_call_ids did not have response messages: {open_calls}")


def _chat_message(message: Body, where: str, open_calls: list[str]) -> list[str]:
    role, content = message.get("role"), message.get("content")
    if "name" in message:
        need(AUTHOR.fullmatch(str(message["name"])), f"{where}.name does not match the pattern")
    match role:
        case "system" | "developer":
            no_others(message, frozenset({"role", "content", "name"}), where)
            _chat_content(content, where, {"text"})
        case "user":
            no_others(message, frozenset({"role", "content", "name"}), where)
            _chat_content(content, where, {"text", "image_url", "input_audio", "file"})
        case "assistant":
            known = "role content name tool_calls refusal reasoning_content audio"
            no_others(message, frozenset(known.split()), where)
            if content is not None:
                _chat_content(content, where, {"text", "refusal"})
            if "tool_calls" in message:
                return list(_chat_calls(objects(message["tool_calls"], f"{where}.tool_calls")))
            need(content is not None or message.get("refusal"), f"{where}: content is null")
        case "tool":
            no_others(message, frozenset({"role", "content", "tool_call_id", "name"}), where)
            _chat_content(content, where, {"text"}, empty=True)
            need(
                message.get("tool_call_id") in open_calls,
                "messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
            )
            return [one for one in open_calls if one != message["tool_call_id"]]
        case _:
            raise Refused(f"{where}.role: {role!r} is not one of the roles")
    return []


def _chat_content(content: Any, where: str, kinds: set[str], *, empty: bool = False) -> None:
    if isinstance(content, str):
        need(content or empty, f"{where}.content: empty")
        return
    for part in objects(content, f"{where}.content"):
        need(part.get("type") in kinds, f"{where}.content: type {part.get('type')!r}")
        need(part.get("type") != "text" or part.get("text"), f"{where}.content: empty text")


def _chat_calls(calls: list[Body]) -> Iterator[str]:
    seen: set[str] = set()
    for call in calls:
        no_others(call, frozenset({"id", "type", "function"}), "tool_calls")
        need(call.get("type") == "function", "tool_calls: type")
        name, found = call["function"].get("name"), call.get("id")
        need(
            isinstance(found, str) and 0 < len(found) <= 40, "tool_calls: id of 1 to 40 characters"
        )
        need(found not in seen, "tool_calls: the same id twice")
        need(isinstance(name, str) and TOOL_NAME.fullmatch(name), "tool_calls: function name")
        need(
            isinstance(call["function"].get("arguments"), str), "tool_calls: arguments not a string"
        )
        seen.add(str(found))
        yield str(found)


def _chat_tools(tools: list[Body]) -> None:
    for tool in tools:
        need(tool.get("type") == "function", "tools: Missing required parameter: 'tools[0].type'")
        function = tool.get("function")
        need(isinstance(function, dict), "Missing required parameter: 'tools[0].function'")
        check_tool(tool["function"], "parameters")


def check_tool(tool: Body, schema: str) -> None:
    name = tool.get("name")
    need(
        isinstance(name, str) and TOOL_NAME.fullmatch(name),
        "tools: name does not match the pattern",
    )
    form = tool.get(schema)
    need(
        isinstance(form, dict) and form.get("type") == "object",
        f"tools: {schema} is no object schema",
    )


# ---------------------------------------------------------------------------------- OpenAI Responses


def check_responses(body: Body) -> None:
    no_others(body, RESPONSES_FIELDS, "body")
    need(isinstance(body.get("model"), str), "Missing required parameter: 'model'.")
    need(isinstance(body.get("instructions", ""), str), "instructions: expected a string")
    for tool in objects(body["tools"], "tools") if "tools" in body else []:
        need(
            tool.get("type") == "function" and "function" not in tool,
            "tools: the flat form is required",
        )
        check_tool(tool, "parameters")
    items = objects(body.get("input"), "input")
    calls = [str(item.get("call_id")) for item in items if item.get("type") == "function_call"]
    outputs = [item.get("call_id") for item in items if item.get("type") == "function_call_output"]
    need(len(set(calls)) == len(calls), "Duplicate item found with a call_id")
    need(len(set(outputs)) == len(outputs), "Duplicate output for a call_id")
    for call in calls:
        need(call in outputs, f"No tool output found for function call {call}.")
    called: set[str] = set()
    for index, item in enumerate(items):
        _responses_item(item, index, items, called, body["model"])


def _responses_item(
    item: Body, index: int, items: list[Body], called: set[str], model: str
) -> None:
    where = f"input[{index}]"
    need(len(str(item.get("id", ""))) <= 64, f"{where}.id: string too long")
    match item.get("type", "message"):
        case "message":
            _responses_message(item, where)
        case "function_call":
            no_others(item, frozenset("type id call_id name arguments status".split()), where)
            need(TOOL_ID.fullmatch(str(item.get("call_id"))), f"{where}.call_id")
            need(TOOL_NAME.fullmatch(str(item.get("name"))), f"{where}.name")
            need(isinstance(item.get("arguments"), str), f"{where}.arguments: expected a string")
            own = str(item.get("id", "fc_"))
            need(
                own.startswith("fc"), f"Invalid '{where}.id': Expected an ID that begins with 'fc'."
            )
            before = items[index - 1].get("type") if index else None
            need(
                not own.startswith("fc_reasoned")
                or before in ("reasoning", "function_call", "message"),
                f"Item '{own}' of type 'function_call' was provided without its required 'reasoning' item.",
            )
            called.add(item["call_id"])
        case "function_call_output":
            no_others(item, frozenset("type id call_id output status".split()), where)
            need(
                item.get("call_id") in called,
                f"No tool call found for function call output with call_id {item.get('call_id')}.",
            )
            need(isinstance(item.get("output"), str | list), f"{where}.output")
        case "reasoning":
            follows = items[index + 1].get("type", "message") if index + 1 < len(items) else None
            need(
                follows in ("message", "function_call") and items[index + 1].get("role") != "user",
                f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item.",
            )
            sealed = item.get("encrypted_content")
            text = "".join(part["text"] for part in item.get("summary", []))
            need(
                sealed is None or sealed == seal(model, text),
                "The encrypted content could not be verified.",
            )
        case "compaction":
            no_others(item, frozenset("type id encrypted_content created_by".split()), where)
            hidden, _, sealed = str(item.get("encrypted_content")).partition(".")
            need(
                sealed == seal(model, hidden),
                f"The encrypted content {hidden[:4]}... could not be verified.",
            )
        case other:
            raise Refused(f"{where}.type: {other!r}")


def _responses_message(item: Body, where: str) -> None:
    role = item.get("role")
    need(role in ("user", "assistant", "system", "developer"), f"{where}.role: {role!r}")
    no_others(item, frozenset("type id role content status phase".split()), where)
    content = item.get("content")
    if isinstance(content, str):
        need(content, f"{where}.content: empty")
        return
    kinds = (
        {"output_text", "refusal"}
        if role == "assistant"
        else {"input_text", "input_image", "input_file"}
    )
    for part in objects(content, f"{where}.content"):
        need(
            part.get("type") in kinds,
            f"Invalid value: {part.get('type')!r}. Supported values: {kinds}",
        )
