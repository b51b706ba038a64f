"""Memories that an evaluation compares (peers): turnfold, the newest messages, BM25, and other libraries.

A peer has a name, and a function that gets the messages so far and a token budget and returns the messages that it
would send. A peer is made anew for each conversation and called once per model call, so it may keep state in between.
turnfold itself, a window of the newest messages and BM25 are built in. The libraries of `library_peers` are used if
they are installed. A package can add others with an entry point of the group `turnfold.peers`: a callable that takes a
`TokenCounter` and returns a `Peer`.

Libraries that summarise with a model get turnfold's extractive summariser in its place, since no model is called here.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Protocol, cast

from turnfold.budget import Budget
from turnfold.errors import InvalidOption
from turnfold.memory import Memory, Session
from turnfold.records import Message, user
from turnfold.text import search_terms, terms_of
from turnfold.tokens import TokenCounter
from turnfold.window import Context

__all__ = (
    "Bm25Peer",
    "MessageCosts",
    "Peer",
    "PeerFactory",
    "RecencyPeer",
    "TurnfoldPeer",
    "find_peers",
    "newest_start",
    "peer_names",
)


class Peer(Protocol):
    """Another way of building contexts, to compare turnfold with.

    Optional members: `search(messages, question, limit)` returns seqs (from 1), best first; `marks` is the number of
    messages of the last context before each cache breakpoint; `close()` is called at the end of the conversation.
    """

    @property
    def name(self) -> str:
        """Name of the compared memory in the results of an evaluation."""
        ...

    def context(self, messages: Sequence[Message], budget: int, /) -> Sequence[Message]:
        """Return the messages to send; `messages` is the log so far, whose last message is to be answered."""
        ...


PeerFactory = Callable[[TokenCounter], Peer]
"""Function that makes a peer (a memory to compare) for one conversation; the peer should count tokens with the given
counter."""


class TurnfoldPeer:
    """turnfold as applications use it: `session.add`, `context()`, `recall()`, in a new SQLite store."""

    name = "turnfold"

    def __init__(
        self,
        counter: TokenCounter,
        *,
        times: Sequence[int] = (),
        budget: int = 0,
        recall: str = "automatic",
    ) -> None:
        self._counter, self._times, self._budget, self._recall = counter, times, budget, recall
        self._memory: Memory | None = None
        self._logged = self._now = 0
        self.marks: tuple[int, ...] = ()
        """Number of messages of the last context before each cache breakpoint."""

    def context(self, messages: Sequence[Message], budget: int) -> Sequence[Message]:
        """Add the new messages to a turnfold session, and return the messages of its context."""
        self._budget = self._budget or budget
        context = self._session(messages).context(budget=Budget(max_tokens=budget))
        self.marks = _marks(context)
        return context.messages

    def search(self, messages: Sequence[Message], question: str, limit: int) -> list[int]:
        """Return the log positions of the entries that `session.recall()` finds for a question, best first."""
        session = self._session(messages)
        return [found.seq for found in session.recall(question, limit=limit)]

    def close(self) -> None:
        """Close the memory and its store."""
        if self._memory is not None:
            self._memory.close()

    def _session(self, messages: Sequence[Message]) -> Session:
        if self._memory is None:
            self._memory = Memory(
                counter=self._counter,
                budget=Budget(max_tokens=self._budget) if self._budget else None,
                recall=self._recall,
                clock=lambda: self._now,
            )
        session = self._memory.session("evaluated")
        while self._logged < len(messages):
            first, self._now = self._logged, self._time(self._logged)
            while self._logged < len(messages) and self._time(self._logged) == self._now:
                self._logged += 1
            session.add(messages[first : self._logged])
        return session

    def _time(self, at: int) -> int:
        return self._times[at] if at < len(self._times) else max(self._times, default=0)


def _marks(context: Context) -> tuple[int, ...]:
    """Return the number of messages before each cache breakpoint: after system, summary, window and a tool loop."""
    ends = set(context.ends[:3])
    if any(message.role == "tool" for message in context.messages[context.ends[3] :]):
        ends.add(len(context.messages))
    return tuple(sorted(ends - {0}))


def newest_start(roles: Sequence[str], costs: Sequence[int], room: int) -> int:
    """Return the index of the first of the newest messages that fit `room` tokens.

    It is a user message if there is one, else an assistant message, and never a tool result without its call.
    """
    first = len(roles)
    while first and (room := room - costs[first - 1]) >= 0:
        first -= 1
    for wanted in (("user",), ("user", "assistant")):
        for at in range(first, len(roles)):
            if roles[at] in wanted:
                return at
    return len(roles)


class RecencyPeer:
    """Sends the system messages and the newest messages that fit, from a user message on if possible."""

    name = "recency"

    def __init__(self, counter: TokenCounter) -> None:
        self._cost = MessageCosts(counter)

    def context(self, messages: Sequence[Message], budget: int) -> Sequence[Message]:
        """Return the system messages and the newest messages that fit the budget."""
        system = [each for each in messages if each.role == "system"]
        talk = [each for each in messages if each.role != "system"]
        room = budget - self._cost.reply - sum(map(self._cost, system))
        roles = [each.role for each in talk]
        return [*system, *talk[newest_start(roles, list(map(self._cost, talk)), room) :]]


_EARLIER = user("Earlier in this conversation:")


class Bm25Peer:
    """Sends the system messages, the best BM25 matches of the user's last message, and the newest turn.

    If the newest turn alone does not fit, the newest messages that fit are sent instead. Textbook BM25 (k1 1.2, b 0.75)
    over the same words, stems and Chinese character pairs as turnfold's own search.
    """

    name = "bm25"

    def __init__(self, counter: TokenCounter) -> None:
        self._cost = MessageCosts(counter)
        self._count = lru_cache(maxsize=10_000)(counter.count_text)
        self._recency = RecencyPeer(counter)
        self._places: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._lengths: list[int] = []

    def context(self, messages: Sequence[Message], budget: int) -> Sequence[Message]:
        """Return system messages, the best matches of the user's last message that fit, and the newest turn."""
        turn = max((at for at, each in enumerate(messages) if each.role == "user"), default=0)
        system = [each for each in messages[:turn] if each.role == "system"]
        newest = messages[turn:]
        room = budget - self._cost.reply - sum(map(self._cost, [*system, *newest]))
        if room < 0:
            return self._recency.context(messages, budget)
        room -= self._cost(_EARLIER)
        chosen: dict[int, str] = {}
        for seq in self.search(messages[:turn], messages[turn].text, len(messages)):
            found = messages[seq - 1]
            if found.role == "system":
                continue
            line = f"\n{found.role}: {found.text}"
            room -= self._count(line)
            if room < 0:
                break
            chosen[seq] = line
        quoted = user(_EARLIER.text + "".join(chosen[seq] for seq in sorted(chosen)))
        return [*system, *([quoted] if chosen else []), *newest]

    def search(self, messages: Sequence[Message], question: str, limit: int) -> list[int]:
        """Return the log positions of the messages that contain words of the question, best first."""
        for seq, message in enumerate(messages[len(self._lengths) :], len(self._lengths) + 1):
            counts = Counter(terms_of(message.text))
            self._lengths.append(counts.total())
            for term, times in counts.items():
                self._places[term][seq] = times
        total = len(messages)
        usual = sum(self._lengths[:total]) / total if total else 0.0
        scores: defaultdict[int, float] = defaultdict(float)
        for term in search_terms(question):
            found = {at: times for at, times in self._places.get(term, {}).items() if at <= total}
            weight = math.log(1 + (total - len(found) + 0.5) / (len(found) + 0.5))
            for seq, times in found.items():
                length = 0.25 + 0.75 * self._lengths[seq - 1] / usual
                scores[seq] += weight * times * 2.2 / (times + 1.2 * length)
        return sorted(scores, key=lambda seq: (-scores[seq], -seq))[:limit]


