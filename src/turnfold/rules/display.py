"""Chooses which standing rules a model is shown within a token limit, and writes them as text.

While all rules fit, all are shown in the order in which they were said: a new rule is a new last line, and the text
before it stays the same for the provider's prompt cache. If they do not fit:

- No rule is shown without the later rules that may override it (`turnfold.rules.overrides`): both are shown in order,
  or only the later one, or none. A rule that is probably overridden comes last; if the later one is in the window, it
  is not shown at all.
- Prohibitions and how to answer come first, then health, safety, who the user is and contacts, then changes,
  decisions, preferences and tasks with explicit words or values ("we decided", "at most", 决定), then other sentences.
  Trifles ("for fun", 随便), plans for a day long before those named later, and sentences that hardly count as rules
  (`weak`) come last.
- What does harm if it is forgotten may take more room than the others (`vital_tokens`), which keep half of theirs.
- Each kind has a share of the room; room that a kind does not use goes to the others in order of rank. Within a kind
  the newest come first; of prohibitions every third is one of the oldest, so that early ones stay, however many follow.
- Of one message, and of rules that begin alike ("never use a1", "never use a2", ...), the first few are ranked as
  usual; the others come last.

A clause that nobody can understand alone ("main hall.") is shown in one line with what it continues, or not at all.
What the summary shows word for word is not said again; prohibitions, how to answer and health are, if there is room at
the end, because a summary is fenced (marked as data, not as instructions).
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal

from turnfold._lazy_loading import late_pattern
from turnfold.errors import InvalidOption
from turnfold.rules.overrides import Overrides, SaidAt, overrides_of, said_last
from turnfold.rules.permissions import is_permission
from turnfold.rules.reversals import is_one_occasion
from turnfold.rules.standing_rule import LONGEST_RULE, RuleKind, StandingRule
from turnfold.rules.subjects import is_fragment
from turnfold.text import clean_text, is_chinese, joint_cost, require_limit, single_line

__all__ = ("rank_rules", "render_rules", "shown_rules")


_Group = Literal["rule", "who", "decision", "preference", "task", "fact"]
_SHARES: Mapping[int, Mapping[_Group, int]] = {
    0: {"rule": 40, "who": 30, "decision": 25, "preference": 10, "task": 10, "fact": 10},
    1: {"decision": 30, "preference": 15, "task": 20, "rule": 30, "fact": 15},
    2: {"decision": 30, "task": 20, "preference": 15, "rule": 20, "fact": 15},
}
"""Tier of the display (0 is shown first) -> group of rules in the tier -> least share of the tokens, in percent, that
the group may use."""
_OTHERS = 2
"""Divisor: rules that do no harm if they are forgotten keep at least 1/2 of the tokens that rules usually get."""
_FROM_ONE_MESSAGE = 3
"""Of the rules of one kind from one message, this many are ranked as usual; further ones are shown last."""
_ALIKE = 6
"""Of the rules that begin with the same words, this many are ranked as usual; further ones are shown last."""
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
"""Matches words of rules that do harm if they are forgotten: demands, safety, who the user is, how to reach people."""
_ANSWERS = late_pattern(
    r"\b(?:answers?|answering|repl(?:y|ies)|respon\w+|keep\s+it\s+(?:short|brief|simple)|brief|concise|bullets?|tables?|tone|emojis?|call\s+me"
    r"|language|in\s+(?-i:[A-Z])\w+ish)\b|回答|回复|答复|回我|说话|称呼|叫我|语气|简短|尽量短|简洁|表格|表情|客套|分点|别贴|只给",
    re.IGNORECASE,
)
"""Matches an instruction about how to answer, even if it reads like a preference."""
_TRIFLE = late_pattern(
    r"\b(?:for\s+fun|haha\w*|lol|whatever|doesn't\s+matter|don't\s+mind|either\s+is\s+fine|just\s+kidding|i\s+(?:think|guess)|maybe|perhaps|somewhere"
    r"|sounds\s+(?:good|nice)|sent\s+it)\b|随便|看着[办给来]|无所谓|都行|开玩笑|哈哈|大概|可能|也许|还没想好",
    re.IGNORECASE,
)
"""Matches words of rules that were said in passing or left open."""
_HEALTH = late_pattern(
    r"\b(?:allerg\w+|intoleran\w+|anaphyla\w+|vegan|vegetarian|halal|kosher|diabet\w+|insulin|pregnan\w+|breastfeed\w*|asthma\w*|epilep\w+|seizures?"
    r"|coeliac|celiac|lactose|gluten|penicillin|antibiotics?|blood\s+(?:pressure|thinners?)|hypertension|heart\s+(?:condition|disease|attack)|pacemaker"
    r"|gout|migraines?|vertigo|wheelchair|bad\s+(?:knees?|back)|(?:knees?|back)\s+(?:is|are)\s+bad|medication|medicine|deaf|blind|dyslexi\w+)\b"
    r"|过敏|敏感|忌口|忌食|不耐受|乳糖|麸质|青霉素|头孢|阿司匹林|抗生素|怀孕|孕妇|孕期|备孕|预产期|哺乳|糖尿|血糖|血压|血脂|痛风|尿酸|心脏|心梗|支架|起搏器|癫痫|中风"
    r"|哮喘|贫血|胃病|胃溃疡|胃不好|肾病|肝病|乙肝|膝|半月板|韧带|骨折|医生说[^,，。]{0,6}(?:不|别|要)|腰不好|腰椎|颈椎|关节炎|轮椅|拄拐|残疾|视力不好|听力不好|色盲|恐高|晕[车船机血]|清真|回族|穆斯林|素食|吃素|吃斋"
    r"|不能喝酒|戒酒|手术|吃药|用药|药物",
    re.IGNORECASE,
)
"""Matches words of rules that do harm to the user's health if they are forgotten, even if they read like a
preference."""
_RANKING = {
    "health": _HEALTH,
    "trifle": _TRIFLE,
    "vital": _VITAL,
    "answers": _ANSWERS,
    "explicit": _IN_SO_MANY_WORDS,
}
_WHO = frozenset({"@name", "@home", "@address", "@diet"})
"""Topic words of rules that say who the user is and how to reach them."""
_UNEXPLAINED = late_pattern(
    r"\W*(?:(?:please|just|and|but|so|also|then|don't|do\s+not|never|always)\s+)*(?:(?:it|that|they|them|this|those|he|she)\b"
    r"|\w+\s+(?:it|them|this|that|those)\b)|\W*(?:就|把|那)?(?:它|这个|那个|他|她)",
    re.IGNORECASE,
)
"""Matches a rule that begins with a pronoun."""
_SOMEBODY = late_pattern(
    r"\W*(?:and|but|so)?\s*(?:he|she|they|it)(?:'\w+)?\b|\W*[他她它]们?", re.IGNORECASE
)
"""Matches a statement about somebody or something that another sentence names: "she delivers on 15 February"."""
_DATE = late_pattern(
    r"(?P<month>\d{1,2})\s?月\s?(?P<day>\d{1,2})\s?[号日]"
    r"|\b(?P<day1>\d{1,2})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<name1>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b"
    r"|\b(?P<name2>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\s+(?P<day2>\d{1,2})\b",
    re.IGNORECASE,
)
_MONTHS: Sequence[str] = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_DAYS_OF_MONTH = 31
_LONG_BEFORE, _HALF_A_YEAR = 14, 183
"""Days between the last date of a plan and dates in later messages: from the first number on, the plan is past; beyond
the second, the year may be another."""
_DEMANDS: tuple[RuleKind, ...] = ("rule", "prohibition")
_BINDING: tuple[tuple[int, _Group], ...] = ((0, "rule"), (0, "who"))
"""(tier, group) of the rules that are shown, as long as there is room, even if the summary says the same."""
_LAST = 3
"""Number of the tier of rules that is shown last, such as rules said in passing."""
_SURELY = 2
"""If `Overrides.likely` is above this value, a later rule is taken to replace an earlier one."""
_TELLING_VALUES = frozenset({"@date", "@money", "@time", "@day", "@currency"})
"""Classes of values whose change or loss a user would notice."""
_LATER_DATES = 2
"""A plan counts as past if at least this many later messages name later dates."""

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
_EXCEPTION = {
    "en": " (an exception; {numbers} still holds otherwise)",
    "zh": "（仅此一次的例外，{numbers} 平时仍然有效）",
}
_ADOPTED = {
    "en": ' (agrees to these words of the assistant: "{words}")',
    "zh": "（同意助手的这句话：“{words}”）",
}
_ANSWERED = {
    "en": ' (answers the assistant\'s question: "{words}")',
    "zh": "（回答助手的问题：“{words}”）",
}
_MARKS = {"en": "system", "zh": "系统"}
_CHANGES = ("change", "cancel")
"""Acts of rules that change something: if such a rule is missing, a model follows what held before."""
_PARTS_OF_TIMES = frozenset(
    {"@number", "@count", "@date", "@day", "@month", "@time", "@daytime", "@money", "@frequency", "@currency"}
)  # fmt: skip
"""Classes of values that do not show what a sentence is about: "2 March then, at 10:00"."""
_ONLY_CHOSEN = late_pattern(
    r"\W*(?:好的?|行|嗯|对)?[,，]?(?:那么?|就|还是|决定)+(?:[定选要用是]|选定)?(?![^,，。]*[\d@])(?P<what>[^,，。]{1,6}?)的?(?:吧|好了|了)\W*$"
)
"""Matches a choice in Chinese that does not say what was chosen for: 就立邦吧."""
_SHORT_ZH, _SHORT_EN = 8, 4
"""Most characters, or English words, of a clause that is shown only with the clause that it continues."""
_MOST_NEEDED = 64
"""A rule that could be shown only with more later rules than this is not shown."""
_OLD_PLACES = 3
"""Divisor: one in 3 of the shown rules of the first tier is one of the oldest, so that newer rules do not push them all
out."""
_BY_HAND = {"en": "set by hand", "zh": "手动设定"}


def shown_rules(
    rules: Iterable[StandingRule],
    *,
    limit_tokens: int,
    count: Callable[[str], int],
    vital_tokens: int = 0,
    in_window: Collection[StandingRule] = (),
    in_summary: Collection[str] = (),
) -> tuple[tuple[StandingRule, ...], tuple[StandingRule, ...]]:
    """Return two lists of active rules: those to show within `limit_tokens`, and those left out.

    Both are in the order in which the rules were said, those added by hand last. Rules that do harm if they are
    forgotten may take up to `vital_tokens`, if that is more; the others then keep half of the limit, as far as there is
    room for it. `in_window` are rules that the model reads elsewhere, after the summary; `in_summary` are the ids of
    rules that the summary shows word for word. Neither are among those left out.
    """
    require_limit(limit_tokens)
    vital_tokens = max(limit_tokens, vital_tokens)
    active = sorted((rule for rule in rules if rule.state == "active"), key=_order)
    # Each line is counted alone, so that a counter with a cache counts no line twice; joined lines cost no more.
    joint = joint_cost(count)
    seqs = {rule.id: rule.seq for rule in active}
    costs = {rule.id: count(_line(rule, "en", seqs)) + joint for rule in active}
    choice = _Choice(active, overrides_of([*active, *in_window]), costs, frozenset(in_summary))
    heading = max(map(count, _HEADINGS.values())) + joint
    wanted = choice.every()
    if sum(costs[each] for each in wanted) <= limit_tokens - heading:
        choice.taken = wanted
    else:
        most = max(vital_tokens - heading, 0)
        vital, others = _ranked(
            active, limit_tokens=most, cost=lambda rule: costs[rule.id], ranks=choice.ranks
        )
        left = choice.take([*choice.corrections(), *choice.unsaid(vital)], most)
        usual = max(limit_tokens - heading, 0)
        room = min(left, max(usual - (most - left), usual // _OTHERS))
        left -= room - choice.take(choice.unsaid(choice.overridden_last(others)), room)
        choice.take(choice.demands(vital), left)
    return (
        tuple(rule for rule in active if rule.id in choice.taken),
        tuple(
            rule for rule in active if rule.id not in choice.taken and rule.id not in choice.said
        ),
    )


class _Choice:
    """The rules chosen for display so far, with later rules that may override each, and the sentence of each clause."""

    def __init__(
        self,
        active: Sequence[StandingRule],
        overrides: Overrides,
        costs: Mapping[str, int],
        said: frozenset[str],
    ) -> None:
        self._rules = {rule.id: rule for rule in active}
        self._overrides, self._costs = overrides, costs
        self._sentences = _sentences(active)
        self._needs: dict[str, frozenset[str] | None] = {}
        self.ranks = {rule.id: _rank(rule) for rule in active}
        self.said = said
        """Ids of rules that the summary shows."""
        self.taken: set[str] = set()

    def every(self) -> set[str]:
        """Return the ids of all rules that can be shown, except those that are shown only in the summary."""
        wanted: set[str] = set()
        rules = self._rules.values()
        for rule in (*self.corrections(), *self.unsaid(rules), *self.demands(rules)):
            wanted |= self._needed(rule) or set()
        return wanted

    def demands(self, rules: Iterable[StandingRule]) -> list[StandingRule]:
        """Return the binding rules that the summary already shows: a model may ignore a summary, which is only data."""
        return [rule for rule in rules if rule.id in self.said and self.ranks[rule.id] in _BINDING]

    def unsaid(self, rules: Iterable[StandingRule]) -> list[StandingRule]:
        """Return the rules that the summary does not show."""
        return [rule for rule in rules if rule.id not in self.said]

    def corrections(self) -> list[StandingRule]:
        """Return the rules that may override rules in the summary, newest first."""
        found = {
            later.id: later
            for each in self.said
            for later in self._overrides.later.get(each, ())
            if later.id in self._rules
        }
        return sorted(found.values(), key=said_last, reverse=True)

    def overridden_last(self, rules: Sequence[StandingRule]) -> list[StandingRule]:
        """Return the rules sorted so that those which a later rule almost certainly overrides come last."""
        return sorted(rules, key=self._is_overridden)

    def _is_overridden(self, rule: StandingRule) -> bool:
        """Return True if a later rule almost certainly overrides a rule, and no harm is done if it is not shown.

        A production rule or an allergy is shown even then: a model that reads both can judge.
        """
        return self.ranks[rule.id][0] > 0 and self._overrides.likely.get(rule.id, 0) > _SURELY

    def take(self, ranked: Iterable[StandingRule], room: int) -> int:
        """Choose rules in order while there is `room` (tokens); return the room that is left."""
        doubtful: list[StandingRule] = []
        for rule in ranked:
            if self._is_overridden(rule) and rule.id not in self.taken:
                doubtful.append(rule)  # its newest words take its place
                room = self._take_newest(rule, room)
            else:
                # A clause is hard to understand alone: the whole sentence if there is room for it.
                for wanted in (self._sentences[rule.id], [rule]):
                    room -= self._take(wanted, room)
                if rule.id not in self.taken:
                    room = self._take_newest(rule, room)
        for rule in doubtful:
            room -= self._take([rule], room)
        return room

    def _take_newest(self, rule: StandingRule, room: int) -> int:
        """Choose the newest of the later rules that may override a rule, as many as fit.

        Returns the room left, in tokens.
        """
        for later in self._overrides.later.get(rule.id, ()):
            if later.id in self._rules:
                room -= self._take([later], room)
        return room

    def _take(self, rules: Iterable[StandingRule], room: int) -> int:
        """Choose these rules and the rules they need, if there is room; return their cost in tokens."""
        wanted: set[str] = set()
        for rule in rules:
            needed = self._needed(rule)
            if needed is None:
                return 0
            wanted |= needed
        cost = sum(self._costs[each] for each in wanted - self.taken)
        if cost > room:
            return 0
        self.taken |= wanted
        return cost

    def _needed(self, rule: StandingRule) -> frozenset[str] | None:
        """Return the ids of the rules that are shown with a rule, itself included; None if it cannot be shown."""
        if (
            not self._needs
        ):  # the newest first, so that long chains of changes are not followed by recursion
            for each in sorted(self._rules.values(), key=said_last, reverse=True):
                self._work_out(each)
        return self._work_out(rule)

    def _work_out(self, rule: StandingRule) -> frozenset[str] | None:
        if rule.id not in self._needs:
            self._needs[rule.id] = None  # while it is worked out, and if it cannot be shown
            self._needs[rule.id] = self._with_what_it_needs(rule)
        return self._needs[rule.id]

    def _with_what_it_needs(self, rule: StandingRule) -> frozenset[str] | None:
        found = {rule.id}
        head = self._rules.get(rule.continues)
        if _needs_head(rule, head_ended=head is None):
            needed = self._needed(head) if head else None
            if needed is None:
                return None
            found |= needed
        overridden = self._is_overridden(rule)
        if self.ranks[rule.id] in _BINDING and not overridden:
            return frozenset(found)  # a doubt must not cost a prohibition its place
        for later in self._overrides.later.get(rule.id, ()):
            if later.id not in self._rules:  # the window shows it
                if overridden:
                    return None
                continue
            needed = self._needed(later)
            if needed is None:
                return None
            # Of a chain of changes, only the newest words are needed.
            found |= needed - {later.id} if later.id in self._overrides.likely else needed
            if len(found) > _MOST_NEEDED:
                return None
        return frozenset(found)


@lru_cache(maxsize=4096)
def _needs_head(rule: StandingRule, *, head_ended: bool) -> bool:
    """Return True if a rule can be understood only with the clause that it continues."""
    if rule.seq == 0 or rule.lead or rule.about or rule.answers:
        return False
    plain = rule.plain.strip()
    if rule.continues:
        if head_ended and rule.kind not in _DEMANDS:
            return True
        words = len(plain.split()) if plain.isascii() else len(plain.rstrip("。.!！"))
        if words <= (_SHORT_EN if plain.isascii() else _SHORT_ZH):
            return True
    elif rule.supersedes or rule.may_replace:
        return False
    if is_fragment(plain) or (not rule.continues and _ONLY_CHOSEN.match(plain)):
        return True
    if rule.kind not in _DEMANDS and not rule.continues and not _HEALTH.search(plain):
        return bool(_SOMEBODY.match(plain)) or _is_only_a_value(rule)
    return _is_only_a_value(rule)


def _is_only_a_value(rule: StandingRule) -> bool:
    """Return True if a rule consists of a number, day or time, without naming a thing."""
    return bool(rule.value and rule.scope) and all(
        term in _PARTS_OF_TIMES or term.startswith("@n:") for term in rule.scope
    )


def _line(rule: StandingRule, language: Literal["zh", "en"], seqs: Mapping[str, int]) -> str:
    return f"- [{_mark(rule, language)}] {_words(rule, language, seqs)}"


def _mark(rule: StandingRule, language: Literal["zh", "en"]) -> str:
    """Return the number of a rule's log entry; words such as "set by hand" if no user message states the rule."""
    if rule.trust == "system":
        return _MARKS[language]
    return str(rule.seq) if rule.seq else _BY_HAND[language]


