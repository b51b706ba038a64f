"""In messages of several sentences each sentence is judged for itself, and what is kept can be read alone."""

from __future__ import annotations

import re

import pytest

from bench.natural_messages import judge
from tests.rules.generator import HALVES, Half, read_messages, read_sentences
from turnfold.rules import (
    StandingRule,
    demands,
    extract,
    extract_rules,
    own_words,
    rule_kinds,
    sentence_clauses,
    sentence_scores,
)

Case = tuple[str, str]
KINDS = ("rule", "prohibition", "decision", "preference", "task", "fact")
AFTER_AN_OPENING: list[Case] = [
    ("Pretix sounds good. ", "And never Eventbrite please."),
    ("Somebody asked if dogs are allowed. ", "Then no dogs, except assistance dogs."),
    ("", "One thing about how you answer: keep it short, I mostly read on my phone."),
    ("Sounds good. ", "You know what, round to the nearest cent everywhere"),
    ("Sounds good. ", "One more thing: put the conclusion up top, details after."),
    ("听着不错。", "另外，翻译的时候专有名词保留英文"),
    ("听着不错。", "那个，文件名里带上日期哈"),
    (
        "Love it. ",
        "Though I'd prefer a less posh tone in anything public, like talking to a neighbour.",
    ),
]
BESIDE_A_REASON = [
    "主卧颜色再想了想，浅灰太冷，还是燕麦色好。",
    "Leo turns seven on 21 June. No nuts in anything, two of his friends react to them.",
    "4000K 会不会太白？卧室改 3500K 吧，其他的不变。",
    "老公不同意榻榻米，说潮，书房就放张沙发床好了。",
    "骑行取消，下雨。",
    "重试 3 次不够，改 5 次。",
    "给我回消息用语音不方便，打字就好。",
    "玉龙雪山那天还是请个导游吧。",
    "时区全部用 UTC 存，展示的时候再转 +8。",
]
NOISE = [
    "Jonas from the Volkskrant called btw.",
    "Hmm that's more than half.",
    "Perfect, sent it.",
    "I have to run, talk tomorrow.",
    "Somewhere around May.",
    "You decide.",
    "In the film nobody may enter the room.",
    "别忘了。",
    "比如 order.created。",
    "小费你看着给。",
    "踢脚线你看着办。",
    "金额单位那条保持不变。",
    "看了一部电影，主角不许别人进他的房间。",
]
WHOLE = [
    "生产库的密码在 vault 里，别写进代码。",
    "我对海鲜过敏，别推荐。",
    "我公公有哮喘，油漆味闻不得，施工期间他不能进场。",
    "Olga Ravn should be Saturday at 20:00, main hall.",
]
BRACKETED = [
    "接口返回统一包一层 {code, msg, data}。",
    "Always return an object (code, message, data) from the API.",
    "每周五交周报（含进度。含风险），不要迟到。",
]
KIND_OF: list[Case] = [
    ("运单号 SF-20931", "fact"),
    ("病历号 A-77120", "fact"),
    ("酒店得有电梯。", "decision"),
    ("挂机要格力的一级能效。", "decision"),
    ("给爸妈的房间要挨着我们的。", "decision"),
    ("提醒我出发前一天打印行程单。", "task"),
    ("对接口改到周四了，时间不变。", "decision"),
    ("预订号 BJ-20931。", "fact"),
    ("组里后端就我一个。", "fact"),
    ("我有高血压。", "fact"),
    ("我有痛风。", "fact"),
    ("我有心脏病。", "fact"),
    ("我妈癫痫。", "fact"),
    ("我是回族，吃清真。", "fact"),
    ("我乳糖不耐受。", "fact"),
    ("我膝盖不好。", "fact"),
    ("青霉素我用不了。", "fact"),
    ("Remind me to bring the tickets.", "task"),
    ("And remind me to ask about the ramp.", "task"),
]


def taken(text: str) -> list[StandingRule]:
    return [rule for rule in extract_rules(text, seq=1, trust="user") if rule.act != "done"]


def texts(text: str) -> list[str]:
    return [rule.text for rule in taken(text)]


