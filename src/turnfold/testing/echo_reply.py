"""The reply of the model server of `python -m turnfold.testing`: it repeats what it got, or calls a tool on request."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from turnfold.testing.model_replies import Body, ModelReply, ReplyCall
from turnfold.text import is_chinese

__all__ = ("echo_reply",)

_Object: TypeAlias = Mapping[str, Any]
_SHOWN: Final = 200
"""Most characters of the newest message that a reply repeats."""
_ASKED: Final = re.compile(r"\buse (?:the|a|your) tool|用.{0,3}工具", re.IGNORECASE)
_SIMPLE: Final[_Object] = {
    "string": "example",
    "integer": 1,
    "number": 1,
    "boolean": True,
    "null": None,
}
"""Value of an argument by the type of its schema."""


def echo_reply(body: Body) -> str | ModelReply:
    """Return the number of messages and the newest of them, or a call of a tool that the user asks for.

    A user asks for a tool by its name, or for the first one with "use the tool" or 用工具. Its result is answered like
    any message.
    """
    given = body.get("messages") or body.get("input") or ()
    if isinstance(given, str):
        given = ({"role": "user", "content": given},)
    messages = cast("Sequence[_Object]", given)
    newest = _since_last_answer(messages)
    results = [text for message in newest for text in _results(message)]
    if not results:
        asked = "\n".join(_text(message) for message in newest)
        if tool := _asked_tool(asked, _tools(body)):
            name, schema = tool
            call = ReplyCall(f"call_{len(messages)}", name, _value(schema, schema))
            return ModelReply(calls=(call,))
    told = results[-1] if results else _text(messages[-1]) if messages else ""
    told = " ".join(told.split())[:_SHOWN]
    if is_chinese(told):
        return f"（本机的模型服务器）收到 {len(messages)} 条消息，最新的是：{told}"
    noun = "message" if len(messages) == 1 else "messages"
    return f"(the model server on your machine) I got {len(messages)} {noun}, the newest: {told}"


def _since_last_answer(messages: Sequence[_Object]) -> Sequence[_Object]:
    """Return the messages after the last one of the model."""
    start = 0
    for at, message in enumerate(messages, 1):
        if message.get("role") == "assistant" or message.get("type") in (
            "function_call",
            "reasoning",
        ):
            start = at
    return messages[start:]


def _text(message: _Object) -> str:
    """Return the text of a message, or of a tool result, of any of the three interfaces."""
    content = message.get("content") or message.get("output") or ""
    if isinstance(content, str):
        return content
    return " ".join(str(block.get("text", "")) for block in cast("Sequence[_Object]", content))


def _results(message: _Object) -> list[str]:
    """Return the texts of the tool results in a message."""
    if message.get("role") == "tool" or message.get("type") == "function_call_output":
        return [_text(message)]
    content = message.get("content")
    if not isinstance(content, list):
        return []
    blocks = cast("list[_Object]", content)
    return [_text(block) for block in blocks if block.get("type") == "tool_result"]


def _tools(body: Body) -> list[tuple[str, _Object]]:
    """Return the names of the tools on offer, with the schemas of their arguments."""
    found: list[tuple[str, _Object]] = []
    for tool in cast("Sequence[_Object]", body.get("tools") or ()):
        fields = cast("_Object", tool.get("function") or tool)
        schema = fields.get("parameters") or fields.get("input_schema")
        if "name" in fields:
            found.append((str(fields["name"]), cast("_Object", schema or {"type": "object"})))
    return found


def _asked_tool(text: str, tools: Sequence[tuple[str, _Object]]) -> tuple[str, _Object] | None:
    for name, schema in tools:
        if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text, re.ASCII):
            return name, schema
    return tools[0] if tools and _ASKED.search(text) else None


def _value(schema: _Object, whole: _Object) -> Any:  # noqa: ANN401 (any JSON value)
    """Return a simple value that a JSON schema allows; objects get their required fields alone."""
    if reference := schema.get("$ref"):
        found: Any = whole
        for name in str(reference).removeprefix("#/").split("/"):
            found = found[name]
        return _value(found, whole)
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return _value(schema[key][0], whole)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind if isinstance(kind, str) else kind[0]
    if kind == "object":
        fields = schema.get("properties", {})
        return {name: _value(fields.get(name, {}), whole) for name in schema.get("required", ())}
    if kind == "array":
        return [_value(schema.get("items", {}), whole)]
    return schema.get("minimum", _SIMPLE[kind])
