"""How many of the user's rules does a context still show after many folds, and does it show what was changed?

Ten rules, prohibitions, decisions, preferences, facts and tasks that no weight was learnt from (`tests/rules`) are
said once, each before some turns of a real conversation; half-way the user changes one more. After 1,200 messages the
last context is searched for their words. "Old shown" counts changed rules that are anywhere in it.

    TURNFOLD_DATA=... python -m bench.standing_rules [--language en|zh] [--tokens 2000] [--logs 6]
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from itertools import islice

from bench.conversations import talks
from tests.rules.generator import read_pairs, read_sentences
from turnfold import Budget, Memory, Message

__all__ = ("main",)

KINDS = {"rule": 2, "prohibition": 2, "decision": 2, "preference": 2, "fact": 1, "task": 1}
"""Kinds, and how many of each are said."""
MESSAGES = 1_200
_NOISE = {"en": "locomo", "zh": "kdconv_zh"}
_LAST = {"en": "What should we do next?", "zh": "接下来我们做什么？"}
_APART = 10
"""Messages between two rules."""
_CALL = 5
"""Messages between two contexts."""


def _drawn(language: str, chance: random.Random) -> tuple[list[tuple[str, str]], tuple[str, str]]:
    """Return the (kind, text) of the rules to say, and a rule with the sentence that changes it."""
    sets = [read_sentences(name, language) for name in ("report", "fresh")]
    rules = [
        (kind, text)
        for kind, many in KINDS.items()
        for text in chance.sample([text for each in sets for text in each[kind]], many)
    ]
    chance.shuffle(rules)
    pairs = [pair for name in ("report", "fresh") for pair in read_pairs(name, language, "change")]
    return rules, chance.choice(pairs)


def _last_context(
    said: list[str], change: str, noise: list[Message], *, language: str, tokens: int
) -> tuple[str, int]:
    """Return the text of the last context, and the number of folds."""
    waiting = iter(said)
    with Memory("sqlite://", model="gpt-4o", budget=Budget(max_tokens=tokens)) as memory:
        session = memory.session("rules")
        for number, message in enumerate(noise):
            due = [change] if number == len(noise) // 2 else []
            due += islice(waiting, 1) if number % _APART == 0 else []
            for text in due:
                session.user(text)
                session.assistant("ok")
            session.add(message)
            if number % _CALL == _CALL - 1:
                session.context()
        session.user(_LAST[language])
        shown = "\n".join(message.text for message in session.context().messages)
        return shown, len(session.checkpoints())


def main() -> None:
    """Read the command line and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.standing_rules", description=__doc__)
    parser.add_argument("--language", choices=("en", "zh"), default="en")
    parser.add_argument("--tokens", type=int, default=2_000)
    parser.add_argument("--logs", type=int, default=6)
    options = parser.parse_args()
    noise = [each for talk in talks(_NOISE[options.language]) for each in talk.messages]
    kept: Counter[str] = Counter()
    new = old = folds = 0
    for number in range(options.logs):
        chance = random.Random(number)  # noqa: S311 (drawing sentences, not secrets)
        rules, (before, after) = _drawn(options.language, chance)
        first = chance.randrange(max(1, len(noise) - MESSAGES))
        shown, many = _last_context(
            [*(text for _, text in rules), before],
            after,
            noise[first : first + MESSAGES],
            language=options.language,
            tokens=options.tokens,
        )
        kept.update(kind for kind, text in rules if text in shown)
        for kind, text in rules:
            if text not in shown:
                print(f"  not shown: {kind}: {text}")
        new, old, folds = new + (after in shown), old + (before in shown), folds + many
    said = {kind: many * options.logs for kind, many in KINDS.items()}
    shares = ", ".join(f"{kind} {kept[kind]}/{many}" for kind, many in said.items())
    print(
        f"{options.language}, {options.tokens:,} tokens, {folds / options.logs:.0f} folds: kept "
        f"{kept.total() / sum(said.values()):.3f} ({shares}); new {new}/{options.logs}, old shown {old}/{options.logs}"
    )


if __name__ == "__main__":
    main()
