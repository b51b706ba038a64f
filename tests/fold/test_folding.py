"""Facts outlive many folds, and a full summary still lets new ones in."""

from __future__ import annotations

from turnfold.fold import Passage, check_fidelity, extract_summary, with_annex

PLANTED = ("The budget is 4,200 EUR.", "我的订单号 A-10293。", "不要发邮件。")
WORDS = "harbour garden museum train violin lantern orchard bakery canal theatre".split()


def tokens(text: str) -> int:
    wide = sum(character > "\u2e7f" for character in text)
    return wide + (len(text) - wide + 3) // 4


def small_talk(fold: int) -> list[Passage]:
    """Sixty new messages with facts of their own, different in every fold."""
    passages: list[Passage] = []
    for turn in range(30):
        number = 1000 * (fold + 1) + 17 * turn
        first, second = WORDS[(fold + turn) % 10], WORDS[(fold * 3 + turn * 7) % 10]
        said = f"I thought of the {first} and the {second}, entry {number}."
        found = f'{{"id": "T-{number}", "price": {number % 97 + 10}, "place": "{second}"}}'
        passages.append(Passage("user", said, 2 * turn))
        passages.append(Passage("tool:search", found, 2 * turn + 1))
    return passages


def folded(times: int, *, limit: int) -> str:
    planted = [Passage("user", text, -3 + at) for at, text in enumerate(PLANTED)]
    summary = ""
    for fold in range(times):
        passages = [*(planted if fold == 0 else []), *small_talk(fold)]
        summary = extract_summary(passages, limit=limit, count=tokens, previous=summary)
        assert tokens(summary) <= limit
    return summary


def test_planted_facts_survive_twenty_folds() -> None:
    summary = folded(20, limit=200)
    for fact in PLANTED:
        assert fact in summary
    assert len(set(summary.splitlines())) == len(summary.splitlines())


def test_a_new_rule_gets_into_a_summary_that_is_full() -> None:
    full = folded(8, limit=200)
    rule = Passage("user", "Never call before 9 am.", 0)
    summary = extract_summary([rule, *small_talk(9)], limit=200, count=tokens, previous=full)
    assert "user: Never call before 9 am." in summary
    assert all(fact in summary for fact in PLANTED)


def test_a_new_fact_gets_in_even_among_equals() -> None:
    old = "\n".join(f"user: Crate {number} weighs {number} kg." for number in range(200, 225))
    new = [
        Passage("user", f"Crate {number} weighs {number} kg.", number) for number in range(300, 325)
    ]
    kept = extract_summary(new, limit=tokens(old), count=tokens, previous=old)
    news = [line for line in kept.splitlines() if line.startswith("user: Crate 3")]
    assert 3 <= len(news) <= 15


def test_a_summary_written_by_a_model_competes_line_by_line() -> None:
    written = (
        "The customer wants to move house. They were friendly. The contract number is K-5521, and the"
        " movers must not enter the cellar. It was a long and pleasant talk about many things in general"
        " and nothing in particular, with several detours into the weather and the football results."
    )
    kept = extract_summary(small_talk(0), limit=120, count=tokens, previous=written)
    assert "The contract number is K-5521, and the movers must not enter the cellar." in kept
    assert "football" not in kept


def test_folding_a_summary_alone_gives_it_back() -> None:
    summary = folded(3, limit=150)
    assert extract_summary([], limit=tokens(summary), count=tokens, previous=summary) == summary


def test_an_annex_is_folded_like_any_other_line() -> None:
    source = [Passage("user", "The alarm code is QX-4471. Nice day.", 0)]
    annexed = with_annex(
        "A nice day.", check_fidelity(source, "A nice day."), limit=60, count=tokens
    )
    kept = extract_summary(small_talk(1), limit=100, count=tokens, previous=annexed)
    assert "QX-4471" in kept
    assert "Also stated:" not in kept
