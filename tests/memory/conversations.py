"""Invented conversations with numbered messages, and a judge that knows nothing of the library's own.

Every message carries its number, `<17>`, so that a window can be read back: which messages it shows, whether they are
contiguous, whether a tool call stands without its result.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence

from turnfold import Message, assistant, tool, user

__all__ = (
    "agent_transcript",
    "asks",
    "chat",
    "conversation",
    "gaps",
    "marks",
    "pairing_faults",
    "words",
)

_MARK = re.compile(r"<(\d+)>")
_WORDS = (
    "the order was shipped on 12 May to Lisbon and paid by card",
    "请把收货地址改成杭州市西湖区文三路九十号，谢谢",
    "def total(rows): return sum(row.price for row in rows)",
    "déjà vu 🎉 привет мир",
    "ERROR worker-3 failed after 12.5 s (code=0x1F)",
)


def words(rng: random.Random, most: int = 60) -> str:
    """Some text in one of several scripts, up to about `most` tokens."""
    text = rng.choice(_WORDS)
    return (text + " ") * rng.randint(0, max(most // 15, 1))


def asks(number: int, *call_ids: str, text: str = "") -> Message:
    """An assistant message that makes these calls."""
    calls = [
        {"id": call_id, "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
        for call_id in call_ids
    ]
    return assistant(f"<{number}> {text}", tool_calls=calls)


def conversation(
    seed: int, length: int, *, late: bool = False, broken: bool = False, most: int = 60
) -> list[Message]:
    """Questions, answers and tool loops with up to three parallel calls.

    With `late`, other messages may come before a result; with `broken`, results may have no call or come twice.
    """
    rng = random.Random(seed)  # noqa: S311 - the same on every machine
    messages: list[Message] = []
    waiting: list[str] = []
    for number in range(length):
        text = f"<{number}> {words(rng, most)}"
        if waiting and (not late or rng.random() < 0.6):
            call_id = waiting.pop(rng.randrange(len(waiting)))
            messages.append(tool(text, tool_call_id=call_id))
        elif broken and rng.random() < 0.15:
            known = rng.choice(["lost", *(call.id for m in messages[-9:] for call in m.calls)])
            messages.append(tool(text, tool_call_id=known))
        elif number == 0 or rng.random() < 0.35:
            messages.append(user(text))
        elif rng.random() < 0.5:
            messages.append(assistant(text))
        else:
            waiting += (new := [f"c{number}-{index}" for index in range(rng.randint(1, 3))])
            messages.append(asks(number, *new, text=words(rng, most)))
    return messages


def chat(
    turns: int, *, text: str = "some words that take their place in the window"
) -> list[Message]:
    """Plain questions and answers."""
    return [
        message
        for turn in range(turns)
        for message in (user(f"<{2 * turn}> {text}"), assistant(f"<{2 * turn + 1}> {text}"))
    ]


def agent_transcript(turns: int, seed: int = 1) -> list[Message]:
    """An agent at work: each turn a question, one or two tool calls with long results, an answer."""
    rng = random.Random(seed)  # noqa: S311 - the same on every machine
    messages: list[Message] = []
    for turn in range(turns):
        messages.append(user(f"<{len(messages)}> question {turn}: {words(rng, 120)}"))
        for step in range(rng.randint(1, 2)):
            call_id = f"call-{turn}-{step}"
            messages.append(asks(len(messages), call_id, text="looking"))
            result = f"<{len(messages)}> result: " + words(rng, 200) * 2
            messages.append(tool(result, tool_call_id=call_id))
        messages.append(assistant(f"<{len(messages)}> answer {turn}: {words(rng, 120)}"))
    return messages


def marks(messages: Iterable[Message]) -> list[int]:
    """The numbers of the messages, in the order shown; the system's and a summary's are not among them."""
    found: list[int] = []
    for message in messages:
        if message.role == "system" or "<summary " in message.text:
            continue
        mark = _MARK.search(message.text)
        if mark:
            found.append(int(mark[1]))
    return found


def gaps(window: Sequence[Message], log: Sequence[Message]) -> list[str]:
    """Where a window of `log` is not contiguous up to the newest message.

    The question a tool loop answers may stand before the loop although what was in between is gone.
    """
    shown = marks(window)
    if not shown:
        return ["nothing is shown"]
    tail = shown[1:] if _opens_turn_of(shown, log) else shown
    expected = list(range(tail[0], len(log)))
    return [] if tail == expected else [f"shown {shown}, expected an end of 0..{len(log) - 1}"]


def _opens_turn_of(shown: Sequence[int], log: Sequence[Message]) -> bool:
    if len(shown) < 2 or shown[1] == shown[0] + 1 or log[shown[0]].role != "user":
        return False
    return all(log[between].role != "user" for between in range(shown[0] + 1, shown[1] + 1))


def pairing_faults(messages: Iterable[Message], *, running: bool = False) -> list[str]:
    """Results without their call right before them, and calls without a result, as a provider sees them.

    With `running`, the last calls may still wait for their results.
    """
    faults: list[str] = []
    waiting: list[str] = []
    for message in messages:
        for result in message.results:
            if result.call_id in waiting:
                waiting.remove(result.call_id)
            else:
                faults.append(f"result for {result.call_id} without its call")
        if message.role != "tool":
            faults += [f"call {call_id} without its result" for call_id in waiting]
            waiting = [call.id for call in message.calls]
    return (
        faults if running else [*faults, *(f"call {each} without its result" for each in waiting)]
    )