class MessageCosts:
    """Counts the tokens of messages, and caches the count of each message object."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter, self.reply = counter, counter.reply
        self._known: dict[int, tuple[Message, int]] = {}

    def __call__(self, message: Message) -> int:
        """Return the number of tokens of a message, from the cache if this object was counted before."""
        if id(message) not in self._known:
            self._known[id(message)] = message, self._counter.count_message(message)
        return self._known[id(message)][1]


_BUILT_IN: dict[str, PeerFactory] = {"recency": RecencyPeer, "bm25": Bm25Peer}
_LIBRARIES = "turnfold.evaluation.library_peers"
_LIBRARY_PEERS = {
    "langchain-trim": "LangChainTrim",
    "langchain-summary": "LangChainSummary",
    "llama-index": "LlamaIndexBuffer",
    "agent-framework": "AgentFrameworkTruncation",
    "pydantic-ai-harness": "HarnessSlidingWindow",
    "compaction-guard": "CompactionGuard",
}
_GROUP = "turnfold.peers"


def peer_names() -> list[str]:
    """Return the names of all compared memories: built in, of known libraries, and of installed packages."""
    added = sorted(each.name for each in entry_points(group=_GROUP))
    return [*_BUILT_IN, *_LIBRARY_PEERS, *added]


def find_peers(names: Iterable[str]) -> dict[str, PeerFactory]:
    """Return the factories of the named peers (context builders to compare); `MissingExtra` if a library is missing."""
    found: dict[str, PeerFactory] = {}
    added = {each.name: each for each in entry_points(group=_GROUP)}
    for name in names:
        if name in _BUILT_IN:
            found[name] = _BUILT_IN[name]
        elif name in _LIBRARY_PEERS:
            factory = getattr(import_module(_LIBRARIES), _LIBRARY_PEERS[name])
            factory.require()
            found[name] = factory
        elif name in added:
            found[name] = cast("PeerFactory", added[name].load())
        else:
            raise InvalidOption(f"unknown peer {name!r}; use {', '.join(peer_names())}")
    return found
