"""Values and exceptions that break whoever prints, compares or awaits them; all of them may come from a tool."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

__all__ = ("RAISING", "RETURNING", "UNAWAITED", "Unprintable", "call_ids", "made", "recipes")


class Stop(BaseException):
    """Neither an Exception nor an interrupt."""


class Unprintable:
    def __str__(self) -> str:
        raise Stop("no text")

    __repr__ = __str__


class _NoText(Exception):
    def __str__(self) -> str:
        raise ValueError("no message")


class _HalfText(Exception):
    def __str__(self) -> str:
        return "file \udcff name 文件"


class _NumberText(Exception):
    def __str__(self) -> str:
        return 3  # type: ignore[return-value]  # noqa: PLE0307 (that is the point)


class _Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise Stop("no name")


class Nameless(metaclass=_Nameless):
    pass


class NamelessError(Exception, metaclass=_Nameless):
    pass


class Text(str):
    """A text whose own methods are not those of a text."""

    __slots__ = ()

    def __str__(self) -> str:
        raise Stop("no text")

    def encode(self, *_: object) -> bytes:  # type: ignore[override]
        raise Stop("no bytes")

    def isascii(self) -> bool:
        raise Stop("no answer")


class SaysText:
    def __str__(self) -> str:
        return Text("sub-text")


class _Record(dict[str, object]):
    def items(self) -> object:  # type: ignore[override]
        raise Stop("no items")

    def __repr__(self) -> str:
        raise Stop("no repr")


class _Table(Mapping[str, object]):
    def __getitem__(self, key: str) -> object:
        raise Stop(key)

    def __iter__(self) -> Iterator[str]:
        raise Stop("no keys")

    def __len__(self) -> int:
        raise Stop("no length")


def _lying(kind: object) -> object:
    """An object that says it is of another class, or raises where it is asked."""

    class Liar:
        @property
        def __class__(self) -> object:  # type: ignore[override]
            if isinstance(kind, BaseException):
                raise kind
            return kind

    return Liar()


class Undumpable:
    """Looks like a pydantic model."""

    def model_dump(self, *_: object, **__: object) -> object:
        raise Stop("no fields")


class Waiting:
    """Something to await, and no coroutine."""

    def __await__(self) -> Iterator[None]:
        yield from asyncio.sleep(0).__await__()
        raise Stop("awaited")


def _deep(levels: int = 50_000) -> object:
    value: object = []
    for _ in range(levels):
        value = [value]
    return value


def _cycle() -> object:
    value: dict[str, object] = {}
    value["self"] = [value]
    return value


def _generator() -> Iterator[int]:
    yield 1


async def _async_generator():  # noqa: ANN202
    yield 1


async def _coroutine() -> object:
    return Unprintable()


async def _within() -> object:
    return _coroutine()


RETURNING: dict[str, Callable[[], object]] = {
    "lone surrogate": lambda: "file \udcff name 文件",
    "lone surrogate inside": lambda: {"\ud800": ["文", "\udfff"]},
    "subclass of str": lambda: Text("text 文本"),
    "str() gives a subclass": SaysText,
    "unprintable": Unprintable,
    "unprintable inside": lambda: {"a": [Unprintable()]},
    "no type name": Nameless,
    "dict without items": lambda: _Record(a=1),
    "mapping without keys": _Table,
    "claims to be text": lambda: _lying(str),
    "claims to be a coroutine": lambda: _lying(type(_closed())),
    "class raises": lambda: _lying(Stop("no class")),
    "awaitable that raises": Waiting,
    "deep": _deep,
    "cycle": _cycle,
    "nan": lambda: {"a": float("nan"), "b": [float("-inf")]},
    "bytes": lambda: b"\x00\xff\x89PNG",
    "bytes inside": lambda: {"b": [b"\xff"]},
    "model_dump raises": Undumpable,
    "huge int": lambda: 10**5_000,
    "huge int inside": lambda: [{"n": -(10**5_000)}],
    "keys of many types": lambda: {(1, 2): 3, None: 4, b"k": 5},
    "generator": _generator,
    "async generator": _async_generator,
    "coroutine that returns a coroutine": _within,
    "coroutine": _coroutine,
    "nul": lambda: "a\x00b",
    "nothing": lambda: "",
    "none": lambda: None,
    "class": lambda: Nameless,
    "exception": _NoText,
    "not implemented": lambda: NotImplemented,
}
"""Functions that return what is hard to write as text."""


UNAWAITED = frozenset({"coroutine", "coroutine that returns a coroutine"})
"""Those of which Python complains where a framework does not await them."""


def call_ids(names: Iterable[str]) -> dict[str, str]:
    """Name of a value -> an id for the call that returns it, which every provider takes."""
    return {name: re.sub("[^a-z]+", "_", name) for name in names}


def _closed() -> object:
    made = _coroutine()
    made.close()
    return made


RAISING: tuple[Callable[[], BaseException], ...] = (
    lambda: RuntimeError("file \udcff name 文件"),
    _NoText,
    _HalfText,
    _NumberText,
    NamelessError,
    Stop,
    lambda: Stop("\ud800"),
    GeneratorExit,
    StopIteration,
    StopAsyncIteration,
    MemoryError,
    RecursionError,
    lambda: TimeoutError("of the tool's own"),
    asyncio.CancelledError,
    lambda: BaseExceptionGroup("both", [Stop("one"), ValueError("two")]),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
)
"""Functions that make exceptions which are hard to raise, pass on or describe."""


@dataclass(frozen=True)
class _Hostile:
    """Stands for a hostile value in a recipe: Hypothesis itself could not print or compare the value."""

    name: str


def recipes() -> st.SearchStrategy[object]:
    """Values of every JSON type and of none, nested in one another, with hostile ones named among them."""
    texts = st.text(st.characters(exclude_categories=()))  # surrogates too
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        texts,
        st.binary(),
        st.sampled_from(sorted(RETURNING)).map(_Hostile),
    )
    keys = st.one_of(texts, st.integers(), st.none(), st.binary(), st.tuples(texts))
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner) | st.dictionaries(keys, inner) | st.tuples(inner, inner),
        max_leaves=8,
    )


def made(recipe: object) -> object:
    """The value a recipe stands for. A coroutine inside another value would never be awaited: it is left out."""
    if isinstance(recipe, _Hostile):
        return RETURNING[recipe.name]()
    return _inner(recipe)


def _inner(recipe: object) -> object:
    if isinstance(recipe, _Hostile):
        return recipe.name if "coroutine" in recipe.name else RETURNING[recipe.name]()
    if isinstance(recipe, list | tuple):
        return type(recipe)(map(_inner, recipe))
    if isinstance(recipe, dict):
        return {key: _inner(value) for key, value in recipe.items()}
    return recipe