def _words(rule: StandingRule, language: Literal["zh", "en"], seqs: Mapping[str, int]) -> str:
    """Return a rule as one line, with the context it needs; `seqs` are the positions of the shown rules."""
    about = _ABOUT[language].format(about=rule.about) if rule.about else ""
    if rule.answers:
        remark = _ADOPTED if rule.adopts else _ANSWERED
        about = remark[language].format(words=rule.answers) + about
    if numbers := ", ".join(f"[{seqs[each]}]" for each in rule.may_replace if seqs.get(each)):
        mark = _EXCEPTION if _is_exception(rule.plain) else _MAY_REPLACE
        about += mark[language].format(numbers=numbers)
    return _as_one_line(f"{rule.lead}{rule.text}{about}")


@lru_cache(maxsize=4096)
def _is_exception(text: str) -> bool:
    return is_permission(text) and is_one_occasion(text)


@lru_cache(maxsize=4096)
def _as_one_line(text: str) -> str:
    return single_line(clean_text(text))


def _sentences(rules: Sequence[StandingRule]) -> dict[str, list[StandingRule]]:
    """Return {id of a rule: the rules that are shown in one line with it}."""
    found: dict[str, list[StandingRule]] = {}
    for rule in rules:
        group = found.get(rule.continues, [])
        joined = group and sum(len(each.text) for each in (*group, rule)) <= LONGEST_RULE
        found[rule.id] = group if joined and len(group) < _FROM_ONE_MESSAGE else []
        found[rule.id].append(rule)
    return found


