"""Which items of a run the log has: the SDK tells it three times over, and each is to be stored once.

A run is given the items of its session, sends a model that list with its own input behind it, and adds to the session
what was said, always later than turnfold needs it in the log. So turnfold stores an item when it first sees it, keeps a
claim on it here, and lets the SDK's adding it redeem the claim. Items of some providers have no ids: they are counted
by what they say, so that the same words a second time are another item.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, cast

from agents import TResponseInputItem

from turnfold.adapters.openai_agents.items import item_key
from turnfold.errors import InvalidOption
from turnfold.wire.values import object_of

__all__ = ("RunItems",)

_Items: TypeAlias = Sequence[TResponseInputItem]


class RunItems:
    """The items of the run that uses a session now."""

    def __init__(self) -> None:
        self.begun = False
        """Whether the run was given the items there are."""
        self.own: set[int] = set()
        """Seqs of the entries that the run added."""
        self._stored: Counter[str] = Counter()
        """What the run was given, and what of its own is in the log."""
        self._claims_on_input: Counter[str] = Counter()
        self._claims_on_response: Counter[str] = Counter()
        self._sent: list[TResponseInputItem] = []
        """What the SDK wanted to send a model last time; all of it is stored."""
        self._sent_keys: Counter[str] = Counter()

    def begin(self, given: _Items) -> None:
        """A run is given the items of the session."""
        self.begun = True
        self.own = set()
        self._stored = _counted(given)
        self._claims_on_input.clear()
        self._sent, self._sent_keys = [], Counter()

    def stored(self, items: _Items) -> None:
        """Items that the SDK added are in the log."""
        self._stored.update(_counted(items))

    def stored_input(self, items: _Items) -> None:
        """Input is in the log that the SDK will add in a moment."""
        self._forget_failed(items)
        self._claims_on_input.update(_counted(items))
        self.stored(items)

    def stored_response(self, items: _Items) -> None:
        """A response is in the log that the SDK will add once its tools have run."""
        self._claims_on_response = _counted(items)

    def unclaimed(self, items: _Items) -> list[TResponseInputItem]:
        """Of what the SDK adds, the items that nobody has stored. Claims on the others are redeemed."""
        self._forget_failed(items)
        return [item for item in items if not self._redeemed(_key(item))]

    def unstored(self, items: _Items) -> list[TResponseInputItem]:
        """Of what the SDK wants to send, the items at the end that nobody has stored."""
        first = self._as_before(items)
        if not first:
            self._check_whole(items)
        seen = self._sent_keys.copy() if first else Counter[str]()
        flags: list[bool] = []
        for key in map(_key, items[first:]):
            seen[key] += 1
            flags.append(seen[key] > self._stored[key])
        if True not in flags:
            return []
        new = flags.index(True)
        if not all(flags[new:]):
            raise InvalidOption(
                f"item {first + new + 1} of {len(items)} of this run is not in the log and is not new either: the run "
                "began without this session, or something rewrote its input before turnfold saw it"
            )
        return list(items[first + new :])

    def sent(self, items: _Items) -> None:
        """All of this is in the log and about to be sent."""
        first = self._as_before(items)
        if not first:
            self._sent_keys.clear()
        self._sent_keys.update(_counted(items[first:]))
        self._sent = list(items)

    def _as_before(self, items: _Items) -> int:
        """How many items need not be looked at again: those sent before, unless the SDK has tidied them since."""
        first = len(self._sent)
        return first if items[:first] == self._sent else 0

    def _check_whole(self, items: _Items) -> None:
        missing = self._sent_keys.keys() - _counted(items).keys()
        if missing:
            raise InvalidOption(
                f"{len(missing)} of the {len(self._sent)} items of this run's last call are gone: a handoff's "
                "input_filter took them out. What a model sees can be decided in one place only: let "
                "call_model_input_filter do it, which turnfold_run(run_config=...) calls last"
            )

    def _forget_failed(self, items: _Items) -> None:
        """A question begins another run: a response whose run failed will not be added, the same words anew may be."""
        if any((object_of(item) or {}).get("role") == "user" for item in items):
            self._claims_on_response.clear()

    def _redeemed(self, key: str) -> bool:
        for claims in (self._claims_on_input, self._claims_on_response):
            if claims[key] > 0:
                claims[key] -= 1
                return True
        return False


def _counted(items: Iterable[TResponseInputItem]) -> Counter[str]:
    return Counter(map(_key, items))


def _key(item: TResponseInputItem) -> str:
    return item_key(cast("Mapping[str, object]", item))
