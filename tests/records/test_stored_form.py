"""Stored bytes are read as data: a valid message or a typed refusal, whatever they hold."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.house.source_tree import SOURCE
from tests.records.made_messages import messages, untimed
from turnfold.errors import InvalidRecord
from turnfold.records import (
    SCHEMA_VERSION,
    Document,
    FilePart,
    ImagePart,
    Message,
    Part,
    StandIn,
    ToolCall,
    as_message,
    assistant,
    decode_message,
    encode_message,
    stand_in_document,
    tool,
    user,
)


def stored(**fields: Any) -> bytes:
    record = {
        "v": SCHEMA_VERSION,
        "role": "user",
        "parts": [{"kind": "text", "text": "hi"}],
        **fields,
    }
    return json.dumps(record).encode()


def test_the_form_is_written_down() -> None:
    """Changing it needs a new version and a way up from this one."""
    message = as_message({
        "role": "assistant",
        "content": [{"type": "text", "text": "好", "x": 1}],
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        "name": "dana",
        "seed": 1,
        "metadata": {"a": 1},
    })  # fmt: skip
    assert encode_message(message).decode() == (
        '{"v":1,"role":"assistant","parts":[{"kind":"text","text":"好","extra":"{\\"x\\":1}"},'
        '{"kind":"call","id":"c","name":"f","arguments":"{}"}],"name":"dana","extra":"{\\"seed\\":1}","labels":"{\\"a\\":1}"}'
    )
    assert decode_message(encode_message(message).decode()) == message


def anew(text: str) -> str:
    """The same text as another object, as a parser makes it."""
    return "".join(list(text))


@pytest.mark.parametrize(
    ("short", "spelt_out"),
    [
        (ToolCall("c", "f"), ToolCall("c", "f", anew("{}"), anew(""))),
        (FilePart("file:a"), FilePart("file:a", anew("application/octet-stream"))),
        (ImagePart("u"), ImagePart("u", None, "")),
    ],
    ids=["call", "file", "image"],
)
def test_defaults_and_values_equal_to_them_are_stored_alike(short: Part, spelt_out: Part) -> None:
    """A digest of the stored form must not depend on how a program came by an equal text."""
    one, other = Message.of("assistant", [short]), Message.of("assistant", [spelt_out])
    assert one == other
    assert encode_message(one) == encode_message(other)
    assert encode_message(decode_message(encode_message(one))) == encode_message(one)


def test_a_plain_message_costs_forty_bytes_beside_its_text() -> None:
    assert (
        encode_message(user("hi")) == b'{"v":1,"role":"user","parts":[{"kind":"text","text":"hi"}]}'
    )


def test_a_version_from_the_future_names_the_remedy() -> None:
    for record in (stored(v=2), stored(v=99, parts="new", invented=[1])):
        with pytest.raises(InvalidRecord) as caught:
            decode_message(record)
        assert "this release reads version 1. Upgrade turnfold" in str(caught.value)
        assert caught.value.path == "v"


@pytest.mark.parametrize("version", [0, -1, "1", 1.5, None, True, "v"])
def test_a_version_that_never_was_is_no_version(version: object) -> None:
    with pytest.raises(InvalidRecord, match="not a stored message"):
        decode_message(stored(v=version))


DEEP = "[" * 10_000 + "]" * 10_000
HOSTILE: list[bytes | str] = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b"\xff\xfe",
    b"\x80\x04\x95" + b"cos\nsystem\n(S'true'\ntR.",
    "\ud800",
    '{"v":1,"role":"user","parts":[{"kind":"text","text":"\ud800"}]}',
    b'{"v":1,"role":"user","parts":[{"kind":"text","text":"\\ud800"}]}',
    b'{"v":1,"role":"user","parts":[{"kind":"text","text":"\xff"}]}',
    DEEP,
    f'{{"v":1,"role":"user","parts":{DEEP}}}',
    f'{{"v":1,"role":"user","parts":[],"invented":{DEEP}}}',
    f'{{"v":2,"invented":{DEEP}}}',
    stored(role="robot"),
    stored(role="tool"),
    stored(role=None),
    stored(parts=None),
    stored(parts=[{"kind": "code", "text": "import os"}]),
    stored(parts=[{"kind": "text"}]),
    stored(parts=[{"kind": "text", "text": "a", "invented": 1}]),
    stored(parts=[{"kind": "call", "id": "a", "name": "f"}]),
    stored(parts=[{"kind": "result", "call_id": "a", "content": []}]),
    stored(parts=[{"kind": "image", "url": "u", "detail": "huge"}]),
    stored(parts=[{"kind": "opaque", "json": "nonsense"}]),
    stored(parts=[{"kind": "opaque", "json": "[1]"}]),
    stored(parts=[{"kind": "opaque", "json": f'{{"a":{DEEP}}}'}]),
    stored(parts=[{"kind": "text", "text": "a", "extra": f'{{"a":{DEEP}}}'}]),
    stored(parts=[{"kind": "text", "text": "a", "extra": '{"text":"b"}'}]),
    stored(extra="nonsense"),
    stored(extra="[1]"),
    stored(extra='{"content":"b"}'),
    stored(extra='{"a":NaN}'),
    stored(extra=f'{{"a":{"9" * 5000}}}'),
    stored(extra=f'{{"a":{DEEP}}}'),
    stored(labels=f'{{"a":{DEEP}}}'),
    stored(labels="5"),
    stored(name=5),
    stored(invented=1),
]


@pytest.mark.parametrize("record", HOSTILE, ids=lambda record: repr(record)[:60])
def test_anything_else_is_refused(record: bytes | str) -> None:
    with pytest.raises(InvalidRecord):
        decode_message(record)


SAMPLES = [
    encode_message(message)
    for message in (
        user("hello, 你好"),
        user([{"type": "image_url", "image_url": {"url": "u", "detail": "low", "x": 1}}, {"type": "x"}]),
        assistant("ok", tool_calls=[{"id": "c", "function": {"name": "f", "arguments": '{"a": 1}'}}]),
        as_message({"role": "assistant", "content": [{"type": "thinking", "thinking": "a"}], "n": {"b": [1]}}),
        tool([{"type": "file", "file": {"file_id": "f"}}], tool_call_id="c", name="f"),
    )
]  # fmt: skip


def is_sound(record: bytes) -> bool:
    """Whether the record is read; what is read must be a message that can be used in every way."""
    try:
        message = decode_message(record)
    except InvalidRecord:
        return False
    assert decode_message(encode_message(message)) == message
    assert hash(message) == hash(message)
    assert message.model_dump()["role"]
    assert isinstance(message.text + repr(message), str)
    return True


def test_broken_bytes_are_refused_or_make_a_sound_message() -> None:
    chance = random.Random(20)  # noqa: S311 - reproducible damage, no secret
    sound = 0
    for _ in range(6000):
        record = bytearray(chance.choice(SAMPLES))
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(record))
            match chance.randrange(4):
                case 0:
                    record[place] = chance.randrange(256)
                case 1:
                    del record[place : place + chance.randint(1, 9)]
                case 2:
                    record[place:place] = chance.choice(
                        [b'"', b"\\", b"{", b"[", b"\xe4", b"0", b'\\"']
                    )
                case _:
                    other = chance.choice(SAMPLES)
                    start = chance.randrange(len(other))
                    record[place:place] = other[start : start + chance.randint(1, 30)]
            if not record:
                break
        sound += is_sound(bytes(record))
    assert 0 < sound < 6000


@untimed
@given(messages, st.randoms(use_true_random=False))
def test_broken_records_of_any_message_too(message: Message, chance: random.Random) -> None:
    record = bytearray(encode_message(message))
    record[chance.randrange(len(record))] = chance.randrange(256)
    is_sound(bytes(record))


@untimed
@given(st.binary(max_size=60) | st.text(st.characters(exclude_categories=()), max_size=60))
def test_noise_is_refused(noise: bytes | str) -> None:
    with pytest.raises(InvalidRecord):
        decode_message(noise)


WATCH = """
import json, sys
from turnfold.errors import InvalidRecord
from turnfold.records import decode_message

