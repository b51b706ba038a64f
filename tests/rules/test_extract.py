"""What a user lays down is taken, word for word; talk, questions, quotations and pasted text are not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rules.generator import HALVES, changes, planted, quoted_messages, read_sentences, talk
from turnfold.rules import (
    LONGEST_RULE,
    StandingRule,
    extract_rules,
    own_words,
)


def taken(text: str) -> list[StandingRule]:
    """The rules of a message that would be kept."""
    return [rule for rule in extract_rules(text, seq=7, trust="user") if rule.act != "done"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Use tabs, not spaces.", "rule"),
        ("Keep answers short.", "rule"),
        ("Reply in French from now on.", "rule"),
        ("If a test fails, stop and tell me.", "rule"),
        ("Could you please keep your answers short from now on?", "rule"),
        ("Never deploy on Fridays.", "prohibition"),
        ("No meetings before 10.", "prohibition"),
        ("The payments table is off limits.", "prohibition"),
        ("We're going with Postgres.", "decision"),
        ("Let's do Tuesday.", "decision"),
        ("The deadline is Friday.", "decision"),
        ("I prefer dark mode.", "preference"),
        ("I'm vegetarian.", "fact"),
        ("Call me Sam.", "rule"),
        ("I'm allergic to peanuts.", "fact"),
        ("Remind me to call the bank.", "task"),
        ("We still need to write the migration.", "task"),
        ("回答尽量简短", "rule"),
        ("以后都用中文回复", "rule"),
        ("删除任何文件之前先跟我确认", "rule"),
        ("千万别把密码写进日志", "prohibition"),
        ("晚上十点以后不要给我打电话", "prohibition"),
        ("就定周三吧", "decision"),
        ("预算控制在五千以内", "rule"),
        ("截止日期是周五", "decision"),
        ("我更喜欢深色主题", "preference"),
        ("我对花生过敏", "fact"),
        ("我叫李雷", "fact"),
        ("提醒我明天交房租", "task"),
        ("别忘了续签签证", "task"),
    ],
)
def test_a_standing_sentence_is_taken_whole(text: str, kind: str) -> None:
    [rule] = taken(text)
    assert (rule.kind, rule.text, rule.seq, rule.trust) == (kind, text, 7, "user")


@pytest.mark.parametrize(
    "text",
    [
        "At least we tried.",
        "I've never heard of it.",
        "That must be nice!",
        "It must have been hard.",
        "I can't wait to see you.",
        "Never mind.",
        "Don't worry about it.",
        "What should I never do?",
        "He said we must never give up.",
        "My boss told me to always smile.",
        "If I were rich, I would never work.",
        "Please fix this line.",
        "Write a function that always returns true.",
        "Check if the server is up.",
        "The tests always fail on my machine.",
        "你能不能帮我看看",
        "我特别高兴",
        "不得不说你很厉害",
        "有机会一定要去看看",
        "老板说必须加班",
        "如果我有钱就好了",
        "请问怎么退货",
        "帮我查一下明天的天气",
    ],
)
def test_idioms_questions_and_reports_are_not_taken(text: str) -> None:
    assert taken(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "> Never deploy on Fridays.",
        "```\n# never deploy on Fridays\n```",
        "What is this?\n<policy>\nNever deploy on Fridays.\n</policy>",
        "What is this?\n---\nNever deploy on Fridays.\n---",
        "Please summarise this email:\n\nNever deploy on Fridays.\n\nBest, Bob",
        "From: Bob\nSubject: deploys\n\nNever deploy on Fridays.",
        "2024-01-01 12:00:00 ERROR Never deploy on Fridays.",
        "Alice: Never deploy on Fridays.\nBob: ok\nWho is right?",
        "system: Never deploy on Fridays.",
        'The sign says "Never deploy on Fridays."',
        "翻译下面这段话：\n\n不要在周五部署。",
        "牌子上写着：不要在周五部署。",
        "小王：不要在周五部署。\n小李：好的，知道了",
        "他对我说“不要在周五部署”，然后走了。",
        "<文档>\n不要在周五部署。\n</文档>",
    ],
)
def test_quoted_and_pasted_text_is_not_taken(text: str) -> None:
    assert taken(text) == []


def test_own_words_beside_a_quotation_are_taken() -> None:
    text = "> Never deploy on Mondays.\n\nNever deploy on Fridays.\n```\n# always push\n```\n我对花生过敏。"
    assert [rule.text for rule in taken(text)] == ["Never deploy on Fridays.", "我对花生过敏。"]


def test_items_of_a_list_are_read_by_its_heading() -> None:
    text = "Rules:\n- tabs for indentation\n- two reviewers per change\n\n要求：\n1. 图片横版\n2. 标题居中"
    assert [(rule.kind, rule.text) for rule in taken(text)] == [
        ("rule", "tabs for indentation"),
        ("rule", "two reviewers per change"),
        ("rule", "图片横版"),
        ("rule", "标题居中"),
    ]


def test_a_sentence_with_several_rules_gives_each_of_them() -> None:
    [name, home] = taken("My name is Tomas, and I live in Porto.")
    assert (name.text, home.text) == ("My name is Tomas", "I live in Porto.")
    assert ("@name" in name.scope, "@home" in home.scope) == (True, True)
    for listed in (
        "Ask Kim for the 13th, the 14th and all pallets, and Delta Road for the 16th.",
        "Put the receipts into the blue folder, 12 in each, and the letters below them.",
    ):
        assert [rule.text for rule in taken(listed)] in ([listed], [])  # no part can be read alone
    first, second = taken("以后回答尽量简短，不要用表情符号。")
    assert (first.text, second.text) == ("以后回答尽量简短", "不要用表情符号。")


def test_the_same_message_gives_the_same_rules_and_ids() -> None:
    text = "Never deploy on Fridays. 我对花生过敏。"
    first, again = (extract_rules(text, seq=3, trust="user") for _ in range(2))
    assert first == again
    assert len({rule.id for rule in first}) == 2
    assert {rule.id for rule in first}.isdisjoint(
        rule.id for rule in extract_rules(text, seq=4, trust="user")
    )


FRAGMENTS = st.sampled_from(
    [each.text for half in HALVES for each in planted(half, each=1)]
    + [
        "> ",
        "```",
        "---",
        "\n\n",
        '"',
        "“",
        "”",
        "<a>",
        "</a>",
        "Rules:\n- ",
        "不",
        "never ",
        "，",
        ": ",
    ]
)


@given(st.lists(st.one_of(FRAGMENTS, st.text(max_size=12)), max_size=12).map(" ".join))
def test_every_rule_is_a_slice_of_the_message(text: str) -> None:
    rules = extract_rules(text, seq=1, trust="user")
    for rule in rules:
        assert rule.text in text
        assert rule.text == rule.text.strip()
        assert 0 < len(rule.text) <= LONGEST_RULE


ADVERSARIAL = [
    "never ",
    "%",
    "不要",
    "\n",
    "> never\n",
    "<a>\n",
    '"',
    "“",
    ".",
    "if ",
    "the ",
    "my dog's ",
    "a:",
]
ADVERSARIAL += [
    "Bob: never do this\n",
    "---\n",
    "'",
    "please ",
    "and ",
    "我们，",
    "把改",
    "- a\n",
    "\x1a",
    "```\n",
]
ADVERSARIAL += ["x" * 60 + "\n", "(", "[", "\t", "    never\n", "a. ", "1. ", "：", "！"]


@pytest.mark.parametrize("piece", ADVERSARIAL)
def test_a_megabyte_of_one_piece_is_read_and_gives_nothing(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    assert extract_rules(text, seq=1, trust="user") == ()


@settings(max_examples=25)
@given(st.lists(st.sampled_from(ADVERSARIAL), min_size=1, max_size=3))
def test_both_ends_of_a_huge_message_are_read(pieces: list[str]) -> None:
    plain = (
        "".join(piece for piece in pieces if piece in {".", "the ", "and ", "% "})
        or "lorem ipsum. "
    )
    filler = plain * (100_000 // len(plain))
    text = f"Never deploy on Fridays.\n\n{filler}\n\nI'm allergic to peanuts."
    said = [rule.text for rule in taken(text)]
    assert said == ["Never deploy on Fridays.", "I'm allergic to peanuts."]


def test_of_many_rules_in_one_message_each_is_taken() -> None:
    text = "\n".join(f"Never use library{number}." for number in range(300))
    assert [rule.text for rule in taken(text)] == text.split("\n")


@pytest.mark.parametrize("half", HALVES)
def test_generated_rules_are_found_and_nothing_else_is(half: str) -> None:
    every = list(planted(half))  # pyright: ignore[reportArgumentType] - the halves are literals
    found = sum(bool(taken(each.text)) for each in every)
    assert len(every) > 150
    assert found >= 0.97 * len(every)
    plain = talk(half)  # pyright: ignore[reportArgumentType]
    assert sum(bool(taken(text)) for text in plain) <= 0.15 * len(plain)
    quoted = list(quoted_messages(half))  # pyright: ignore[reportArgumentType]
    assert [text for text in quoted if taken(text)] == []
    assert len(list(changes(half))) > 40  # pyright: ignore[reportArgumentType]


def test_the_quotation_test_sees_a_reader_that_does_not_blank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own_words, "blank_quotes", lambda text: text)
    quoted = list(quoted_messages("develop"))
    assert sum(bool(taken(text)) for text in quoted) > len(quoted) // 4


KINDS = ("rule", "prohibition", "decision", "preference", "task", "fact")


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", ["report", "fresh"])
def test_freely_worded_sentences_that_no_weight_was_learnt_from_are_kept(
    name: str, language: str
) -> None:
    read = read_sentences(name, language)
    every = [text for kind in KINDS for text in read[kind]]
    assert sum(bool(taken(text)) for text in every) >= 0.95 * len(every)
    # Hard negatives: one-off requests, chatter, idioms, what others say, each as a message of its own.
    assert sum(bool(taken(text)) for text in read["none"]) <= 0.5 * len(read["none"])


@pytest.mark.parametrize("name", ["report", "fresh"])
def test_no_sentence_to_report_on_was_learnt_from(name: str) -> None:
    for language in ("en", "zh"):
        learnt = {line for lines in read_sentences("develop", language).values() for line in lines}
        both = [
            line
            for lines in read_sentences(name, language).values()
            for line in lines
            if line in learnt
        ]
        assert both == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("不要安排任何需要下水的活动，班上有三个孩子不会游泳。", "prohibition"),
        ("必须先问过我再下单，上次就买错了。", "rule"),
        ("代码里不要用全局变量，测试会互相影响。", "prohibition"),
        ("一定要留十分钟提问，领导喜欢问细节。", "rule"),
    ],
)
def test_a_reason_beside_a_demand_does_not_hide_it(text: str, kind: str) -> None:
    rule, *reasons = taken(text)
    assert (rule.kind, rule.weak) == (kind, False)
    assert "".join([rule.text, *(each.joint + each.text for each in reasons)]) == text
    assert all(each.continues == rule.id for each in reasons), "shown on the same line"


@pytest.mark.parametrize(
    "text",
    ["不要紧，下次再说。", "别闹了，我在上班。", "别担心，我们慢慢来。", "Don't worry, we have time.",
     "Don't be silly, of course I like it.", "Never mind, I found it."],
)  # fmt: skip
def test_phrases_that_look_like_a_prohibition_are_none(text: str) -> None:
    assert taken(text) == []


@pytest.mark.parametrize(
    "text",
    ["Don't ever mention the merger to Tom, ok?", "Never call me before nine, okay?",
     "以后不要在群里提价格，好吗？", "别用塑料杯，行吗？"],
)  # fmt: skip
def test_a_demand_that_ends_like_a_question_is_taken(text: str) -> None:
    [rule] = taken(text)
    assert (rule.kind, rule.text) == ("prohibition", text)


@pytest.mark.parametrize(
    "text", ["Don't you like it?", "Shall we always go there, ok?", "明天去公园，好吗？"]
)
def test_a_question_is_not(text: str) -> None:
    assert taken(text) == []


def test_a_permission_is_no_prohibition() -> None:
    [rule] = taken("You may now mention the merger to Tom.")
    assert (rule.kind, rule.act, rule.negative) == ("rule", "permit", False)


@pytest.mark.parametrize(
    "text",
    ["Could you make sure you always loop in Dana on hiring emails?", "pls no meetings before ten ok?",
     "Would you mind not using emojis when you write to clients?", "能不能以后报价都用欧元？"],
)  # fmt: skip
def test_a_demand_in_the_form_of_a_question_is_taken(text: str) -> None:
    assert [rule.text for rule in taken(text)] == [text]


@pytest.mark.parametrize(
    "text",
    ["退货地址发我一下。", "麻烦把账单再发一遍。", "我传了两张截图。", "一打开就闪退。", "我表弟对花粉过敏。",
     "Translate the second page into Dutch, please.", "Fix the typo in line 7.", "The printer keeps jamming again.",
     "I'm prepping for my dance studio more than ever!", "Still working on opening a dance studio.", "###STOP###"],
)  # fmt: skip
def test_requests_for_one_thing_mishaps_and_news_are_not_taken(text: str) -> None:
    assert taken(text) == []


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("水壶的颜色我选的是白色，别发成灰色了。", ["水壶的颜色我选的是白色，别发成灰色了。"]),
        ("退款请退到银行卡，不要退到余额。", ["退款请退到银行卡，不要退到余额。"]),
        ("发票抬头换成个人：周敏。", ["发票抬头换成个人：周敏。"]),
        ("你好，我叫周敏。", ["你好，我叫周敏。"]),
    ],
)
def test_a_rule_is_not_cut_off_from_what_it_is_about(text: str, kept: list[str]) -> None:
    assert [rule.text for rule in taken(text)] == kept


def test_a_short_sentence_keeps_the_sentence_that_names_its_subject() -> None:
    [rule] = taken("我家的猫昨天把花瓶打了。以后别放桌上。")
    assert (rule.lead, rule.text) == ("我家的猫昨天把花瓶打了。", "以后别放桌上。")
    first, second = taken("I want the white kettle. Not in grey.")
    assert (second.continues, second.joint) == (first.id, " ")


@pytest.mark.parametrize(
    ("text", "act"),
    [
        ("扫地机还是送到我妈那里，不变。", "keep"),
        ("The vacuum still goes to my mother, no change there.", "keep"),
        ("水壶改寄到公司，扫地机照旧。", "change"),
        ("会议挪到周三了，时间不变。", "change"),
    ],
)
def test_what_stays_as_it_is_changes_nothing(text: str, act: str) -> None:
    assert [rule.act for rule in taken(text)] == [act]


@pytest.mark.parametrize(
    "text",
    [
        "我对油漆味过敏，送来前能不能多晾几天？",
        "我家孩子对坚果过敏，有不含坚果的吗？",
        "I'm allergic to nuts, do you have anything without?",
        "My daughter is vegetarian, so what can she order?",
    ],
)
def test_a_lasting_fact_before_a_question_is_taken(text: str) -> None:
    [rule] = extract_rules(text, seq=1, trust="user")
    assert (rule.text, rule.act) == (text, "state")


@pytest.mark.parametrize(
    "text", ["我对花生过敏吗？", "Am I allergic to nuts, or what is it?", "孩子不吃饭，怎么办呢？"]
)
def test_a_question_about_such_a_fact_is_not(text: str) -> None:
    assert extract_rules(text, seq=1, trust="user") == ()


def test_a_word_that_belongs_to_the_clause_is_not_cut() -> None:
    said = "Never drop anything on the mysql side until I say so, auditors want it for 90 days."
    assert taken(said)[0].text == "Never drop anything on the mysql side until I say so"
