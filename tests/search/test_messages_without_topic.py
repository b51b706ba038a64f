"""Which messages name nothing to search for: courtesies, and follow-ups about what was said last."""

from __future__ import annotations

import pytest

from turnfold.search import is_courtesy, is_follow_up

FOLLOW_UPS = (
    "What should we do next?",
    "And then?",
    "Why?",
    "Really? How come?",
    "What do you think?",
    "Are you sure about that?",
    "Can you explain that again, in other words?",
    "Say more about the second one",
    "What was the last thing you said?",
    "ok, go on please",
    "shorter, please",
    "Thanks! What else?",
    "接下来做什么？",
    "然后呢？",
    "你觉得呢？",
    "能再解释一遍吗？",
    "换个说法可以吗？",
    "就这些吗？",
    "那怎么办",
    "什么意思",
    "说得具体一点",
    "好的，继续吧",
    "谢谢，那下一步呢",
)
OTHERS = (
    "What is my name?",
    "Where do I live?",
    "When is it?",
    "Why Kafka?",
    "What did we decide?",
    "What did I say first?",
    "What do I like?",
    "Continue with the second chapter",
    "我住哪？",
    "我喜欢什么？",
    "为什么用 Kafka？",
    "我们决定了什么",
    "上周说的预算是多少",
    "继续写第二章",
)


@pytest.mark.parametrize("message", FOLLOW_UPS)
def test_a_question_about_what_was_said_last_is_a_follow_up(message: str) -> None:
    assert is_follow_up(message)
    assert not is_courtesy(message)


@pytest.mark.parametrize("message", OTHERS)
def test_a_message_that_names_something_is_neither(message: str) -> None:
    assert not is_follow_up(message)
    assert not is_courtesy(message)


@pytest.mark.parametrize(
    "message", ["thanks!", "Good night, see you tomorrow", "好的，谢谢", "👍", ""]
)
def test_a_courtesy_asks_for_nothing(message: str) -> None:
    assert is_courtesy(message)
    assert not is_follow_up(message)


def test_a_long_message_is_neither() -> None:
    assert not is_follow_up("why? " * 100)
    assert not is_courtesy("thanks! " * 100)
