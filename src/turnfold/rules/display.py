"""Chooses which standing rules a model is shown within a token limit, and writes them as text.

While all rules fit, all are shown in the order in which they were said: a new rule is a new last line, and the text
before it stays the same for the provider's prompt cache. If they do not fit, they are ranked so that no kind of rule
and no single message takes all the room:

- What does harm if it is forgotten comes first: prohibitions, "must", health and safety, who the user is, contacts.
  Then other rules with explicit words ("we decided", "prefer", 决定), then sentences without such words and those whose
  pronoun nothing explains ("run it at night"). Plans for a day long before those that were named later come last.
- What does harm may take more room than the others (`vital_tokens`), which always keep half of theirs.
- Each kind has a share of the room; room that a kind does not use goes to the others in order of rank.
- Within a kind the newest and the oldest rules are taken in turns, so that early rules stay, however many are said
  later, and so do the newest ones.
- Of one message, and of rules that begin alike ("never use a1", "never use a2", ...), the first few are ranked as
  usual; the others come last, together with sentences that hardly count as rules (`weak`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import Literal

from turnfold._lazy_loading import late_pattern
from turnfold.errors import InvalidOption
from turnfold.rules.standing_rule import LONGEST_RULE, RuleKind, StandingRule
from turnfold.text import clean_text, is_chinese, joint_cost, require_limit, single_line

__all__ = ("rank_rules", "render_rules", "shown_rules")


_KINDS: tuple[tuple[tuple[RuleKind, ...], int], ...] = (
    (("prohibition", "rule"), 40),
    (("decision",), 25),
    (("fact",), 15),
    (("preference",), 10),
    (("task",), 10),
)
"""Kinds of rules by rank, each with its share of the room in percent."""
_TIERS = (0, 1, 2)
_OTHERS = 2
"""However many rules do harm if they are forgotten, the others keep half of the usual room."""
_SHARE_OF_VITAL_FACTS = 30
"""Share of the room for facts of the first tier: allergies, names, telephone numbers."""
_FROM_ONE_MESSAGE = 3
"""Number of rules of one message and kind that are ranked as usual; further ones come last."""
_ALIKE = 6
"""Number of rules with the same beginning that are ranked as usual; further ones come last."""
_BEGINNING = late_pattern(r"[\u3400-\u9fff]{1,4}|[^\W_]+(?:['’]\w+)?(?:\s+[^\W_]+(?:['’]\w+)?)?")

_IN_SO_MANY_WORDS = late_pattern(
    r"\b(?:never|always|must|mustn't|don't|do\s+not|cannot|can't|no|not|only|avoid|stop|every|each|from\s+now\s+on|decid\w+"
    r"|agreed|settled|chose|go(?:ing)?\s+with|instead|actually|prefer\w*|hate|allerg\w+|intoleran\w+|vegan|vegetarian"
    r"|diabet\w+|pregnant|call\s+me|my\s+name|remind|deadline|need\s+to|have\s+to|due|at\s+most|at\s+least|no\s+more\s+than"
    r"|address|moved|ship|deliver\w*|phone|birthday|e-?mail)\b"
    r"|不|别|勿|禁|必须|务必|一定|只|都要|每次|以后|今后|决定|定下|改成|改为|换成|选|过敏|忌|素食|吃素|孕|糖尿|喜欢|讨厌|叫我|我叫"
    r"|提醒|待办|得[把去给交]|之前|截止|最多|至少|以内|地址|搬家|[寄送发]到|住在|电话|手机号|邮箱|抬头|税号|生日",
    re.IGNORECASE,
)

_VITAL = late_pattern(
    r"\b(?:never|must|mustn't|always|do\s+not|don't|cannot|can't|no\s+\w+\s+(?:on|in|without|before|after)|forbidden|not\s+allowed"
    r"|safety|emergency|ask(?:ing)?\s+me|without\s+my|my\s+name|name\s+is|call\s+me|i'm\s+(?-i:[A-Z])\w+|phone|e-?mail|address|contacts?)\b"
    r"|[\w.+-]+@[\w-]+\.\w+|\b\d{3,4}[- ]\d{3,4}(?:[- ]\d{3,4})?\b"
    r"|必须|务必|严禁|禁止|绝对|千万|不要|不得|不许|不准|不能|(?<![级特区类性个分])别(?![的人处])|勿|安全|紧急"
    r"|我叫|叫我|电话|手机|邮箱|地址|联系人|先问我|未经|一律",
    re.IGNORECASE,
)
"""Matches what does harm if it is forgotten: demands, safety, who the user is, how to reach people."""
_HEALTH = late_pattern(
    r"\b(?:allerg\w+|intoleran\w+|vegan|vegetarian|halal|kosher|diabet\w+|pregnan\w+|asthma\w*|epilep\w+|coeliac|celiac|medication|medicine)\b"
    r"|过敏|敏感|忌口|怀孕|孕妇|糖尿|哮喘|吃药|用药",
    re.IGNORECASE,
)
"""Matches what does harm to the user's health if it is forgotten, even where it reads like a preference."""
_WHO = frozenset({"@name", "@home", "@address", "@diet"})
"""Terms of who the user is and where to find them."""
_UNEXPLAINED = late_pattern(
    r"\W*(?:(?:please|just|and|but|so|also|then|don't|do\s+not|never|always)\s+)*(?:(?:it|that|they|them|this|those|he|she)\b"
    r"|\w+\s+(?:it|them|this|that|those)\b)|\W*(?:就|把|那)?(?:它|这个|那个|他|她)",
    re.IGNORECASE,
)
"""Matches a rule that begins with a pronoun."""
_DATE = late_pattern(
    r"(?P<month>\d{1,2})\s?月\s?(?P<day>\d{1,2})\s?[号日]"
    r"|\b(?P<day1>\d{1,2})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<name1>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b"
    r"|\b(?P<name2>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\s+(?P<day2>\d{1,2})\b",
    re.IGNORECASE,
)
_MONTHS: Sequence[str] = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_DAYS_OF_MONTH = 31
_LONG_BEFORE, _HALF_A_YEAR = 14, 183
"""Days between a plan and dates named later from which the plan is past; beyond half a year the year may be another."""
_LATER_DATES = 2
"""Number of later messages with such dates."""

