"""Small invented files in the forms other programs write."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ("chatgpt_talk", "claude_code_lines", "write_json", "write_lines")


def write_lines(path: Path, values: list[object]) -> Path:
    lines = [
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for value in values
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_json(path: Path, value: object, *, indent: int | None = 1) -> Path:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=indent), encoding="utf-8")
    return path


def _node(
    key: str,
    parent: str | None,
    children: list[str],
    role: str = "",
    content: object = None,
    **more: object,
) -> dict[str, object]:
    message = None
    if role:
        author = {"role": role, "name": more.pop("name", None)}
        message = {
            "id": key,
            "author": author,
            "create_time": more.pop("at", None),
            "content": content,
            "recipient": more.pop("to", "all"),
            "metadata": more.pop("metadata", {}),
        }
    return {"id": key, "message": message, "parent": parent, "children": children}


def _text(*parts: object) -> dict[str, object]:
    kind = "text" if all(isinstance(part, str) for part in parts) else "multimodal_text"
    return {"content_type": kind, "parts": list(parts)}


def chatgpt_talk(name: str = "talk-1") -> dict[str, object]:
    """A conversation with custom instructions, a tool that answers in two messages, and an edited question."""
    picture = {
        "content_type": "image_asset_pointer",
        "asset_pointer": "file-service://x",
        "width": 4,
    }
    nodes = [
        _node("root", None, ["sys"]),
        _node("sys", "root", ["own"], "system", _text("")),
        _node("own", "sys", ["ask", "ask-old"], "user", {
            "content_type": "user_editable_context", "user_profile": "I like tea.", "user_instructions": "Be brief.",
        }),
        _node("ask-old", "own", ["answer-old"], "user", _text("What is 2+3?"), at=10.0),
        _node("answer-old", "ask-old", [], "assistant", _text("5"), at=11.0),
        _node("ask", "own", ["call"], "user", _text("这张图里有什么？", picture), at=1700000000.5),
        _node("call", "ask", ["out1"], "assistant", {"content_type": "code", "text": "print(1)"}, to="python",
              at=1700000001.0, metadata={"model_slug": "gpt-5"}),
        _node("out1", "call", ["out2"], "tool", {"content_type": "execution_output", "text": "1\n"}, name="python"),
        _node("out2", "out1", ["think"], "tool", {"content_type": "execution_output", "text": "done"}, name="python"),
        _node("think", "out2", ["said"], "assistant", {
            "content_type": "thoughts", "thoughts": [{"summary": "s", "content": "Let me see."}],
        }),
        _node("said", "think", [], "assistant", _text("一只猫。", " And tea."), at=1700000009.0),
    ]  # fmt: skip
    return {
        "conversation_id": name,
        "title": "猫",
        "create_time": 1700000000.0,
        "current_node": "said",
        "mapping": {str(node["id"]): node for node in nodes},
    }


def _line(kind: str, uuid: str, message: object, **more: object) -> dict[str, object]:
    return {"type": kind, "uuid": uuid, "sessionId": "s-1", "timestamp": "2026-02-01T14:59:02.592Z",
            "isSidechain": False, "message": message, **more}  # fmt: skip


def _spoken(name: str, text: str) -> dict[str, object]:
    return {"id": name, "role": "assistant", "content": [{"type": "text", "text": text}]}


def claude_code_lines() -> list[object]:
    """A session whose second answer is logged block by block around its results, and a sub-agent's side chain."""
    answer = {"id": "msg_2", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}

    def block(uuid: str, content: dict[str, object]) -> dict[str, object]:
        return _line("assistant", uuid, {**answer, "content": [content]})

    def result(uuid: str, call: str, text: str) -> dict[str, object]:
        content = [{"type": "tool_result", "tool_use_id": call, "content": text}]
        return _line("user", uuid, {"role": "user", "content": content})

    return [
        {"type": "summary", "summary": "Old work", "leafUuid": "x"},
        _line("user", "u1", {"role": "user", "content": "请修复 utils.py"}),
        block("a1", {"type": "thinking", "thinking": "Look first.", "signature": "sig"}),
        block("a2", {"type": "text", "text": "I look."}),
        block("a3", {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "utils.py"}}),
        result("u2", "t1", "def f(): ..."),
        block("a4", {"type": "tool_use", "id": "t2", "name": "Bash", "input": {"command": "ls"}}),
        result("u3", "t2", "utils.py"),
        {"type": "file-history-snapshot", "messageId": "a4", "snapshot": {}},
        _line("user", "s1", {"role": "user", "content": "Find tests"}, isSidechain=True, agentId="a77"),
        _line("assistant", "s2", _spoken("msg_9", "None."), isSidechain=True, agentId="a77", parentUuid="s1"),
        _line("assistant", "a5", _spoken("msg_3", "改好了。")),
    ]  # fmt: skip
