"""Stored bytes as an attacker, a broken disk or another program would leave them.

The shapes of published attacks on memories of agents (a pickle where data was, an object to construct, a reference
to a module), what parsers stumble over, and seeded mutations of bodies that are right.
"""

from __future__ import annotations

import json
import os
import pickle
import random
from collections.abc import Iterator, Sequence
from typing import Any

from turnfold.records import (
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    assistant,
    encode_message,
    user,
)

__all__ = ("DEEP", "HOSTILE_BLOBS", "SOUND_BODIES", "mutations")

DEEP = 100_000


class _Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("echo ran",)


def _stored(**fields: object) -> bytes:
    record = {"v": 1, "role": "user", "parts": [{"kind": "text", "text": "hi"}], **fields}
    return json.dumps(record).encode()


def _with_text(literal: str) -> bytes:
    return b'{"v":1,"role":"user","parts":[{"kind":"text","text":' + literal.encode() + b"}]}"


_CONSTRUCTOR = '{"lc":2,"type":"constructor","id":["os","system"],"kwargs":{"command":"echo ran"}}'
_EXT = bytes([0xC7, 40, 5]) + b"\x93\xa2os\xa6system\x91\xa8echo ran".ljust(40, b"\x00")
_HUGE = "9" * 5000

HOSTILE_BLOBS: dict[str, bytes] = {
    "nothing": b"",
    "nul": b"\x00",
    "byte order mark": b"\xef\xbb\xbf" + _stored(),
    "utf-16": _stored().decode().encode("utf-16"),
    "not utf-8": _with_text('"\xff"').replace(b"\xc3\xbf", b"\xff"),
    "half a character": _with_text('"\xff"').replace(b"\xc3\xbf", b"\xe4\xbd"),
    "surrogate as bytes": _with_text('"x"').replace(b'"x"', b'"\xed\xa0\x80"'),
    **{f"pickle {level}": pickle.dumps(_Bomb(), level) for level in range(6)},
    "pickle as text": _with_text(json.dumps(pickle.dumps(_Bomb(), 0).decode())),
    "constructor": _CONSTRUCTOR.encode(),
    "constructor in parts": _stored(parts=[json.loads(_CONSTRUCTOR)]),
    "constructor in labels": _stored(labels=_CONSTRUCTOR),
    "constructor in extra": _stored(extra=_CONSTRUCTOR),
    "constructor as opaque": _stored(parts=[{"kind": "opaque", "json": _CONSTRUCTOR}]),
    "constructor after a lone surrogate": _stored(extra='{"a":"\\ud800","b":' + _CONSTRUCTOR + "}"),
    "lone surrogate": _with_text('"\\ud800"'),
    "lone surrogate in a name": _stored(name="\ud800"),
    "lone surrogate in a key": _stored(labels='{"\\udfff":1}'),
    "yaml object": b"!!python/object/apply:os.system ['echo ran']",
    "yaml in json": _with_text('"!!python/object/apply:os.system [x]"'),
    "python object keys": _stored(labels='{"py/object":"os.system","__reduce__":["os.system"]}'),
    "class keys": _stored(__class__="os.system", __init__={"__globals__": 1}),
    "msgpack ext": _EXT,
    "msgpack ext in an array": b"\x91" + _EXT,
    "msgpack timestamp": b"\xd6\xff\x00\x00\x00\x00",
    "msgpack map": b"\x83\xa1v\x01\xa4role\xa4user\xa5parts\x90",
    "nan": b'{"v":NaN,"role":"user","parts":[]}',
    "nan in labels": _stored(labels='{"a":NaN}'),
    "infinity in extra": _stored(extra='{"a":-Infinity}'),
    "infinity by size": _stored(labels='{"a":1e999}'),
    "deep arrays": b"[" * DEEP,
    "deep objects": b'{"v":' * DEEP,
    "deep parts": b'{"v":1,"role":"user","parts":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep unknown field": b'{"x":' + b"[" * DEEP + b"]" * DEEP + b',"v":1}',
    "deep labels": _stored(labels='{"a":' + "[" * DEEP + "]" * DEEP + "}"),
    "deep opaque": _stored(
        parts=[{"kind": "opaque", "json": '{"type":"x","a":' + "[" * DEEP + "]" * DEEP + "}"}]
    ),
    "wrong document": b"null",
    "number": b"1",
    "text": b'"text"',
    "array": b"[1,2,3]",
    "wrong version": _stored(v=2),
    "version zero": _stored(v=0),
    "negative version": _stored(v=-1),
    "version as text": _stored(v="1"),
    "version true": _stored(v=True),
    "huge version": f'{{"v":{_HUGE},"role":"user","parts":[]}}'.encode(),
    "huge number in labels": _stored(labels=f'{{"a":{_HUGE}}}'),
    "huge number in an opaque block": _stored(
        parts=[{"kind": "opaque", "json": f'{{"type":"x","a":{_HUGE}}}'}]
    ),
    "wrong role": _stored(role="root"),
    "role as a list": _stored(role=["user"]),
    "parts as an object": _stored(parts={"kind": "text", "text": "hi"}),
    "part as text": _stored(parts=["hi"]),
    "part of no kind": _stored(parts=[{"text": "hi"}]),
    "part of an unknown kind": _stored(parts=[{"kind": "exec", "text": "hi"}]),
    "text as a number": _stored(parts=[{"kind": "text", "text": 1}]),
    "a result in a result": _stored(
        role="tool",
        parts=[{"kind": "result", "call_id": "c", "content": [{"kind": "result"}]}],
    ),
    "a call of a user": _stored(parts=[{"kind": "call", "id": "c", "name": "f"}]),
    "unknown field": _stored(surprise=1),
    "labels as an object": _stored(labels={"a": 1}),
    "labels that are no object": _stored(labels="[1]"),
    "labels that are no json": _stored(labels="{"),
    "extra that repeats the message": _stored(extra='{"content":"other"}'),
    "extra with another role": _stored(extra='{"role":"system"}'),
    "duplicate keys": b'{"v":1,"v":2,"role":"user","role":"system","parts":[],"parts":[]}',
    "duplicate keys that agree": b'{"v":1,"v":1,"role":"user","role":"user","parts":[]}',
    "trailing data": _stored() + b"{}",
    "comment": b"/* */" + _stored(),
    "truncated": _stored()[:-3],
    "sql": b"'); DROP TABLE entry; --",
    "a megabyte of quotes": b'"' * 1_000_000,
}

