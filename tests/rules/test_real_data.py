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


def user_messages(name: str) -> list[str]:
    path = data_folder() / "conversations" / f"{name}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        messages = [message for line in lines for message in json.loads(line)["messages"]]
    return [
        SPEAKER.sub("", message["content"]) for message in messages if message["role"] == "user"
    ]


@needs_data
@pytest.mark.parametrize("name", ["locomo", "kdconv_zh"])
def test_fewer_than_one_rule_in_a_hundred_messages_of_chatter(name: str) -> None:
    messages = user_messages(name)
    assert len(messages) > 2000
    taken = [
        rule.text
        for message in messages
        for rule in extract_rules(message, seq=1, trust="user")
        if rule.act != "done"
    ]
    assert 100 * len(taken) < len(messages), taken
