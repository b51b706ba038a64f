"""Which messages name nothing to search for, and which old ones are not worth recalling."""

from __future__ import annotations

import pytest

from turnfold.records import Entry, Message, tool
from turnfold.search import asks_for_summary, idle_entries, is_courtesy, is_follow_up

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
    "And the second one?",
    "What about the other one?",
    "那第二家呢？",
    "另一个呢？",
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
    "And the second chapter?",
    "那第二个方案呢？",
    "第二天怎么安排？",
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


def test_a_message_that_asks_to_sum_up_is_known() -> None:
    assert asks_for_summary("Can you recap that?")
    assert asks_for_summary("帮我总结一下")
    assert not asks_for_summary("why?")
    assert not asks_for_summary("summary " * 100)


def message(role: str, text: str) -> Message:
    return tool(text, tool_call_id="a") if role == "tool" else Message(role, text)


def talk(*said: tuple[str, str]) -> dict[int, Entry]:
    return {
        at: Entry(at, message(role, text), str(at), 0, turn=1, tokens=9, running=9 * at)
        for at, (role, text) in enumerate(said, 1)
    }


ORDERS = {
    "en": talk(
        ("user", "Hi there"),
        ("assistant", "Let me look that up for you, one moment please."),
        ("user", "Deliveries only on weekends, please, I work during the week."),
        ("assistant", "Noted, weekend delivery only."),
        ("user", "And an invoice for Greenfold Ltd."),
        ("assistant", "Registered: Greenfold Ltd. It is sent within three working days."),
        ("assistant", "Shall I book the lift as well?"),
        ("user", "ok"),
        ("assistant", "You're welcome. Anything else I can do for you?"),
    ),
    "zh": talk(
        ("user", "你好，在吗"),
        ("assistant", "好的，我帮您查一下，请稍等。"),
        ("user", "对了，送货只能在周末，我平时上班家里没人。"),
        ("assistant", "好的，已备注周末配送。"),
        ("user", "发票开杭州青禾公司。"),
        ("assistant", "好的，已登记：杭州青禾公司，电子发票会在签收后三个工作日内开具。"),
        ("assistant", "要不要帮您约电梯？"),
        ("user", "好的"),
        ("assistant", "不客气，还有其他可以帮您的吗？"),
    ),
}


@pytest.mark.parametrize("language", ORDERS)
def test_formalities_are_idle_but_not_the_yes_to_a_question(language: str) -> None:
    assert idle_entries(ORDERS[language], ()) == {1, 2, 9}


@pytest.mark.parametrize("language", ORDERS)
def test_a_reply_that_only_confirms_what_is_shown_elsewhere_is_idle(language: str) -> None:
    assert idle_entries(ORDERS[language], {3, 5}) == {1, 2, 4, 9}, "6 says more than 5"


def test_a_question_is_idle_if_another_part_of_the_prompt_shows_its_answer() -> None:
    asked = talk(("assistant", "Sorry, when would suit you?"), ("user", "Sunday after 2 pm."))
    assert idle_entries(asked, ()) == set()
    assert idle_entries(asked, {2}) == {1}
    choice = "We could take the museum or the zoo instead, which of the two do you prefer?"
    assert idle_entries(talk(("assistant", choice), ("user", "The zoo.")), {2}) == set()


def test_a_tool_result_of_a_few_words_is_idle_unless_a_brief_answer_needs_it() -> None:
    told = talk(
        ("tool", "ok: 1 replacement"), ("assistant", "The file has a prefix for refunds now.")
    )
    assert idle_entries(told, ()) == {1}
    assert idle_entries(talk(("tool", "8080"), ("assistant", "8080.")), ()) == set()
