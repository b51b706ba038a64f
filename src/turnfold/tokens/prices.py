"""Prices of models in money, with the rules of their prompt caches.

Prices change and providers do not promise a cache hit, so every result is an estimate: the list price, with a cache hit
on every call that allows one. The table is a dated JSON file and can be replaced by another one of the same form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import msgspec

from turnfold.errors import InvalidOption, UnknownModel

__all__ = (
    "CacheRule",
    "Charge",
    "Price",
    "PriceTable",
    "load_prices",
    "shipped_prices",
)


class CacheRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Rule for which tokens of a prompt a provider reads from its prompt cache, and which it writes there."""

    least: int = 0
    """Least tokens of a prompt that are cached; 0 for a provider without a prompt cache."""
    step: int = 1
    """Number of tokens in whose multiples the provider caches a prompt."""
    marks: bool = False
    """True if the provider caches up to marks that the caller sets, and charges for writing; False if it caches
    automatically."""

    def read(self, shared: int, marks: Iterable[int]) -> int:
        """Return how many tokens of a call the prompt cache serves; `shared` are also in the previous call.

        `marks` are the cache marks of the previous call, as numbers of tokens before them.
        """
        if not self.least:
            return 0
        if self.marks:
            return max((mark for mark in marks if self.least <= mark <= shared), default=0)
        return shared // self.step * self.step if shared >= self.least else 0

    def written(self, read: int, marks: Sequence[int]) -> int:
        """Return how many tokens a call writes to the prompt cache, if `read` tokens were already there.

        `marks` are the call's cache marks, as numbers of tokens before them.
        """
        if not self.marks or not marks or marks[-1] < self.least:
            return 0
        return max(marks[-1] - read, 0)


class Above(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Prices of prompts above a certain length, in place of the usual prices."""

    tokens: int
    """Number of tokens of a prompt above which these prices apply."""
    input: float
    cached: float
    output: float
    written: float = 0.0


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """The billed tokens of one call: read from the cache, written to it, other input, and output."""

    read: int
    written: int
    fresh: int
    """Number of input tokens that are neither read from the cache nor written to it."""
    output: int


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The price of a model, per million tokens."""

    input: float
    output: float
    cached: float = 0.0
    """Price of a token read from the cache."""
    written: float = 0.0
    """Price of a token written to the cache; 0 if writing costs no more than input."""
    cache: str = "none"
    """Name of the cache rule of the model, in `PriceTable.caches`."""
    seen: str = ""
    """Date on which the price was published or last confirmed."""
    above: Above | tuple[Above, ...] | None = None
    """Prices of longer prompts; several if the price changes at more than one length."""

    def of(self, charge: Charge) -> float:
        """Return the cost of one call with these billed tokens, in the table's currency."""
        prompt = charge.read + charge.written + charge.fresh
        at = self._at(prompt)
        written = at.written or at.input
        return (
            charge.read * at.cached
            + charge.written * written
            + charge.fresh * at.input
            + charge.output * at.output
        ) / 1_000_000

    def _at(self, prompt: int) -> Price | Above:
        """Return the prices that apply to a prompt of this many tokens."""
        above = (self.above,) if isinstance(self.above, Above) else self.above or ()
        reached = [each for each in above if prompt > each.tokens]
        return max(reached, key=lambda each: each.tokens, default=self)


class PriceTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Prices and cache rules of many models on one date."""

    currency: str
    date: str
    models: dict[str, Price]
    caches: dict[str, CacheRule]
    per: int = 1_000_000
    about: str = ""

    def price(self, model: str) -> Price:
        """Return the price of a model, by its name without date and version of the release.

        Raises `UnknownModel` if none is known: a variant (`gpt-5-pro`, `glm-4.5-flash`) has a price of its own.
        """
        own = model.strip().lower().rsplit("/", 1)[-1]
        name = max((name for name in self.models if _begins(own, name)), key=len, default=None)
        if name is None:
            raise UnknownModel(
                f"no price for {model!r} among the {len(self.models)} models in the prices of {self.date}: write a "
                "price table of your own (docs: recipes/costs.md) and name it with load_prices(FILE), or --prices FILE"
            )
        return self.models[name]

    def rule(self, price: Price) -> CacheRule:
        """Return the rule of the prompt cache that a model's price refers to."""
        return self.caches[price.cache]


_RELEASE = re.compile(r"(?:[-@:](?:v?\d[\w.]*|latest|preview|exp|beta))*")
"""Matches the suffixes that may follow a model's name in the name of one of its releases."""


def _begins(name: str, known: str) -> bool:
    # gpt-5 is neither gpt-5.4 nor gpt-5-pro, and glm-4.5 is not glm-4.5-flash; gpt-4o-2024-08-06 is gpt-4o.
    return name.startswith(known) and _RELEASE.fullmatch(name, len(known)) is not None


def load_prices(path: str | Path) -> PriceTable:
    """Read a price table from a JSON file like the shipped one; raises `InvalidOption` if it cannot be read."""
    try:
        return _table(Path(path).read_bytes(), str(path))
    except OSError as error:
        raise InvalidOption(f"cannot read the price file {str(path)!r}: {error.strerror}") from None


@lru_cache(maxsize=1)
def shipped_prices() -> PriceTable:
    """Return the price table that comes with turnfold."""
    return _table(files("turnfold.tokens").joinpath("prices.json").read_bytes(), "prices.json")


def _table(data: bytes, name: str) -> PriceTable:
    try:
        table = msgspec.json.decode(data, type=PriceTable)
    except msgspec.MsgspecError as error:
        raise InvalidOption(f"{name} is not a valid price table: {error}") from None
    if table.per != 1_000_000:
        raise InvalidOption(
            f"{name} gives prices per {table.per:,} tokens; they must be per 1,000,000"
        )
    missing = sorted({price.cache for price in table.models.values()} - set(table.caches))
    if missing:
        raise InvalidOption(
            f"{name} uses cache rules that it does not define: {', '.join(missing)}; add them to `caches`"
        )
    return table