def _order(rule: StandingRule) -> tuple[bool, SaidAt]:
    return rule.trust != "system", said_last(rule)


def rank_rules(
    rules: Sequence[StandingRule], *, limit_tokens: int, cost: Callable[[StandingRule], int]
) -> list[StandingRule]:
    """Return all rules, the most important first; `cost` returns the tokens of a rule."""
    ranks = {rule.id: _rank(rule) for rule in rules}
    vital, others = _ranked(rules, limit_tokens=limit_tokens, cost=cost, ranks=ranks)
    return [*vital, *others]


def _ranked(
    rules: Sequence[StandingRule],
    *,
    limit_tokens: int,
    cost: Callable[[StandingRule], int],
    ranks: Mapping[str, tuple[int, _Group]],
) -> tuple[list[StandingRule], list[StandingRule]]:
    """Return the rules that do harm if they are forgotten, and all others, both with the most important first."""
    past = _past_plans(rules)
    first: dict[int, list[StandingRule]] = {tier: [] for tier in _SHARES}
    later: dict[int, list[StandingRule]] = {tier: [] for tier in _SHARES}
    crowd: list[StandingRule] = []
    for tier, shares in _SHARES.items():
        for group, share in shares.items():
            of_group = [
                each for each in rules if ranks[each.id] == (tier, group) and each.id not in past
            ]
            usual, crowding = _in_turns(of_group, keep_oldest=True)
            room = limit_tokens * share // 100
            for rule in usual:
                room -= cost(rule)
                (first if room >= 0 else later)[tier].append(rule)
            crowd += crowding
    others = [*first[1], *later[1], *first[2], *later[2]]
    trifles = [rule for rule in rules if ranks[rule.id][0] == _LAST and rule.id not in past]
    return [*first[0], *later[0]], [
        *others,
        *sorted(crowd, key=lambda rule: not rule.weak),
        *reversed(trifles),
        *(rule for rule in rules if rule.id in past),
    ]


