"""The rule ledger of a session: what the user laid down, kept outside the summaries.

Rules, prohibitions, decisions, preferences, open tasks and standing facts are taken from the user's messages word for
word (`turnfold.rules`, without a model) and stored as one note of the session. A context shows those that its window
does not show, so a fold (compaction) can shorten the history without losing them. Nothing is read while the whole
conversation is in the window. Tool results, documents, quoted text and the model's own words never become rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import get_args

import msgspec

from turnfold.budget import Budget
from turnfold.errors import Conflict, InvalidOption, InvalidRecord, NotFound
from turnfold.memory.conversation_cache import ConversationCache
from turnfold.memory.window import LiveWindow
from turnfold.records import RULES, SESSION, Document, check_text, plain_text
from turnfold.rules import (
    LONGEST_RULE,
    RuleKind,
    StandingRule,
    extract_rules,
    new_rule,
    render_rules,
    shown_rules,
    update_ledger,
)
from turnfold.text import fence

__all__ = ("RuleLedger", "rules_as_of", "rules_without")


_PAGE = 512
"""Entries of a log written before that are read for one context; the next context reads on."""
_SHARE = 20
"""The rules shown take at most 1/20 of the budget,"""
_LEAST_TOKENS = 320
"""or this many tokens of a small budget, if that is at most 1/7 of it."""
_SMALL = 7
_STORED_TOKENS = 16_000
"""Tokens of all rules that are kept; ended ones go first."""
_LONGEST_LINE = LONGEST_RULE + 24
"""Characters of a rule with what stands before it; longer texts are counted each time."""
_COUNTED_RULES = 2_000
"""Rules whose tokens are remembered."""
_MAX_TRIES = 5


class RulesNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stored ledger."""

    v: int = 1
    upto: int = 0
    """The last entry that was read for rules."""
    rules: tuple[StandingRule, ...] = ()


