"""What Anthropic's Messages interface refuses, written from its documents and error messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.models.strict_rules import (
    ANTHROPIC_FIELDS,
    TOOL_ID,
    Body,
    check_tool,
    need,
    no_others,
    objects,
    seal,
)

BLOCKS = {
    "text": "text cache_control citations",
    "image": "source cache_control",
    "document": "source title context citations cache_control",
    "thinking": "thinking signature",
    "redacted_thinking": "data",
    "compaction": "content encrypted_content signature cache_control",
    "tool_use": "id name input cache_control caller",
    "tool_result": "tool_use_id content is_error cache_control",
}
ROLE_OF = {
    "compaction": "assistant",
    "tool_use": "assistant",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "tool_result": "user",
}


def check_messages(body: Body, *, counting: bool = False) -> None:
    no_others(body, ANTHROPIC_FIELDS, "body")
    need(isinstance(body.get("model"), str), "model: Field required")
    limit = body.get("max_tokens")
    need(counting or (isinstance(limit, int) and limit >= 1), "max_tokens: Field required")
    _system(body.get("system"))
    names = [tool.get("name") for tool in body.get("tools", [])]
    need(len(set(names)) == len(names), "tools: Tool names must be unique.")
    for tool in body.get("tools", []):
        need("function" not in tool, "tools.0.function: Extra inputs are not permitted")
        check_tool(tool, "input_schema")
    messages = objects(body.get("messages"), "messages")
    first = messages[0].get("content")
    compacted = isinstance(first, list) and bool(first) and first[0].get("type") == "compaction"
    need(
        messages[0].get("role") == "user" or compacted,
        'messages: first message must use the "user" role',
    )
    need(
        messages[-1].get("role") == "user",
        "messages: the conversation must end with a user message",
    )
    waiting: list[str] = []
    known: set[str] = set()
    turns = list(_turns(messages, body["model"]))
    for index, (_, blocks) in enumerate(turns):
        _answered(blocks, waiting, index)
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        need(
            not known & set(waiting) and len(set(waiting)) == len(waiting),
            "`tool_use` ids must be unique",
        )
        known |= set(waiting)
    _thinking_first(body, turns)
    marks = str(body).count("'cache_control'")
    need(marks <= 4, f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")


def _system(system: Any) -> None:
    if system is None:
        return
    if isinstance(system, str):
        need(system, "system: empty")
        return
    for block in objects(system, "system"):
        need(
            block.get("type") == "text" and block.get("text"),
            "system: text content blocks must be non-empty",
        )


def _blocks(message: Body, where: str, model: str) -> list[Body]:
    no_others(message, frozenset({"role", "content"}), where)
    content = message.get("content")
    if isinstance(content, str):
        need(content.strip(), f"{where}: all messages must have non-empty content")
        return [{"type": "text", "text": content}]
    blocks = objects(content, f"{where}.content")
    for at, block in enumerate(blocks):
        _block(block, f"{where}.content.{at}", message["role"], model)
    return blocks


def _block(block: Body, where: str, role: str, model: str) -> None:
    kind = str(block.get("type"))
    need(kind in BLOCKS, f"{where}.type: {kind!r}")
    no_others(block, frozenset({"type", *BLOCKS[kind].split()}), where)
    need(
        ROLE_OF.get(kind, role) == role,
        f"{where}: `{kind}` blocks are not permitted in {role} messages",
    )
    match kind:
        case "text":
            need(
                str(block.get("text", "")).strip(),
                "messages: text content blocks must contain non-whitespace text",
            )
        case "thinking":
            sealed = seal(model, str(block.get("thinking")))
            need(
                block.get("signature") == sealed,
                f"{where}: Invalid `signature` in `thinking` block",
            )
        case "redacted_thinking":
            sealed = str(block.get("data")).partition(".")
            need(
                sealed[2] == seal(model, sealed[0]),
                f"{where}: Invalid `data` in `redacted_thinking` block",
            )
        case "compaction":
            need(
                block.get("encrypted_content") == seal(model, str(block.get("content"))),
                f"{where}: `compaction` block was modified",
            )
        case "tool_use":
            need(
                TOOL_ID.fullmatch(str(block.get("id"))),
                f"{where}.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
            )
            need(
                isinstance(block.get("input"), dict),
                f"{where}.input: Input should be a valid dictionary",
            )
        case "tool_result":
            inner = block.get("content")
            need(inner is None or isinstance(inner, str | list), f"{where}.content")
            for one in inner if isinstance(inner, list) else []:
                need(
                    one.get("type") in ("text", "image", "document", "search_result"),
                    f"{where}.content: type",
                )
                need(
                    one.get("type") != "text" or one.get("text"),
                    f"{where}: text content blocks must be non-empty",
                )
        case _:
            pass


def _answered(blocks: list[Body], waiting: list[str], index: int) -> None:
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    lost = [one for one in waiting if one not in results]
    need(
        not lost,
        f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: {lost}",
    )
    stray = [one for one in results if one not in waiting]
    need(
        not stray,
        f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: {stray}",
    )
    need(len(set(results)) == len(results), "each tool_use must have a single result")
    kinds = [block["type"] == "tool_result" for block in blocks]
    need(
        kinds == sorted(kinds, reverse=True),
        f"messages.{index}: tool_result blocks must come first",
    )


def _turns(messages: list[Body], model: str) -> Iterator[tuple[str, list[Body]]]:
    """The turns: consecutive messages of one role are combined, as the provider combines them."""
    role, turn = "user", list[Body]()
    for index, message in enumerate(messages):
        speaks = str(message.get("role"))
        need(speaks in ("user", "assistant"), f"messages.{index}.role: {speaks!r}")
        if speaks != role:
            yield role, turn
            role, turn = speaks, []
        turn = turn + _blocks(message, f"messages.{index}", model)
    yield role, turn


def _thinking_first(body: Body, turns: list[tuple[str, list[Body]]]) -> None:
    """With thinking on, an assistant turn that calls tools and is not yet finished begins with its thoughts."""
    if (body.get("thinking") or {}).get("type") != "enabled" or len(turns) < 2:
        return
    _, last = turns[-2]
    if any(block["type"] == "tool_use" for block in last):
        kind = last[0]["type"]
        need(
            kind in ("thinking", "redacted_thinking"),
            f"Expected `thinking` or `redacted_thinking`, but found `{kind}`.",
        )