records = [bytes.fromhex(line) for line in sys.stdin.read().split("\\n")]
decode_message('{"v":1,"role":"user","parts":[]}').model_dump()  # what is loaded on first use is loaded now
seen = []
WATCHED = ("import", "exec", "compile", "open", "marshal.", "pickle.", "os.", "subprocess.", "socket.", "ctypes.")
sys.addaudithook(lambda event, _: seen.append(event) if event.startswith(WATCHED) else None)
for record in records:
    try:
        message = decode_message(record)
        message.model_dump(), message.text, repr(message), hash(message)
    except InvalidRecord:
        pass
found, read = list(seen), len(records)
PROVE
print(json.dumps({"found": found, "read": read, "after": seen[len(found):]}))
"""
NO_PROOF, PROOF = "", "import colorsys; compile('1', 's', 'eval')"


def events_while_decoding(records: list[bytes], *, then: str = NO_PROOF) -> dict[str, Any]:
    finished = subprocess.run(
        [sys.executable, "-c", WATCH.replace("PROVE", then)],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        input="\n".join(record.hex() for record in records),
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def test_stored_data_never_runs_code() -> None:
    code = "__import__('os').system('true')"
    records = [
        record.encode("utf-8", "surrogatepass") if isinstance(record, str) else record
        for record in HOSTILE
    ]
    records += SAMPLES
    records += [
        stored(parts=[{"kind": "text", "text": code}]),
        stored(
            parts=[
                {
                    "kind": "opaque",
                    "json": json.dumps({"__class__": "os.system", "__reduce__": [code]}),
                }
            ]
        ),
        stored(parts=[{"kind": code, "text": "x"}]),
        stored(
            extra=json.dumps({"__class__": code, "py/object": "os.system", "!!python/object": code})
        ),
        stored(labels=json.dumps({"$type": "System.Diagnostics.Process", "__init__": code})),
    ]
    events = events_while_decoding(records)
    assert events == {"found": [], "read": len(records), "after": []}


def test_the_watch_sees_code_that_runs() -> None:
    events = events_while_decoding(SAMPLES, then=PROOF)
    assert events["found"] == []
    assert {"import", "compile", "open"} <= set(events["after"])


@pytest.mark.parametrize("key", ["", "-ab", "x-ab", "٣-ab"])
def test_an_extract_with_a_damaged_key_is_refused(key: str) -> None:
    document = stand_in_document(3, "text")
    assert StandIn.read(document).upto == 3
    with pytest.raises(InvalidRecord, match="the key must begin with the number of the last entry"):
        StandIn.read(Document(document.kind, key, document.body, 1))
