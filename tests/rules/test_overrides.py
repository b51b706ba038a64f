"""Which later rule may override an earlier one: enough to show both, and no more than that."""

from __future__ import annotations

import msgspec
import pytest

from tests.rules.test_display import quarters
from turnfold.rules import (
    Overrides,
    StandingRule,
    display,
    overrides_of,
    render_rules,
    shown_rules,
)
from turnfold.rules.act_classifier import act_of, is_negative
from turnfold.rules.topics import rule_terms

OVERRIDDEN = [
    ("总预算 35 万，包含家电，不能再多了。", "预算我跟老公商量过，可以放宽到 40 万。"),
    ("总预算 35 万，包含家电，不能再多了。", "预算又紧了，家电另算，硬装控制在 28 万以内。"),
    ("空调打算装中央空调，大金的。", "算了，中央空调不装了，层高不够，装挂机。"),
    ("日志里不许打印用户手机号。", "手机号打日志这事，脱敏后可以打，保留后四位。"),
    ("酒店得有电梯。", "电梯无所谓了，一楼就行。"),
    ("We decided on central air conditioning from Daikon.",
     "Actually, no central air conditioning, we take wall units."),
    ("Sander does the fiction.", "Sander Kollaard cancelled, make it Maartje instead."),
    ("Never phone me during working hours.", "You can phone me again after 2 pm."),
]  # fmt: skip
APART = [
    ("次卧要装扶手，给我婆婆住。", "次卧刷奶咖色。"),
    ("阳台要铺防滑砖。", "厨房要做成封闭的。"),
    ("The kitchen must have a sliding door.", "The kitchen walls should be yellow."),
    ("Never refund order 4711.", "Never refund order 93 for the office."),
    ("Shed 3 must have a sliding door.", "Shed 4 must have a window."),
    ("订单 4711 不能退款。", "订单 93 不能退款。"),
    ("Always answer in English.", "Always list labour and material separately."),
]


def rule(seq: int, text: str, **values: object) -> StandingRule:
    language = "en" if text.isascii() else "zh"
    terms = rule_terms(text)
    given: dict[str, object] = {
        "id": str(seq), "text": text, "seq": seq, "kind": "decision", "act": act_of(text, language),
        "negative": is_negative(text, language), "scope": terms.scope, "value": terms.value,
    }  # fmt: skip
    return StandingRule(**given | values)  # pyright: ignore[reportArgumentType] (built from a dictionary)


def pair(old: str, new: str) -> Overrides:
    return overrides_of([rule(1, old), rule(41, new)])


@pytest.mark.parametrize(("old", "new"), OVERRIDDEN)
def test_a_later_rule_about_the_same_thing_is_found(old: str, new: str) -> None:
    assert [each.seq for each in pair(old, new).later.get("1", ())] == [41]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("每次最多查 20 个文件。", "20 个不够，加到 50 个。"),
        ("At most 20 retries per request.", "20 is not enough, always make it 50."),
        ("Never use more than 28 workers.", "28 is too few, from now on raise to 40."),
    ],
)
def test_a_number_named_again_soon_is_changed_by_the_one_beside_it(old: str, new: str) -> None:
    soon = overrides_of([rule(1, old), rule(3, new)])
    assert [each.seq for each in soon.later.get("1", ())] == [3]
    assert soon.likely == {"1": 2}
    much_later = overrides_of([rule(1, old), rule(41, new)])
    assert not much_later.likely  # the same number of something else


@pytest.mark.parametrize(("old", "new"), APART)
def test_rules_about_other_things_are_left_alone(old: str, new: str) -> None:
    assert not pair(old, new).later