@dataclass(slots=True)
class RuleLedger:
    """The rules of one conversation."""

    cache: ConversationCache
    enabled: bool = True
    """False: nothing is read for rules; those added by hand are kept and shown."""
    left_out: int = field(default=0, init=False)
    """Active rules that the last context had no room for."""
    _read: tuple[Document | None, int, RulesNote] = (None, 0, RulesNote())
    """The stored note, the history of the cache, and the note as of the last entry this handle has read."""
    _unsaved: bool = field(default=False, init=False)
    """True if the note was changed since it was read from the store."""
    _texts: dict[tuple[object, ...], tuple[str, int]] = field(
        default_factory=dict[tuple[object, ...], tuple[str, int]], init=False
    )
    """The text shown last and the rules it leaves out, by rules, window and limit."""
    _tokens: dict[str, int] = field(default_factory=dict[str, int], init=False)
    """Tokens of rules, by their text."""

    async def text(self, window: LiveWindow, budget: Budget) -> str:
        """Return the rules that the window does not show, as a fenced block; empty if there are none."""
        cache = self.cache
        if window.anchor > cache.cleared + 1:
            await self._catch_up(window)
            if self._unsaved:
                with suppress(
                    Conflict
                ):  # another process was faster: this one writes with its next context
                    await self._write(self._note())
        question = window.head.seq if window.head else 0
        hidden = tuple(
            rule
            for rule in self._note().rules
            if rule.state == "active"
            and (not rule.seq or cache.cleared < rule.seq < window.anchor)
            and (not rule.seq or rule.seq != question)
        )
        limit = max(budget.tokens // _SHARE, min(_LEAST_TOKENS, budget.tokens // _SMALL), 1)
        key = (hidden, limit)
        if key not in self._texts:
            shown, others = shown_rules(hidden, limit_tokens=limit, count=self._count)
            heading, _, lines = render_rules(shown, left_out=len(others)).partition("\n")
            self._texts = {
                key: (fence(lines, label="rules", note=heading) if lines else "", len(others))
            }
        text, self.left_out = self._texts[key]
        return text

    def outdated(self) -> tuple[str, ...]:
        """Return the rules that were changed or taken back, as far as the log was read, word for word."""
        ended = ("superseded", "dropped")
        return tuple(rule.text for rule in self._note().rules if rule.state in ended)

    def forget_counts(self) -> None:
        """Drop the cached token counts: another counter is used."""
        self._texts, self._tokens = {}, {}

    async def active(self) -> list[StandingRule]:
        """Return the active rules in the order in which they were said; reads what is new, and stores nothing."""
        return [rule for rule in await self.all() if rule.state == "active"]

    async def all(self) -> list[StandingRule]:
        """Return the rules in the order in which they were said, those that ended included; stores nothing."""
        await self.cache.refresh()
        while await self._read_page(self.cache.head.seq):
            pass
        cleared = self.cache.cleared
        return [rule for rule in self._note().rules if not rule.seq or rule.seq > cleared]

    async def add(self, text: str, kind: RuleKind) -> StandingRule:
        """Add a rule that was not said in the log."""
        clean = check_text(plain_text(text, path="text"), path="text").strip()
        if not 0 < len(clean) <= LONGEST_RULE:
            raise InvalidOption(
                f"a rule has 1 to {LONGEST_RULE} characters, got {len(clean)}: shorten it, or use pin()"
            )
        if kind not in get_args(RuleKind):
            known = ", ".join(map(repr, get_args(RuleKind)))
            raise InvalidOption(f"kind={kind!r} is not one of {known}")
        await self.active()
        rule = new_rule(clean, kind=kind)

        def added(rules: Sequence[StandingRule]) -> tuple[StandingRule, ...]:
            # One that was dropped before is added anew.
            others = [each for each in rules if each.id != rule.id]
            return self._updated(others, [rule])

        await self._change(added)
        return rule

    async def drop(self, key: str) -> StandingRule:
        """Drop the active rule with this id."""
        found = next((rule for rule in await self.active() if rule.id == key), None)
        if found is None:
            raise NotFound(f"no active rule {key!r}; rules() lists them")
        dropped = msgspec.structs.replace(found, state="dropped")
        await self._change(
            lambda rules: tuple(dropped if rule.id == key else rule for rule in rules)
        )
        return dropped

    def _note(self) -> RulesNote:
        """Return the ledger as far as this handle has read the log."""
        document, history = self.cache.rules_document, self.cache.history
        # The same note may have been read again: what this handle has read since stays.
        if document != self._read[0] or history != self._read[1]:
            self._read = (document, history, _decode(document))
            self._unsaved = False
        return self._read[2]

    async def _catch_up(self, window: LiveWindow) -> None:
        """Read the user's messages since the last time: those in the window at no cost, one page of older ones."""
        if self._note().upto + 1 < window.anchor:
            await self._read_page(window.anchor - 1)
        upto = self._note().upto
        if self.enabled and window.anchor - 1 <= upto < window.seq:
            self._take(window.user_messages(upto), window.seq)

    async def _read_page(self, last: int) -> bool:
        """Read the next page of the log up to `last`; return True if there may be more."""
        cache = self.cache
        upto = self._note().upto
        if not self.enabled or upto >= last:
            return False
        entries = await cache.store.read(
            cache.scope, cache.conversation, after=upto, upto=last, limit=_PAGE
        )
        if not entries:
            return False
        said = [
            (entry.seq, entry.message.text) for entry in entries if entry.message.role == "user"
        ]
        self._take(said, entries[-1].seq, is_page=len(entries) == _PAGE)
        return entries[-1].seq < last

    def _take(self, said: Iterable[tuple[int, str]], upto: int, *, is_page: bool = False) -> None:
        """Add the rules of some messages. Worth storing is a ledger that changes, and how far a whole page was read."""
        note = self._note()
        new = [rule for seq, text in said for rule in extract_rules(text, seq=seq, trust="user")]
        updated = self._updated(note.rules, new) if new else note.rules
        self._unsaved = self._unsaved or is_page or updated != note.rules
        self._read = (*self._read[:2], RulesNote(upto=upto, rules=updated))

    def _updated(
        self, rules: Sequence[StandingRule], new: Iterable[StandingRule]
    ) -> tuple[StandingRule, ...]:
        return update_ledger(rules, new, limit_tokens=_STORED_TOKENS, count=self._count).rules

    def _count(self, text: str) -> int:
        """Return the tokens of a text; those of single rules are counted once."""
        if len(text) > _LONGEST_LINE:
            return self.cache.counter.count_text(text)
        if len(self._tokens) > _COUNTED_RULES:
            self._tokens.clear()
        if text not in self._tokens:
            self._tokens[text] = self.cache.counter.count_text(text)
        return self._tokens[text]

    async def _write(self, note: RulesNote) -> None:
        """Store the ledger; `Conflict` if another process changed it or the history meanwhile."""
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


def rules_as_of(document: Document, upto: int) -> bytes:
    """Return a stored ledger as it was when `upto` was the newest entry; rules added by hand are in it."""
    note = _decode(document)
    said = [rule for rule in note.rules if rule.seq <= upto]
    kept = [
        msgspec.structs.replace(rule, state="active", ended=0) if rule.ended > upto else rule
        for rule in said
    ]
    return msgspec.json.encode(RulesNote(upto=min(note.upto, upto), rules=tuple(kept)))


def rules_without(document: Document, seq: int) -> bytes | None:
    """Return a stored ledger without the rules of one entry; None if there are none of it."""
    note = _decode(document)
    kept = tuple(rule for rule in note.rules if rule.seq != seq)
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
            f"not a valid rule ledger: {error}", path=f"{document.kind}/{document.key}"
        ) from None
