"""The rule ledger of a session: rules, decisions and preferences that the user stated, kept outside the summaries.

Rules, prohibitions, decisions, preferences, open tasks and lasting facts are extracted from the user's messages word
for word (by `turnfold.rules`, without a model) and stored as one note of the session. A context shows those whose
messages are not in its window, so a fold (compaction) can shorten the history without losing them. While the whole
conversation is in the window, no message is searched for rules. Tool results, documents, quoted text and the model's
own words never become rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import TypeAlias, get_args

import msgspec

from turnfold._lazy_loading import late_pattern
from turnfold.budget import Budget
from turnfold.errors import Conflict, InvalidOption, InvalidRecord, NotFound
from turnfold.fold import ReadCache
from turnfold.memory.cached_conversation import ConversationCache
from turnfold.memory.live_window import (
    LiveWindow,
    UserMessage,
    spoken_text,
    user_messages_of,
)
from turnfold.memory.repeated_words import SaidWords
from turnfold.records import RULES, SESSION, Document, Entry, Message, check_text, plain_text
from turnfold.rules import (
    LONGEST_RULE,
    RuleKind,
    StandingRule,
    confirming_words,
    extract_rules,
    new_rule,
    render_rules,
    replacements,
    shown_rules,
    taken_back,
    update_ledger,
)
from turnfold.runtime import Runtime
from turnfold.search import Recalled
from turnfold.text import content_terms, fence, is_chinese, single_line

__all__ = ("RuleLedger", "found_rules", "rules_as_of", "rules_without")


_PAGE = 512
"""Most entries before the window that one context searches for rules; the next context continues."""
_SHARE = 10
"""The rules shown may take 1/10 of the budget's tokens."""
_LEAST_TOKENS = 600
"""In a small budget the rules shown may take up to this many tokens, but at most `_SMALL_PERCENT` of the budget."""
_SMALL_PERCENT = 30
_PART_OF_TAIL = 7
"""Divisor: rules of up to 1/7 of the budget fit into the usual room of the tail (text before the newest turn); if they
take more, that room grows."""
_VITAL_TOKENS, _VITAL_PERCENT = 1_200, 35
"""Rules that do harm if they are forgotten may take up to this many tokens, but at most 35 % of the budget."""
_FROM_DIALOGUE = 20
"""Divisor: rules of up to 1/20 of the budget take their tokens from the verbatim dialogue; tokens beyond that are taken
from the recalled passages."""
_STORED_TOKENS = 16_000
"""Most tokens of all stored rules; rules that no longer apply are deleted first."""
_LONGEST_LINE = LONGEST_RULE + 24
"""Most characters of a line (a rule with its number) whose token count is cached; a longer line is counted each time.
"""
_COUNTED_RULES = 2_000
"""Most rules whose token counts are cached; beyond that the cache is emptied."""
_LONG_TEXT = 5_000
"""If messages have more characters than this together, they are searched for rules in a thread and not on the event
loop."""
_LONGEST_REMARK = 60
"""Most characters quoted from the words that replaced a rule, in the remark about an entry with the old rule; more are
cut."""
_ANSWERED_WITHIN = 3
"""Number of entries before an assistant's answer whose rules the answer may repeat."""
_LEAST_SHARED = 2
_MOST_REMARKS = 2
"""Most remarks about one entry; the newest are shown."""
_LONGEST_CONFIRMATION = 120
"""Most characters of an assistant's answer that can count as a mere confirmation of a rule."""
_FEW_MORE = 12
"""An entry counts as a rule alone, without other content, if it has at most this many characters more than the rule."""
_MARKS = late_pattern(r"[\[\]:：\"“”]+")
"""Matches brackets, colons and quotation marks, which have a meaning in the line of a recalled entry, and are therefore
removed from words quoted in it."""
_NUMBER = late_pattern(r"\d+")
_MAX_TRIES = 5


class RulesNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stored ledger of a session: its rules, and how far the log was searched for them."""

    v: int = 1
    upto: int = 0
    """Log position of the last entry that was searched for rules."""
    rules: tuple[StandingRule, ...] = ()


@dataclass(frozen=True, slots=True)
class _ChangedRules:
    """The rules of the user's messages that do not hold any more, and the rules that replaced them."""

    of: Sequence[StandingRule] = ()
    """The ledger's list of rules that `rules` and `later` were computed from."""
    rules: Mapping[int, list[StandingRule]] = field(default_factory=dict[int, list[StandingRule]])
    """Seq of an entry -> its rules that no longer hold."""
    later: Mapping[str, StandingRule] = field(default_factory=dict[str, StandingRule])
    """Id of a rule -> the rule that replaced it."""


_TextKey: TypeAlias = tuple[
    tuple[StandingRule, ...], tuple[StandingRule, ...], frozenset[str], int, int, int
]


@dataclass(frozen=True, slots=True)
class _ShownText:
    """The text of the rules that the last context showed."""

    key: _TextKey
    """What the text was made of: rules before the window, rules in it, ids of those in the summary, and the limits."""
    text: str
    left_out: tuple[int, ...]
    """Seqs of the rules that the text has no room for."""
    tokens: int
    rules: Mapping[int, list[StandingRule]]
    """Seq of an entry -> its rules in the text."""