SOUND_BODIES: tuple[bytes, ...] = tuple(
    encode_message(message)
    for message in (
        user("hello, 你好 👩‍💻"),
        Message("user", "with notes", name="dana", metadata={"a": [1, {"b": None}], "c": 1.5}),
        Message.of(
            "user", [TextPart("t", '{"x":1}'), ImagePart("data:image/png;base64,AA==", "low")]
        ),
        Message.of("user", [AudioPart("AA==", "wav"), FilePart("file:f", "text/plain", "a.txt")]),
        assistant("say", tool_calls=[{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]),
        Message.of("assistant", [ThinkingPart("hmm", "signature"), ToolCall("c2", "g", "{bad")]),
        Message.of("assistant", [OpaquePart('{"type":"new","a":[1,2]}', "openai")]),
        Message.of("tool", [ToolResult("c1", (TextPart("done"), ImagePart("u")), is_error=True)]),
        Message.of("system", [TextPart("rules")], extra='{"role":"developer","seed":1}'),
    )
)

_TOKENS: tuple[bytes, ...] = (
    b'"', b"\\", b"{", b"}", b"[", b"]", b":", b",", b"null", b"true", b"1e999", b"-0", b"NaN", b"\\ud800",
    b"\\u0000", b"\xed\xa0\x80", b"\xff", b'"v":2', b'"kind":"call"', b'"kind":"opaque"', b'"extra":"{}"',
    b'"role":"tool"', b'"parts":[]', b'"labels":"{\\"a\\":1}"', b'"json":"{\\"type\\":\\"text\\"}"', b'\\"',
    b'{"type":"tool_use"}', b'\\"type\\":\\"image_url\\"', b'\\"content\\":[]', b'\\"source\\":{\\"type\\":1}',
    b'\\"id\\":[]', b'\\"function\\":1', b'\\"input\\":null', b"9" * 400, b"[" * 300, b"pickle", b"!!python",
)  # fmt: skip

_FIELDS = tuple(
    "type role content name tool_calls tool_call_id function_call id input source data url text image_url file "
    "input_audio thinking signature is_error metadata refusal cache_control x".split()
)
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1 << 64, 1.5, "", "x", "user", "tool", "text", "tool_use", "image_url", "\ud800", "NaN",
    "[" * 200, "{}", '{"type":"text"}', '{"a":NaN}', '{"a":1}', [], [[]], {}, {"type": "text", "text": 1},
    {"type": "base64", "data": [], "media_type": 3}, {"url": None}, {"kind": "text", "text": "y"},
    [{"kind": "call", "id": "c", "name": "f"}], [{"type": "tool_result", "content": [{"type": "tool_result"}]}],
    {"lc": 2, "type": "constructor", "id": ["os", "system"]},
)  # fmt: skip


def mutations(bodies: Sequence[bytes], count: int, *, seed: int) -> Iterator[bytes]:
    """So many changed bodies, the same for the same seed."""
    dice = random.Random(seed)  # noqa: S311 (a run that can be repeated)
    for _ in range(count):
        body = dice.choice(bodies)
        if body[:1] == b"{" and dice.random() < 0.3:  # JSON still, with something else in one place
            yield _twisted(json.loads(body), dice)
            continue
        data = bytearray(body)
        for _ in range(dice.choice((1, 1, 1, 2, 3, 8))):
            _change(data, bodies, dice)
        yield bytes(data)


def _change(data: bytearray, bodies: Sequence[bytes], dice: random.Random) -> None:
    at = dice.randrange(len(data) + 1)
    upto = min(len(data), at + dice.choice((1, 1, 2, 5, 20)))
    match dice.randrange(7):
        case 0 if at < len(data):
            data[at] ^= 1 << dice.randrange(8)
        case 1 if at < len(data):
            data[at] = dice.randrange(256)
        case 2:
            del data[at:upto]
        case 3:
            data[at:at] = dice.choice(_TOKENS)
        case 4:
            data[at:upto] = dice.choice(_TOKENS)
        case 5:
            other = dice.choice(bodies)
            start = dice.randrange(len(other))
            data[at:upto] = other[start : start + dice.choice((3, 20, 100))]
        case _:
            del data[at:]


def _twisted(record: Any, dice: random.Random) -> bytes:
    """The record with one value, at any depth, replaced by another, by one of its kin or by a hostile one."""
    place: Any = record
    while True:
        key = dice.choice(list(place) if isinstance(place, dict) else range(len(place)))
        inner = place[key]
        if isinstance(inner, str) and inner[:1] == "{" and dice.random() < 0.7:
            place[key] = _twisted_text(inner, dice)
            break
        if not isinstance(inner, dict | list) or not inner or dice.random() < 0.2:
            place[key] = dice.choice(_VALUES)
            break
        place = inner
    return json.dumps(record).encode()


def _twisted_text(text: str, dice: random.Random) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return text[: dice.randrange(len(text))]
    if not isinstance(value, dict) or not value:
        return "{}"
    value[dice.choice(_FIELDS)] = dice.choice(_VALUES)
    return json.dumps(value)