_HEADINGS = {
    "en": "Laid down earlier in this conversation, word for word (number: log entry; a later line "
    "overrides an earlier one):",
    "zh": "对话中先前定下的内容（原话；数字为日志条目，后面的优先于前面的）：",
}
_ABOUT = {
    "en": " (replaces what no longer holds: {about})",
    "zh": "（取代已作废的：{about}）",
}
_MAY_REPLACE = {
    "en": " (said later than {numbers} and may replace it)",
    "zh": "（晚于 {numbers}，可能取代它）",
}
_MARKS = {"en": "system", "zh": "系统"}
_CHANGES = ("change", "cancel")
"""Acts of rules that change something: without such a rule, a model goes by what held before."""
_MORE = {"en": "({count} more not shown)", "zh": "（另有 {count} 条未列出）"}


def shown_rules(
    rules: Iterable[StandingRule],
    *,
    limit_tokens: int,
    count: Callable[[str], int],
    vital_tokens: int = 0,
) -> tuple[tuple[StandingRule, ...], tuple[StandingRule, ...]]:
    """Return two lists of active rules: those to show within `limit_tokens`, and those left out.

    Both are in the order in which the rules were said. Rules that do harm if they are forgotten may take up to
    `vital_tokens`, if that is more; the others then keep half of the limit, as far as there is room for it.
    """
    require_limit(limit_tokens)
    vital_tokens = max(limit_tokens, vital_tokens)
    active = sorted((rule for rule in rules if rule.state == "active"), key=_order)
    # Each line is counted alone, so that a counter with a cache counts no line twice; joined lines cost no more.
    joint = joint_cost(count)
    seqs = {rule.id: rule.seq for rule in active}
    costs = {rule.id: count(_line(rule, "en", seqs)) + joint for rule in active}
    heading = max(map(count, _HEADINGS.values()))
    if sum(costs.values()) <= limit_tokens - heading:
        return tuple(active), ()
    heading += max(count(more.format(count=len(active))) for more in _MORE.values()) + joint
    most = max(vital_tokens - heading, 0)
    vital, others = _ranked(active, limit_tokens=most, cost=lambda rule: costs[rule.id])
    taken: set[str] = set()
    sentences = _sentences(active)

    def take(ranked: Iterable[StandingRule], room: int) -> int:
        for rule in ranked:
            # A clause is hard to understand alone: the whole sentence if there is room for it.
            for wanted in (sentences[rule.id], [rule]):
                missing = [each.id for each in wanted if each.id not in taken]
                if missing and sum(costs[each] for each in missing) <= room:
                    taken.update(missing)
                    room -= sum(costs[each] for each in missing)
        return room

    left = take(vital, most)
    usual = max(limit_tokens - heading, 0)
    take(others, min(left, max(usual - (most - left), usual // _OTHERS)))
    return (
        tuple(rule for rule in active if rule.id in taken),
        tuple(rule for rule in active if rule.id not in taken),
    )


def _line(rule: StandingRule, language: Literal["zh", "en"], seqs: Mapping[str, int]) -> str:
    mark = _MARKS[language] if rule.trust == "system" else str(rule.seq)
    return f"- [{mark}] {_words(rule, language, seqs)}"


def _words(rule: StandingRule, language: Literal["zh", "en"], seqs: Mapping[str, int]) -> str:
    """Return a rule with what is needed to understand it, as one line; `seqs` are the positions of the rules shown."""
    about = _ABOUT[language].format(about=rule.about) if rule.about else ""
    if numbers := ", ".join(f"[{seqs[each]}]" for each in rule.may_replace if each in seqs):
        about += _MAY_REPLACE[language].format(numbers=numbers)
    return single_line(clean_text(f"{rule.lead}{rule.text}{about}"))


def _sentences(rules: Sequence[StandingRule]) -> dict[str, list[StandingRule]]:
    """Return {id of a rule: the rules that are shown in one line with it}."""
    found: dict[str, list[StandingRule]] = {}
    for rule in rules:
        group = found.get(rule.continues, [])
        joined = group and sum(len(each.text) for each in (*group, rule)) <= LONGEST_RULE
        found[rule.id] = group if joined and len(group) < _FROM_ONE_MESSAGE else []
        found[rule.id].append(rule)
    return found


def _order(rule: StandingRule) -> tuple[int, int]:
    return rule.trust != "system", rule.said_at


def rank_rules(
    rules: Sequence[StandingRule], *, limit_tokens: int, cost: Callable[[StandingRule], int]
) -> list[StandingRule]:
    """Return all rules, the most important first; `cost` returns the tokens of a rule."""
    vital, others = _ranked(rules, limit_tokens=limit_tokens, cost=cost)
    return [*vital, *others]


def _ranked(
    rules: Sequence[StandingRule], *, limit_tokens: int, cost: Callable[[StandingRule], int]
) -> tuple[list[StandingRule], list[StandingRule]]:
    """Return the rules that do harm if they are forgotten, and all others, both with the most important first."""
    past = _past_plans(rules)
    tiers = {rule.id: _tier(rule) for rule in rules}
    first: dict[int, list[StandingRule]] = {tier: [] for tier in _TIERS}
    later: dict[int, list[StandingRule]] = {tier: [] for tier in _TIERS}
    crowd: list[StandingRule] = []
    for tier in _TIERS:
        for kinds, share in _KINDS:
            of_kind = [
                each
                for each in rules
                if each.kind in kinds and tiers[each.id] == tier and each.id not in past
            ]
            usual, crowding = _in_turns(of_kind)
            vital = tier == 0 and "fact" in kinds
            room = limit_tokens * (_SHARE_OF_VITAL_FACTS if vital else share) // 100
            for rule in usual:
                room -= cost(rule)
                (first if room >= 0 else later)[tier].append(rule)
            crowd += crowding
    others = [*first[1], *later[1], *first[2], *later[2]]
    return [*first[0], *later[0]], [
        *others,
        *sorted(crowd, key=lambda rule: not rule.weak),
        *(rule for rule in rules if rule.id in past),
    ]


def _tier(rule: StandingRule) -> int:
    """Return the rank of a rule: 0 if forgetting it does harm, 1 for other explicit rules, otherwise 2."""
    explained = rule.lead or rule.continues or rule.about or rule.supersedes
    if not explained and _UNEXPLAINED.match(rule.plain):
        return 2
    if _HEALTH.search(rule.plain) or not _WHO.isdisjoint(rule.scope):
        return 0
    if rule.kind != "preference" and _VITAL.search(rule.plain):
        return 0
    if rule.supersedes or (rule.act in _CHANGES and rule.kind == "decision"):
        return 0
    return 1 if _IN_SO_MANY_WORDS.search(rule.plain) else 2


def _past_plans(rules: Sequence[StandingRule]) -> set[str]:
    """Return the ids of plans for a day that lies clearly before the dates of several later messages."""
    dated = [
        (rule, _days(rule.plain)) for rule in rules if rule.kind not in ("rule", "prohibition")
    ]
    named = [(rule.seq, min(days)) for rule, days in dated if days]
    past: set[str] = set()
    for rule, days in dated:
        if not days or _VITAL.search(rule.plain) or _HEALTH.search(rule.plain):
            continue
        later = {
            seq
            for seq, day in named
            if seq > rule.seq and _LONG_BEFORE <= day - max(days) <= _HALF_A_YEAR
        }
        if len(later) >= _LATER_DATES:
            past.add(rule.id)
    return past


@lru_cache(maxsize=1024)
def _days(text: str) -> tuple[int, ...]:
    """Return the dates in a text, as days since the beginning of a year."""
    found: list[int] = []
    for date in _DATE.finditer(text):
        name = date["name1"] or date["name2"]
        month = _MONTHS.index(name.lower()) + 1 if name else int(date["month"])
        found.append(month * _DAYS_OF_MONTH + int(date["day"] or date["day1"] or date["day2"]))
    return tuple(found)


def _in_turns(rules: Sequence[StandingRule]) -> tuple[list[StandingRule], list[StandingRule]]:
    """Return two lists of rules of one kind, each with newest and oldest alternating.

    The second list has the rules that rank last: weak ones, too many from one message, too similar to others.
    """
    messages: Counter[tuple[str, int]] = Counter()
    beginnings: Counter[tuple[str, str]] = Counter()
    usual: list[StandingRule] = []
    crowding: list[StandingRule] = []
    for rule in sorted(rules, key=lambda rule: rule.seq):
        message = (rule.trust, rule.seq)
        beginning = (rule.trust, _beginning(rule.plain))
        messages[message] += 1
        beginnings[beginning] += 1
        system = rule.trust == "system"
        weak = rule.weak and rule.act not in _CHANGES
        crowds = weak or messages[message] > _FROM_ONE_MESSAGE or beginnings[beginning] > _ALIKE
        (crowding if crowds and not system else usual).append(rule)
    return [*_turns(usual)], [*_turns(crowding)]


def _turns(rules: Sequence[StandingRule]) -> Iterable[StandingRule]:
    yield from (rule for rule in rules if rule.trust == "system")
    said = [rule for rule in rules if rule.trust != "system"]
    middle = len(said) // 2
    for newer, older in zip_longest(reversed(said[middle:]), said[:middle]):
        yield from (rule for rule in (newer, older) if rule is not None)


def _beginning(text: str) -> str:
    found = _BEGINNING.search(text)
    return found[0].lower() if found else text[:4]


def render_rules(
    rules: Iterable[StandingRule], language: Literal["zh", "en"] | None = None, *, left_out: int = 0
) -> str:
    """Return the text that shows standing rules to a model: a heading and a line per rule; empty without rules.

    Every rule is a single line after a dash and the number of its log entry, so its text cannot look like another line;
    rules that are clauses of one sentence share a line. By default the heading is in the language of most rules.
    """
    rules = list(rules)
    if not rules:
        return ""
    chosen = language or ("zh" if is_chinese(" ".join(rule.text for rule in rules)) else "en")
    if chosen not in _HEADINGS:
        raise InvalidOption(f'language={chosen!r} must be "zh" or "en"')
    seqs = {rule.id: rule.seq for rule in rules}
    lines: list[tuple[StandingRule, str]] = []
    for rule in rules:
        before, words = lines[-1] if lines else (None, "")
        if before and rule.continues == before.id:
            lines[-1] = rule, single_line(f"{words}{rule.joint}{_words(rule, chosen, seqs)}")
        else:
            lines.append((rule, _words(rule, chosen, seqs)))
    marks = [_MARKS[chosen] if rule.trust == "system" else str(rule.seq) for rule, _ in lines]
    written = [f"- [{mark}] {text}" for mark, (_, text) in zip(marks, lines, strict=True)]
    more = [_MORE[chosen].format(count=left_out)] if left_out else []
    return "\n".join([_HEADINGS[chosen], *written, *more])