@dataclass(slots=True)
class RuleLedger:
    """The rules of one conversation: extracts, stores, shows, adds and drops them."""

    cache: ConversationCache
    runtime: Runtime
    enabled: bool = True
    """True if messages are searched for rules; if False, only rules of `add_rule()` are shown."""
    read_only: bool = field(default=False, init=False)
    """True if the rules that are found are not stored, for a preview."""
    left_out: tuple[int, ...] = field(default=(), init=False)
    """Seqs of the active rules that the last context had no room for, one per rule."""
    extra: int = field(default=0, init=False)
    """Tokens that the rules shown last take beyond their usual part of the tail (text before the newest turn)."""
    beyond_share: int = field(default=0, init=False)
    """Tokens that the rules shown last take beyond 1/20 of the budget."""
    _read: tuple[Document | None, int, RulesNote] = (None, 0, RulesNote())
    """The stored document, `cache.history` when the document was read, and the ledger with the rules that this handle
    has found since."""
    _unsaved: bool = field(default=False, init=False)
    """True if this process changed the rules document after reading it from the store."""
    _ended: tuple[Sequence[StandingRule], tuple[StandingRule, ...]] = field(
        default=((), ()), init=False
    )
    """The rules that `_taken_back` last looked at, and those that the user has withdrawn."""
    _text: _ShownText | None = field(default=None, init=False)
    _fuller: _ShownText | None = field(default=None, init=False)
    """The text with more rules that `with_more` last returned."""
    _repeated: tuple[str, dict[str, bool]] = field(default=("", {}), init=False)
    """The summary of the last context -> for the id of a rule, True if the summary repeats its words."""
    _shown: Mapping[int, list[StandingRule]] = field(
        default_factory=dict[int, list[StandingRule]], init=False
    )
    """Seq (log position) of an entry -> its rules that were shown in the last context."""
    _changes: _ChangedRules = field(default_factory=_ChangedRules, init=False)
    _answers: tuple[int, dict[int, str]] = field(default=(0, {}), init=False)
    """`cache.history` when the answers were read; for the seq of an entry with a rule that no longer holds, the words
    with which the assistant confirmed it ("" if it did not)."""
    _tools: tuple[Sequence[Mapping[str, object]], int] = field(default=((), 0), init=False)
    """The tool schemas of the last context, and the tokens of the schemas."""
    _tokens: dict[str, int] = field(default_factory=dict[str, int], init=False)
    """Text of a rule -> tokens of the rule."""

    async def text(
        self,
        window: LiveWindow,
        budget: Budget,
        tools: Sequence[Mapping[str, object]] = (),
        summary: str = "",
    ) -> str:
        """Return as a fenced block the active rules that window and `summary` do not show; "" if there are none.

        These are rules added by `add()`, and rules from messages before the window, except the message that opens the
        turn. Of the rules that the `summary` repeats word for word only binding ones, such as prohibitions, are shown,
        because a model reads a summary as data. `left_out` lists the rules beyond the token limit, the least important.
        """
        cache = self.cache
        if window.anchor > cache.cleared + 1:
            await self._catch_up(window)
            if self._unsaved and not self.read_only:
                with suppress(Conflict):  # another process was faster: write with the next context
                    await self._write(self._note())
        question = window.opener.seq if window.opener else 0
        hidden = tuple(
            rule
            for rule in self._note().rules
            if rule.state == "active"
            and (not rule.seq or cache.cleared < rule.seq < window.anchor)
            and (not rule.seq or rule.seq != question)
        )
        in_window = tuple(
            rule
            for rule in self._note().rules
            if rule.state == "active" and rule.seq and rule.seq >= window.anchor
        )
        in_summary = self._in_summary(hidden, summary)
        usual, limit, most = await self._limits(window, budget, tools, any_hidden=bool(hidden))
        key = (hidden, in_window, in_summary, limit, most, usual)
        # Compared, not hashed: the rules are mostly the same objects as before.
        if self._text is None or self._text.key != key:
            self._text = self._shown_text(key, limit, most)
        text, tokens = self._text.text, self._text.tokens
        self.left_out, self._shown = self._text.left_out, self._text.rules
        self.extra = max(tokens - usual, 0) if most else 0
        self.beyond_share = max(tokens - budget.tokens // _FROM_DIALOGUE, 0)
        return text

    def with_more(self, room: int) -> str:
        """Return the text that `text()` returned last, with those of the rules left out that fit into `room` tokens.

        Passages and the other parts of the tail did not need this room for the present message.
        """
        last = self._text
        if last is None:
            return ""
        if room <= 0 or not last.left_out:
            return last.text
        *_, limit, most, _ = last.key
        fuller = self._shown_text(last.key, limit + room, max(limit, most) + room)
        if fuller.tokens > last.tokens + room or len(fuller.left_out) >= len(last.left_out):
            return last.text
        self.left_out, self._shown, self._fuller = fuller.left_out, fuller.rules, fuller
        return fuller.text

    def is_in(self, tail: str) -> bool:
        """Return True if a tail shows the rules as `text()` last returned them, or with more that had room then."""
        last, fuller = self._text, self._fuller
        if last is None or last.text in tail:
            return True
        if fuller is None or fuller.key != last.key or fuller.text not in tail:
            return False
        self.left_out, self._shown = fuller.left_out, fuller.rules
        return True

    def _shown_text(self, key: _TextKey, limit: int, most: int) -> _ShownText:
        """Return the text of the rules of a key within these limits, and what it leaves out."""
        hidden, in_window, in_summary, *_ = key
        shown, others = shown_rules(
            hidden,
            limit_tokens=limit,
            count=self._count,
            vital_tokens=most,
            in_window=in_window,
            in_summary=in_summary,
        )
        heading, _, lines = render_rules(shown).partition("\n")
        text = fence(lines, label="rules", note=heading) if lines else ""
        # By lines, whose counts are cached: a little more than the text as a whole.
        tokens = sum(self._count(line) + 1 for line in text.splitlines())
        return _ShownText(key, text, tuple(rule.seq for rule in others), tokens, _by_entry(shown))

    def _in_summary(self, rules: Iterable[StandingRule], summary: str) -> frozenset[str]:
        """Return the ids of the rules that a summary repeats word for word; it is searched once for each rule."""
        if self._repeated[0] != summary:
            self._repeated = (summary, {})
        known = self._repeated[1]
        # A summary may repeat "yes, do that", but not beside what it answers.
        own = [rule for rule in rules if rule.seq and not rule.answers]
        unknown = [(rule.id, f"{rule.lead}{rule.text}") for rule in own if rule.id not in known]
        if unknown:
            found = SaidWords.of_summary(summary).found(unknown)
            known.update((key, key in found) for key, _ in unknown)
        return frozenset(rule.id for rule in own if known[rule.id])

    async def _limits(
        self,
        window: LiveWindow,
        budget: Budget,
        tools: Sequence[Mapping[str, object]],
        *,
        any_hidden: bool,
    ) -> tuple[int, int, int]:
        """Return three limits for the tokens of rules.

        They are: for the rules' share of the tail (text before the newest turn), for all rules, and for the rules that
        do harm if they are forgotten.
        """
        limit = max(
            budget.tokens // _SHARE, min(_LEAST_TOKENS, budget.tokens * _SMALL_PERCENT // 100), 1
        )
        usual = min(limit, max(budget.tokens // _PART_OF_TAIL, 1))
        # What the system messages and tools take changes rarely, and with it the rules shown.
        free = await self._free_tokens(budget, tools) if any_hidden else 0
        most = min(_VITAL_TOKENS, budget.tokens * _VITAL_PERCENT // 100, free // 3)
        if not window.shows_turn_within(free - budget.share("tail") - max(limit, most) + usual):
            return usual, usual, 0
        return usual, limit, most

    async def _free_tokens(self, budget: Budget, tools: Sequence[Mapping[str, object]]) -> int:
        """Return the tokens of a budget that system messages, tool schemas and the longest summary leave free."""
        cache = self.cache
        taken = sum(entry.tokens for entry in cache.system) + budget.share("summary")
        if self._tools[0] != tools:
            counted = await self.runtime.compute(partial(cache.counter.count_tools, tools))
            self._tools = tools, counted
        return max(budget.tokens - taken - self._tools[1] - cache.counter.reply, 0)

    async def outdated(self, window: LiveWindow) -> tuple[str, ...]:
        """Return what no longer holds, up to the window's end.

        These are the texts of rules that the user changed or withdrew and of finished tasks, and the words with which
        the assistant confirmed them.
        """
        await self._catch_up(window)
        done = (rule for rule in self._note().rules if rule.state == "done" and not rule.answers)
        told = (f"{rule.lead}{rule.text}" for rule in done)
        ended = (rule.text for rule in self._taken_back() if not rule.answers)
        return (*ended, *told, *await self._outdated_confirmations())

    async def _outdated_confirmations(self) -> list[str]:
        """Return the words with which the assistant confirmed rules that no longer hold; each answer is read once."""
        cache, changed = self.cache, self._changed().rules
        if self._answers[0] != cache.history:
            self._answers = (cache.history, {})
        answers = self._answers[1]
        missing = [seq for seq in sorted(changed) if seq not in answers and seq < cache.head.seq]
        if missing:
            after = [(seq + 1, seq + 1) for seq in missing]
            entries = await cache.store.read_ranges(cache.scope, cache.conversation, after)
            spoken = {entry.seq - 1: spoken_text(entry.message) for entry in entries}
            answers.update((seq, confirming_words(spoken.get(seq, ""))) for seq in missing)
        return [
            answer
            for seq, rules in changed.items()
            if (answer := answers.get(seq)) and any(_repeats(answer, rule) for rule in rules)
        ]

    def unread(self, window: LiveWindow) -> list[UserMessage]:
        """Return the user's messages in the window that were not searched for rules yet, or were answered since."""
        return window.user_messages(self._note().upto) if self.enabled else []

    def is_outdated(self, entry: Entry) -> bool:
        """Return True if an entry contains only a rule that the user later changed or withdrew."""
        said = [rule.text.strip() for rule in self._taken_back() if rule.seq == entry.seq]
        return bool(said) and entry.message.text.strip() in said

    def marked(self, recalled: Sequence[Recalled]) -> Sequence[Recalled]:
        """Return the recalled entries, with a remark at those with a rule that the user certainly changed or withdrew.

        The assistant's answer to such an entry gets the remark too if it repeats the rule.
        """
        changed = self._changed()
        if not changed.rules:
            return recalled
        found: dict[int, str] = {}
        for entry in recalled:
            said = entry.message.text
            answers = entry.message.role == "assistant"
            near = changed.rules.get(entry.seq, [])
            if answers:
                near = _answered(entry.seq, said, changed.rules)
            if near:
                alone = not answers and len(said) <= len(near[0].text) + _FEW_MORE
                remarks = [_remark(rule, changed.later, alone=alone) for rule in near]
                found[entry.seq] = "; ".join(remarks[-_MOST_REMARKS:])
        return [replace(each, outdated=found.get(each.seq, "")) for each in recalled]

    def is_confirmation(self, seq: int, message: Message) -> bool:
        """Return True if a short answer of the assistant only confirms a rule that is shown or no longer holds."""
        changed = self._changed().rules
        if message.role != "assistant" or not any(
            at in changed or at in self._shown for at in _answered_by(seq)
        ):
            return False
        text = message.text
        if message.calls or len(text) > _LONGEST_CONFIRMATION:
            return False
        return bool(_answered(seq, text, changed) or _answered(seq, text, self._shown))

    def _changed(self) -> _ChangedRules:
        """Return the rules of messages that no longer hold, from the cache if no rule changed since."""
        rules = self._note().rules
        if rules is not self._changes.of:
            later = replacements(rules)
            ended = {rule.id: rule for rule in self._taken_back() if rule.seq}
            for rule in rules:
                replaced = rule.state == "superseded" and rule.id in later
                if rule.seq and (replaced or rule.state == "done"):
                    ended[rule.id] = rule
            self._changes = _ChangedRules(rules, _by_entry(ended.values()), later)
        return self._changes

    def _taken_back(self) -> tuple[StandingRule, ...]:
        """Return the rules that the user explicitly changed or withdrew, in the part of the log that was searched."""
        rules = self._note().rules
        if rules is not self._ended[0]:
            self._ended = rules, taken_back(rules)
        return self._ended[1]

    def forget_counts(self) -> None:
        """Drop the cached token counts of rules, because tokens are counted with another counter from now on."""
        self._text, self._tokens, self._tools = None, {}, ((), 0)

    async def active(self) -> list[StandingRule]:
        """Return the active rules, oldest first, after searching new entries for rules; stores nothing."""
        return [rule for rule in await self.all() if rule.state == "active"]

    async def all(self) -> list[StandingRule]:
        """Return all rules, active and ended, oldest first; stores nothing."""
        await self.cache.refresh()
        while await self._read_page(self.cache.head.seq):
            pass
        cleared = self.cache.cleared
        return [rule for rule in self._note().rules if not rule.seq or rule.seq > cleared]

    async def add(self, text: str, kind: RuleKind) -> StandingRule:
        """Store a rule that is not in a message.

        Raises `InvalidOption` if the kind is unknown, or the text is empty or too long.
        """
        clean = check_text(plain_text(text, path="text"), path="text").strip()
        if not clean:
            raise InvalidOption("a rule must not be empty: give its text")
        if len(clean) > LONGEST_RULE:
            raise InvalidOption(
                f"a rule may have at most {LONGEST_RULE} characters, this one has {len(clean)}: shorten it or use pin()"
            )
        if kind not in get_args(RuleKind):
            known = ", ".join(map(repr, get_args(RuleKind)))
            raise InvalidOption(f"kind={kind!r} is not one of {known}")
        await self.active()
        rule = new_rule(clean, kind=kind, added=self.cache.head.seq)
        same = [
            each for each in self._note().rules if each.id == rule.id and each.state == "active"
        ]
        rule = msgspec.structs.replace(rule, added=same[0].added) if same else rule

        def added(rules: Sequence[StandingRule]) -> tuple[StandingRule, ...]:
            # A rule that was dropped before is added again.
            others = [each for each in rules if each.id != rule.id]
            return self._updated(others, [rule])

        await self._change(added)
        return next((each for each in self._note().rules if each.id == rule.id), rule)

    async def drop(self, key: str) -> StandingRule:
        """End the active rule with this id, so that contexts no longer show it; raises `NotFound` if there is none."""
        found = next((rule for rule in await self.active() if rule.id == key), None)
        if found is None:
            raise NotFound(
                f"no active rule has the id {key!r}: session.rules() lists the active rules"
            )
        dropped = msgspec.structs.replace(found, state="dropped")
        await self._change(
            lambda rules: tuple(dropped if rule.id == key else rule for rule in rules)
        )
        return dropped

    def _note(self) -> RulesNote:
        """Return the rules note, stored and extended by the rules that this session found in the log since then."""
        document, history = self.cache.rules_document, self.cache.history
        # If the stored note did not change, keep the rules that this handle has found since.
        if document != self._read[0] or history != self._read[1]:
            self._read = (document, history, _decode(document))
            self._unsaved = False
        return self._read[2]

    async def _catch_up(self, window: LiveWindow) -> None:
        """Search messages for rules: first a page of those before the window, if any is left, then the whole window."""
        if self._note().upto + 1 < window.anchor:
            await self._read_page(window.anchor - 1)
        upto = self._note().upto
        if self.enabled and window.anchor - 1 <= upto < window.seq:
            said = self.unread(window)
            if said and said[0].seq == window.anchor > self.cache.cleared + 1:
                said[0] = said[0]._replace(answered=await self._spoken_at(window.anchor - 1))
            await self._take(said, window.seq, reading=window.reading)

    async def _spoken_at(self, seq: int) -> str:
        """Return what the assistant says in an entry; "" if somebody else wrote it."""
        cache = self.cache
        found = await cache.store.read(
            cache.scope, cache.conversation, after=seq - 1, upto=seq, limit=1
        )
        return spoken_text(found[0].message) if found else ""

    async def _read_page(self, last: int) -> bool:
        """Search the next page of the log, up to `last`, for rules; return True if there may be more."""
        cache = self.cache
        upto = self._note().upto
        if not self.enabled or upto >= last:
            return False
        # The entry before the page is what its first message answers, or what its first reply confirms.
        start = max(upto - 1, cache.cleared, 0) if upto > cache.cleared else upto
        entries = await cache.store.read(
            cache.scope, cache.conversation, after=start, upto=last, limit=_PAGE + upto - start
        )
        if not entries or entries[-1].seq <= upto:
            return False
        said = user_messages_of(
            [entry.seq for entry in entries], [entry.message for entry in entries], after=upto
        )
        is_page = len(entries) == _PAGE + upto - start
        await self._take(said, entries[-1].seq, is_page=is_page)
        return entries[-1].seq < last

    async def _take(
        self,
        said: Sequence[UserMessage],
        upto: int,
        *,
        is_page: bool = False,
        reading: ReadCache | None = None,
    ) -> None:
        """Search messages for rules, and add these to the ledger, which is then complete up to `upto`.

        The note is written if its rules changed or a whole page of the log was read; searching a few entries again is
        cheaper than writing. `reading` has the rules that were found in these messages earlier.
        """
        history, before = self.cache.history, self._note().upto

        def find() -> list[StandingRule]:
            return found_rules(said, reading or ReadCache(), upto=before)

        if sum(len(each.text) for each in said) <= _LONG_TEXT:
            found = find()
        else:  # a message of a million characters takes seconds
            found = await self.runtime.compute(find)
        note = self._note()
        if self.cache.history != history or note.upto >= upto:
            return  # meanwhile the log began anew, or another call has read as far
        new = [rule for rule in found if rule.seq > note.upto or rule.seq <= before]
        updated = self._updated(note.rules, new) if new else note.rules
        self._unsaved = self._unsaved or is_page or updated != note.rules
        self._read = (*self._read[:2], RulesNote(upto=upto, rules=updated))

    def _updated(
        self, rules: Sequence[StandingRule], new: Iterable[StandingRule]
    ) -> tuple[StandingRule, ...]:
        return update_ledger(rules, new, limit_tokens=_STORED_TOKENS, count=self._count).rules

    def _count(self, text: str) -> int:
        """Return the number of tokens of a text; the counts of single rules are cached."""
        if len(text) > _LONGEST_LINE:
            return self.cache.counter.count_text(text)
        if len(self._tokens) > _COUNTED_RULES:
            self._tokens.clear()
        if text not in self._tokens:
            self._tokens[text] = self.cache.counter.count_text(text)
        return self._tokens[text]

    async def _write(self, note: RulesNote) -> None:
        """Store the ledger of rules; raises `Conflict` if another process changed it or the history meanwhile."""
        cache = self.cache
        await cache.confirm()
        known = cache.rules_document
        document = Document(SESSION, RULES, msgspec.json.encode(note), 0)
        written = await cache.store.put_document(
            cache.scope,
            cache.conversation,
            document,
            expect=known.version if known else 0,
            seen=cache.newest if cache.newest[0] else None,
        )
        cache.wrote(written)
        cache.rules_document = written.document
        self._read = (written.document, cache.history, note)
        self._unsaved = False

    async def _change(
        self, change: Callable[[Sequence[StandingRule]], tuple[StandingRule, ...]]
    ) -> None:
        for attempt in count(1):
            note = self._note()
            try:
                await self._write(msgspec.structs.replace(note, rules=change(note.rules)))
                break
            except Conflict:
                if attempt == _MAX_TRIES:
                    raise
                await self.cache.refresh()


def found_rules(
    said: Iterable[UserMessage], reading: ReadCache, *, upto: int = 0
) -> list[StandingRule]:
    """Return the rules in messages of the user, from the cache if the message was searched before.

    Messages with a seq up to `upto` were searched before the assistant answered: of these only the rules are returned
    that the answer confirms.
    """
    found: list[StandingRule] = []
    for seq, text, answered, reply in said:
        confirmation = confirming_words(reply)
        if seq > upto or confirmation:
            rules = reading.once(
                extract_rules,
                text,
                seq=seq,
                trust="user",
                answered=answered,
                confirmation=confirmation,
            )
            if seq <= upto:
                known = reading.once(extract_rules, text, seq=seq, trust="user", answered=answered)
                rules = _beyond(rules, known)
            found += rules
    return found


def _beyond(rules: Iterable[StandingRule], known: Iterable[StandingRule]) -> Iterable[StandingRule]:
    ids = {rule.id for rule in known}
    return (rule for rule in rules if rule.id not in ids)


def _newest(rule: StandingRule, later: Mapping[str, StandingRule]) -> StandingRule:
    """Return the last rule in a chain of replacements of a rule; the rule itself if none replaced it."""
    newest = rule
    while (after := later.get(newest.id)) is not None and after.seq > newest.seq:
        newest = after
    return newest


def _by_entry(rules: Iterable[StandingRule]) -> dict[int, list[StandingRule]]:
    found: dict[int, list[StandingRule]] = {}
    for rule in rules:
        found.setdefault(rule.seq, []).append(rule)
    return found


def _answered(seq: int, text: str, rules: Mapping[int, list[StandingRule]]) -> list[StandingRule]:
    """Return the rules, from the entries just before entry `seq`, that the entry's text repeats."""
    return [rule for at in _answered_by(seq) for rule in rules.get(at, ()) if _repeats(text, rule)]


def _answered_by(seq: int) -> range:
    """Return the log positions of the entries that an assistant's answer at this position may repeat."""
    return range(max(seq - _ANSWERED_WITHIN, 1), seq)


def _repeats(text: str, rule: StandingRule) -> bool:
    """Return True if an answer has at least two words of a rule, and at least half of its words.

    An answer that confirms something ("Noted: the 23rd") needs only one of them, or one number.
    """
    terms = frozenset(content_terms(rule.plain))
    said = terms.intersection(content_terms(text))
    if len(said) >= _LEAST_SHARED and 2 * len(said) >= len(terms):
        return True
    if not confirming_words(text):
        return False
    return bool(said) or not set(_NUMBER.findall(rule.plain)).isdisjoint(_NUMBER.findall(text))


def _remark(rule: StandingRule, later: Mapping[str, StandingRule], *, alone: bool) -> str:
    """Return the remark for a model about an entry whose rule was changed: the newest words that replaced the rule.

    Unless the rule is all that the entry says (`alone`), the remark also tells which of its words are meant.
    """
    newest = _newest(rule, later)
    is_zh = is_chinese(rule.text)
    of = "" if alone else _quoted(rule.meaning or rule.text, is_zh=is_zh)
    if rule.state == "done":
        remark = (
            f"后来已完成（记录 {rule.ended}）" if is_zh else f"done later, in entry {rule.ended}"
        )
        return (f"“{of}”{remark}" if is_zh else f'"{of}": {remark}') if of else remark
    if newest is rule or newest.act == "cancel":
        remark = "已作废" if is_zh else "no longer valid"
        return (f"“{of}”{remark}" if is_zh else f'"{of}" is {remark}') if of else remark
    words = _quoted(newest.meaning or newest.text, is_zh=is_zh)
    if of:
        return f"“{of}”后来改为“{words}”" if is_zh else f'"{of}" changed later to "{words}"'
    return f"后来改为“{words}”" if is_zh else f'changed later to "{words}"'


def _quoted(text: str, *, is_zh: bool) -> str:
    words = " ".join(_MARKS.sub(" ", single_line(text)).split())
    if len(words) > _LONGEST_REMARK:
        words = (
            words[: words.rfind(" ", 0, _LONGEST_REMARK) if not is_zh else _LONGEST_REMARK] + "…"
        )
    return words


def rules_as_of(document: Document, upto: int) -> bytes:
    """Return a stored ledger (list) of rules as it was when entry `upto` was the newest.

    Rules that were added with `add_rule()` are all kept.
    """
    note = _decode(document)
    said = [rule for rule in note.rules if rule.seq <= upto]
    kept = [
        msgspec.structs.replace(
            rule,
            added=min(rule.added, upto),
            state="active" if rule.ended > upto else rule.state,
            ended=0 if rule.ended > upto else rule.ended,
        )
        for rule in said
    ]
    return msgspec.json.encode(RulesNote(upto=min(note.upto, upto), rules=tuple(kept)))


def rules_without(document: Document, seq: int) -> bytes | None:
    """Return a stored ledger of rules without the rules of one entry; None if the entry has no rules.

    A rule that repeats words of the assistant is of the entry with these words too, which is the one before.
    """
    note = _decode(document)
    kept = tuple(
        rule
        for rule in note.rules
        if rule.seq != seq and not (rule.answers and rule.seq == seq + 1)
    )
    if len(kept) == len(note.rules):
        return None
    return msgspec.json.encode(msgspec.structs.replace(note, rules=kept))


def _decode(document: Document | None) -> RulesNote:
    if document is None:
        return RulesNote()
    try:
        return msgspec.json.decode(document.body, type=RulesNote)
    except (msgspec.MsgspecError, RecursionError, UnicodeError, InvalidRecord) as error:
        raise InvalidRecord(
            f"the stored rule ledger is damaged: {error}",
            path=f"{document.kind}/{document.key}",
            remedy="Restore the store from a backup",
        ) from None