@pytest.mark.parametrize(
    ("language", "half", "kept", "false"),
    [
        ("en", "develop", 0.82, 0.09), ("en", "report", 0.80, 0.10),
        ("zh", "develop", 0.82, 0.13), ("zh", "report", 0.84, 0.05),
    ],
)  # fmt: skip
def test_of_natural_messages_most_rules_are_kept_and_little_else(
    language: str, half: Half, kept: float, false: float
) -> None:
    judged = judge(read_messages("natural", language, half))
    assert len(judged.kept) >= kept * (len(judged.kept) + len(judged.missed)), judged.missed
    assert len(judged.false) <= false * judged.plain, judged.false
    assert len(judged.other_kind) <= 0.18 * len(judged.kept), judged.other_kind


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_natural_sentence_was_learnt_from(language: str) -> None:
    learnt = {
        line
        for name in ("assistant", "develop")
        for lines in read_sentences(name, language).values()
        for line in lines
    }
    messages = [each for half in HALVES for each in read_messages("natural", language, half)]
    laid_down = {each.text for message in messages for each in message.sentences if each.kinds}
    assert learnt.isdisjoint(laid_down)


@pytest.mark.parametrize(("before", "rule"), AFTER_AN_OPENING)
def test_words_before_the_sentence_proper_do_not_hide_it(before: str, rule: str) -> None:
    assert rule in texts(before + rule)


def test_sabotage_openings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentence_scores, "without_opening", lambda text, _: text)
    monkeypatch.setattr(demands, "without_opening", lambda text, _: text)
    assert [rule for before, rule in AFTER_AN_OPENING if rule not in texts(before + rule)]


@pytest.mark.parametrize("text", BESIDE_A_REASON)
def test_a_reason_or_a_question_before_a_clause_does_not_hide_it(text: str) -> None:
    assert any(text.endswith(rule) for rule in texts(text))


def test_sabotage_clauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentence_scores, "best_clause_score", lambda *_: -9.0)
    assert [
        text for text in BESIDE_A_REASON if not any(text.endswith(rule) for rule in texts(text))
    ]


@pytest.mark.parametrize("text", NOISE)
def test_reports_goodbyes_reactions_and_delegations_are_no_rules(text: str) -> None:
    assert taken(text) == []


def test_sabotage_forms_of_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentence_scores, "is_no_rule", lambda *_: False)
    assert [text for text in NOISE if taken(text)]


@pytest.mark.parametrize("text", WHOLE)
def test_a_clause_that_cannot_be_read_alone_stays_with_its_sentence(text: str) -> None:
    assert texts(text) == [text]


def test_sabotage_clauses_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extract, "needs_the_clause_before", lambda *_: False)
    assert [text for text in WHOLE if texts(text) != [text]]


@pytest.mark.parametrize("text", BRACKETED)
def test_nothing_is_split_inside_brackets(text: str) -> None:
    assert taken(text)
    for rule in texts(text):
        assert len(re.findall(r"[({（]", rule)) == len(re.findall(r"[)}）]", rule)), rule


def test_sabotage_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_words, "bracketed", lambda *_: [])
    monkeypatch.setattr(sentence_clauses, "bracketed", lambda *_: [])
    cut = [
        rule
        for text in BRACKETED
        for rule in texts(text)
        if len(re.findall(r"[({（]", rule)) != len(re.findall(r"[)}）]", rule))
    ]
    assert cut


def test_brackets_are_matched_by_kind_and_the_outermost_counts() -> None:
    assert own_words.bracketed("a (b [c] d) e ] (f") == [(2, 11)]
    assert own_words.bracketed("( " * 3 + "(x)") == [(6, 9)]
    assert own_words.bracketed("(" + "x" * 300 + ")") == []


@pytest.mark.parametrize(("text", "kind"), KIND_OF)
def test_kinds(text: str, kind: str) -> None:
    assert [rule.kind for rule in taken(text)] in ([kind], [kind, kind])


def test_sabotage_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_kinds, "_KIND_FORMS", {"en": (), "zh": ()})
    assert [text for text, kind in KIND_OF if any(rule.kind != kind for rule in taken(text))]


@pytest.mark.parametrize(
    "piece",
    [
        "(",
        "([{",
        "()",
        "and ",
        "so, ",
        "那个，",
        "改，",
        "好，",
        "I we ",
        "看了一部",
        "there is a ",
    ],
)
def test_a_megabyte_of_openings_and_brackets_is_read(piece: str) -> None:
    assert extract_rules(piece * (1_000_000 // len(piece)), seq=1, trust="user") == ()
