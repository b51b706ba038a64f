"""HTML as values: what is stored can only become text, because there is no way to write markup from a string.

A template language escapes unless somebody says otherwise in one place; here there is no otherwise. An element has a
name and attributes from short lists, an address leads into the inspector or is refused, and everything else is text
and is escaped. Nothing that loads or runs by itself (images, frames, event attributes, styles) is on the lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Final, TypeAlias
from urllib.parse import quote, urlencode

from turnfold.errors import InvalidOption

__all__ = ("ROOT", "Element", "Node", "address", "document", "tag", "written")

ROOT: Final = "/ui"
"""Where the inspector is."""

_ELEMENTS: Final = frozenset(
    "a article aside body button code dd del details div dl dt em figcaption figure footer form h1 h2 h3 head header "
    "html input ins label li link main mark meta nav ol option p pre script section select small span strong summary "
    "svg g rect line path text title table tbody td th thead time tr ul".split()
)
_EMPTY: Final = frozenset(("input", "link", "meta"))
_ATTRIBUTES: Final = frozenset(
    "accept-charset action autocomplete charset class colspan content datetime dir for height href hreflang id "
    "inputmode lang max maxlength method min name open placeholder preserveAspectRatio rel required role rowspan scope "
    "selected spellcheck src step tabindex title type value viewBox width x x1 x2 y y1 y2 d".split()
)
_PREFIXES: Final = ("aria-", "data-")
_ADDRESSES: Final = frozenset(("action", "href", "src"))
_WITHIN: Final = re.compile(
    rf"{re.escape(ROOT)}(?:[/?#][\x21\x23-\x3b\x3d\x3f-\x5b\x5d-\x7e]*)?|[?#][\x21-\x7e]*"
)
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f\ud800-\udfff\ufffe\uffff]"
)
_TURNING: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Signs that change the direction of what follows: they could make a line read as another."""


@dataclass(frozen=True, slots=True)
class Element:
    """One element and what is in it."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    children: tuple[Node, ...]


Node: TypeAlias = Element | str | None
"""What can stand in an element: another, a text, or nothing."""


def tag(
    name: str, /, *children: Node | Iterable[Node], **attributes: str | float | bool | None
) -> Element:
    """An element. `class_` is written class, `data_live` data-live; None and False leave an attribute out."""
    if name not in _ELEMENTS:
        raise InvalidOption(f"<{name}> is none of the elements the inspector draws with")
    given = ((_attribute(key), value) for key, value in attributes.items())
    pairs = [(key, "" if value is True else str(value)) for key, value in given if not _out(value)]
    for key, value in pairs:
        if key in _ADDRESSES and not _WITHIN.fullmatch(value):
            raise InvalidOption(f"{key}={value[:80]!r} leads out of the inspector")
    held: list[Node] = []
    for child in children:
        if child is None or isinstance(child, str | Element):
            held.append(child)
        else:
            held.extend(child)
    return Element(name, tuple(pairs), tuple(held))


def address(*parts: str | int, **query: str | int | None) -> str:
    """The address of a screen: every part and value is quoted, so a name cannot become another path."""
    path = "/".join([ROOT, *(quote(str(part), safe="") for part in parts)])
    asked = urlencode({key: value for key, value in query.items() if value is not None})
    return f"{path}?{asked}" if asked else path


def document(root: Element) -> bytes:
    """A whole page."""
    return ("<!DOCTYPE html>\n" + written(root)).encode()


def written(node: Node) -> str:
    """A node as HTML."""
    pieces: list[str] = []
    _write(node, pieces)
    return "".join(pieces)


def _write(node: Node, pieces: list[str]) -> None:
    if node is None:
        return
    if isinstance(node, str):
        pieces.append(escape(_shown(node)))
        return
    pieces.append(f"<{node.name}")
    pieces.extend(f' {key}="{escape(_shown(value))}"' for key, value in node.attributes)
    pieces.append(">")
    if node.name in _EMPTY:
        return
    if node.name == "pre":
        pieces.append("\n")  # a reader of HTML takes the first one away
    for child in node.children:
        _write(child, pieces)
    pieces.append(f"</{node.name}>")


def _shown(text: str) -> str:
    """A text with what cannot be seen made visible: nothing stored may hide or turn what is shown."""
    text = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
    return _TURNING.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)


def _attribute(key: str) -> str:
    name = key.rstrip("_").replace("_", "-")
    if name not in _ATTRIBUTES and not name.startswith(_PREFIXES):
        raise InvalidOption(f"{name!r} is none of the attributes the inspector draws with")
    return name


def _out(value: object) -> bool:
    return value is None or value is False