def test_what_the_ledger_doubts_is_shown_together_and_hides_nothing() -> None:
    """Of seventeen such doubts in two real conversations, one was right."""
    old, new = rule(1, "用顺丰发。"), rule(9, "改成京东吧。", may_replace=("1",))
    found = overrides_of([old, new])
    assert ([each.text for each in found.later["1"]], found.likely) == (["改成京东吧。"], {})
    assert shown_rules([old], limit_tokens=400, count=quarters, in_window=[new])[0] == (old,)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("No flights inside Europe, trains only.",
         "Ama lives in Accra so she'd have to fly. That's ok since it is not inside Europe."),
        ("没我同意别联系施工队。", "施工队那边换了个工长，联系电话也换了。"),
    ],
)  # fmt: skip
def test_a_doubt_costs_no_prohibition_its_place(old: str, new: str) -> None:
    """A wrong doubt hid "no flights inside Europe" from every second context of a conversation."""
    binding = rule(1, old, kind="prohibition")
    doubt = rule(41, new, may_replace=("1",))
    others = filler("zh" if new[0] > "z" else "en")
    for limit in (60, 90, 120, 200, 400):
        with_doubt = shown_rules([binding, doubt, *others], limit_tokens=limit, count=quarters)[0]
        without = shown_rules([binding, *others], limit_tokens=limit, count=quarters)[0]
        assert (binding in with_doubt) == (binding in without)
        assert shown_rules([binding], limit_tokens=limit, count=quarters, in_window=[doubt])[0]


def test_an_earlier_rule_overrides_no_later_one() -> None:
    rules = [rule(9, OVERRIDDEN[0][0]), rule(3, OVERRIDDEN[0][1])]
    assert "3" not in {each.id for found in overrides_of(rules).later.values() for each in found}


def filler(language: str) -> list[StandingRule]:
    text = {
        "zh": "{at}号柜子必须用桐木做成推拉门的。",
        "en": "Shed {at} must have a sliding door of oak.",
    }[language]
    numbers = range(50, 80)
    return [
        rule(at, text.format(at=at), kind="prohibition", scope=(), act="state") for at in numbers
    ]


@pytest.mark.parametrize("limit", [60, 90, 120, 200, 400, 2_000])
@pytest.mark.parametrize(("old", "new"), OVERRIDDEN)
def test_the_later_rule_is_shown_or_neither_is(old: str, new: str, limit: int) -> None:
    rules = [rule(1, old), rule(41, new), *filler("zh" if new[0] > "z" else "en")]
    shown, left_out = shown_rules(rules, limit_tokens=limit, count=quarters)
    texts = [each.text for each in shown]
    assert old not in texts or texts.index(new) > texts.index(old)
    assert {each.id for each in (*shown, *left_out)} == {each.id for each in rules}


def test_without_overrides_the_earlier_rule_would_stand_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(display, "overrides_of", lambda _: Overrides({}, {}))
    alone: list[str] = []
    for old, new in OVERRIDDEN:
        rules = [rule(1, old), rule(41, new), *filler("zh" if new[0] > "z" else "en")]
        for limit in (60, 90, 120, 200, 400):
            texts = [
                each.text for each in shown_rules(rules, limit_tokens=limit, count=quarters)[0]
            ]
            alone += [old] if old in texts and new not in texts else []
    assert alone


def test_what_the_window_overrides_is_not_shown_behind_it() -> None:
    old, new = (rule(seq, text) for seq, text in zip((1, 41), OVERRIDDEN[2], strict=True))
    shown, left_out = shown_rules([old], limit_tokens=400, count=quarters, in_window=[new])
    assert (shown, left_out) == ((), (old,))
    assert shown_rules([old], limit_tokens=400, count=quarters)[0] == (old,)


def test_of_a_chain_of_changes_the_newest_is_shown_first() -> None:
    said = (OVERRIDDEN[0][0], OVERRIDDEN[0][1], OVERRIDDEN[1][1])
    rules = [rule(seq, text) for seq, text in zip((1, 21, 41), said, strict=True)]
    for limit in range(60, 140, 5):
        texts = [each.text for each in shown_rules(rules, limit_tokens=limit, count=quarters)[0]]
        assert not texts or said[2] in texts


FRAGMENTS = (
    "main hall.",
    "就立邦吧。",
    "那定科勒的吧。",
    "2 March then, at 10:00.",
    "6 月 13 号。",
    "She delivers on 15 February.",
)


@pytest.mark.parametrize("text", FRAGMENTS)
def test_a_fragment_is_never_shown_alone(text: str) -> None:
    kept = rule(3, "Never use tabs.")
    [head, part] = [rule(1, "Olga should be there on Saturday"), rule(2, text, kind="task")]
    alone = msgspec.structs.replace(part, continues="gone" if text == "main hall." else "")
    shown, left_out = shown_rules([alone, kept], limit_tokens=999, count=quarters)
    assert (shown, left_out) == ((kept,), (alone,))
    joined = msgspec.structs.replace(part, continues=head.id, joint=", ", seq=1)
    assert f"- [1] {head.text}, {text}" in render_rules(
        shown_rules([head, joined], limit_tokens=999, count=quarters)[0]
    )