def _rank(rule: StandingRule) -> tuple[int, _Group]:
    """Return the tier of a rule and its group in the tier: tier 0 if forgetting it does harm, 1 for explicit rules."""
    group: _Group = "rule" if rule.kind == "prohibition" else rule.kind
    explained = rule.lead or rule.continues or rule.about or rule.supersedes or rule.answers
    by_hand = rule.seq == 0 or rule.trust == "system"
    shows = _signs_of_rank(rule.plain)
    if not by_hand and not explained and "unexplained" in shows:
        return 2, group
    if "health" in shows or not _WHO.isdisjoint(rule.scope):
        return 0, "who"
    if "trifle" in shows and not by_hand:
        return _LAST, group
    forbids = group == "rule" and rule.negative
    demands = rule.kind != "preference" and ("vital" in shows or forbids)
    if group == "rule" and (by_hand or demands):
        return 0, group
    if rule.kind in (*_DEMANDS, "preference") and "answers" in shows:
        return 0, "rule"
    if demands or rule.supersedes or (rule.act in _CHANGES and rule.kind == "decision"):
        return 0, group
    if rule.act == "renew" or not _TELLING_VALUES.isdisjoint(rule.scope):
        return 1, group
    return 1 if "explicit" in shows else 2, group


@lru_cache(maxsize=4096)
def _signs_of_rank(text: str) -> frozenset[str]:
    """Return which of the patterns that decide the rank of a rule occur in its text."""
    found = {name for name, pattern in _RANKING.items() if pattern.search(text)}
    return frozenset(found | {"unexplained"} if _UNEXPLAINED.match(text) else found)


