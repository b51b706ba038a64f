"""On plain chatter of real people next to nothing is taken for a rule."""

from __future__ import annotations

import gzip
import json
import re

import pytest

from bench.extract_fidelity import data_folder
from turnfold.rules import extract_rules

needs_data = pytest.mark.skipif(
    not data_folder().is_dir(), reason="needs real conversations: set TURNFOLD_DATA to their folder"
)
SPEAKER = re.compile(r"^[A-Z][a-z]+: ")


def user_messages(name: str) -> list[tuple[str, str]]:
    """The user's messages, each with the message that it answers."""
    path = data_folder() / "conversations" / f"{name}.jsonl.gz"
    found: list[tuple[str, str]] = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            before = ""
            for message in json.loads(line)["messages"]:
                text = SPEAKER.sub("", message["content"])
                found += [(text, before)] if message["role"] == "user" else []
                before = text if message["role"] == "assistant" else ""
    return found


@needs_data
@pytest.mark.parametrize("name", ["locomo", "kdconv_zh"])
def test_fewer_than_one_rule_in_a_hundred_messages_of_chatter(name: str) -> None:
    messages = user_messages(name)
    assert len(messages) > 2000
    taken = [
        rule.full_text
        for message, before in messages
        for rule in extract_rules(message, seq=1, trust="user", answered=before)
        if rule.act != "done"
    ]
    assert 100 * len(taken) < len(messages), taken