def test_a_fragment_would_be_shown_without_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "_needs_head", lambda *_, **__: False)
    with pytest.raises(AssertionError):
        test_a_fragment_is_never_shown_alone("就立邦吧。")


def test_a_clause_goes_with_its_head_or_not_at_all() -> None:
    head = rule(7, "生产库的密码在 vault 里", kind="fact")
    clause = rule(7, "别写进代码。", id="7b", continues=head.id, joint="，", kind="prohibition")
    for limit in range(40, 120, 4):
        rules = [head, clause, *filler("zh")]
        shown, _ = shown_rules(rules, limit_tokens=limit, count=quarters)
        assert clause not in shown or head in shown


EARLY = {"zh": "别在群里发价格。", "en": "Never post prices in the group."}
HEALTH = {
    "zh": ["我有高血压。", "我爸痛风。", "我妈心脏病。", "我儿子有癫痫。",
           "我们吃清真。", "我乳糖不耐受。", "我妈膝盖不好。", "我青霉素用不了。"],
    "en": ["I have high blood pressure.", "My father has gout.", "I have a heart condition.", "My son has epilepsy.",
           "We eat halal.", "I am lactose intolerant.", "My knees are bad.", "I can't take penicillin."],
}  # fmt: skip
TRIFLES = {
    "zh": "{at}号展板的颜色随便你定。",
    "en": "Sign {at} should be something with rhubarb, for fun.",
}


@pytest.mark.parametrize("language", HEALTH)
def test_prohibitions_then_health_then_decisions_then_trifles(language: str) -> None:
    trifle = TRIFLES[language]
    trifles = [rule(at, trifle.format(at=at), kind="rule", scope=()) for at in range(60, 75)]
    decision = {"zh": "音乐节定在 5 月 23 号。", "en": "We decided to hold the fair on 23 May."}[
        language
    ]
    rules = [
        rule(1, EARLY[language], kind="prohibition", scope=()),
        *(rule(at, text, kind="fact", scope=()) for at, text in enumerate(HEALTH[language], 2)),
        rule(20, decision, kind="decision"),
        *trifles,
    ]
    for limit in (70, 90, 110, 125) if language == "zh" else (70, 110, 160, 200):
        shown, left_out = shown_rules(rules, limit_tokens=limit, count=quarters)
        seqs = [each.seq for each in shown]
        assert left_out
        assert 1 in seqs
        assert 20 not in seqs or len(set(range(2, 10)) & set(seqs)) > 3, "health first"
        assert not ([seq for seq in seqs if seq >= 60] and 20 not in seqs), "trifles last"
        assert limit < 125 or len(set(range(2, 10)) & set(seqs)) >= 6


@pytest.mark.parametrize(("language", "mark"), [("zh", "手动设定"), ("en", "set by hand")])
def test_what_was_added_by_hand_comes_last_and_says_so(language: str, mark: str) -> None:
    added = StandingRule(id="h", text=EARLY[language], kind="rule", seq=0)
    said = rule(30, HEALTH[language][0], kind="fact", scope=())
    shown, _ = shown_rules([added, said], limit_tokens=999, count=quarters)
    lines = render_rules(shown).splitlines()
    assert lines[1:] == [f"- [30] {said.text}", f"- [{mark}] {added.text}"]
    assert render_rules([added, said]).splitlines() == lines


def test_no_line_counts_what_a_model_cannot_see() -> None:
    rules = filler("en")
    shown, left_out = shown_rules(rules, limit_tokens=100, count=quarters)
    assert left_out
    assert len(render_rules(shown).splitlines()) == 1 + len(shown)


def test_what_the_summary_shows_is_said_again_only_if_it_binds_and_fits() -> None:
    fact = rule(1, "The boat is painted green.", kind="fact")
    forbidden = rule(3, "Never paint the oars.", kind="prohibition")
    both = shown_rules([fact, forbidden], limit_tokens=99, count=quarters, in_summary=["1", "3"])
    assert both == ((forbidden,), ())
    more = filler("en")
    shown, left_out = shown_rules(
        [fact, forbidden, *more], limit_tokens=90, count=quarters, in_summary=["1", "3"]
    )
    assert more[-1] in shown, "others come first"
    assert fact not in left_out
    assert forbidden not in left_out