def _past_plans(rules: Sequence[StandingRule]) -> set[str]:
    """Return the ids of plans whose day clearly lies before the dates in several later messages."""
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


def _in_turns(
    rules: Sequence[StandingRule], *, keep_oldest: bool
) -> tuple[list[StandingRule], list[StandingRule]]:
    """Return two lists of rules of one group, each with the newest first; see `_turns` for `keep_oldest`.

    The second list has the rules that rank last: weak ones, too many from one message, too similar to others.
    """
    messages: Counter[tuple[str, int]] = Counter()
    beginnings: Counter[tuple[str, str]] = Counter()
    usual: list[StandingRule] = []
    crowding: list[StandingRule] = []
    for rule in sorted(rules, key=said_last):
        message = (rule.trust, rule.seq)
        beginning = (rule.trust, _beginning(rule.plain))
        messages[message] += 1
        beginnings[beginning] += 1
        system = rule.trust == "system"
        weak = rule.weak and rule.act not in _CHANGES
        crowds = weak or messages[message] > _FROM_ONE_MESSAGE or beginnings[beginning] > _ALIKE
        (crowding if crowds and not system else usual).append(rule)
    return (
        [*_turns(usual, keep_oldest=keep_oldest)],
        [*_turns(crowding, keep_oldest=keep_oldest)],
    )


def _turns(rules: Sequence[StandingRule], *, keep_oldest: bool) -> Iterator[StandingRule]:
    """Yield rules with the newest first; with `keep_oldest` every third one is the oldest that is left."""
    yield from (rule for rule in rules if rule.trust == "system")
    said = deque(rule for rule in rules if rule.trust != "system")
    for at in range(1, len(said) + 1):
        yield said.popleft() if keep_oldest and at % _OLD_PLACES == 0 else said.pop()


def _beginning(text: str) -> str:
    found = _BEGINNING.search(text)
    return found[0].lower() if found else text[:4]


def render_rules(rules: Iterable[StandingRule], language: Literal["zh", "en"] | None = None) -> str:
    """Return the text that shows standing rules to a model: a heading and a line per rule; empty without rules.

    Every rule is a single line after a dash and the number of its log entry, so its text cannot look like another line;
    rules that are clauses of one sentence share a line. Rules added by hand come last. By default the heading is in the
    language of most rules.
    """
    rules = sorted(rules, key=lambda rule: rule.seq == 0 and rule.trust != "system")
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
    written = [f"- [{_mark(rule, chosen)}] {text}" for rule, text in lines]
    return "\n".join([_HEADINGS[chosen], *written])
