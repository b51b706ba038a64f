"""What a page says, read as a browser would: elements, attributes, texts, and what has no business on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

__all__ = ("Found", "dangers", "read_page")

_EMPTY = {
    "input",
    "link",
    "meta",
    "img",
    "br",
    "hr",
    "source",
    "area",
    "base",
    "col",
    "embed",
    "wbr",
}
_OURS = {"/ui/assets/inspector.js", "/ui/assets/inspector.css", "/ui/assets/icon.svg"}
_HARMLESS = set(
    "a article aside body button code dd del details div dl dt em figcaption figure footer form h1 h2 h3 head header "
    "html input ins label li link main mark meta nav ol option p pre script section select small span strong summary "
    "svg g rect line path text title table tbody td th thead time tr ul".split()
)


@dataclass(slots=True)
class Found:
    """One element."""

    name: str
    attributes: dict[str, str]
    children: list[Found | str] = field(default_factory=list["Found | str"])

    @property
    def text(self) -> str:
        said = "".join(each if isinstance(each, str) else each.text for each in self.children)
        return said.removeprefix("\n") if self.name == "pre" else said

    def all(self, name: str = "", **attributes: str) -> list[Found]:
        """Everything in it with this name and these attributes, in order; `class_` asks for one of the classes."""
        found: list[Found] = []
        for each in self.children:
            if isinstance(each, Found):
                if each.is_a(name, attributes):
                    found.append(each)
                found += each.all(name, **attributes)
        return found

    def one(self, name: str = "", **attributes: str) -> Found:
        [found] = self.all(name, **attributes)
        return found

    def is_a(self, name: str, attributes: dict[str, str]) -> bool:
        if name and self.name != name:
            return False
        for key, value in attributes.items():
            real = key.rstrip("_").replace("_", "-")
            if real == "class":
                if value not in self.attributes.get("class", "").split():
                    return False
            elif real not in self.attributes or (value and self.attributes[real] != value):
                return False
        return True


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Found("", {})
        self.open = [self.root]
        self.elements: list[Found] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = Found(tag, {key: value or "" for key, value in attrs})
        self.open[-1].children.append(found)
        self.elements.append(found)
        if tag not in _EMPTY:
            self.open.append(found)

    def handle_endtag(self, tag: str) -> None:
        if self.open[-1].name == tag:
            self.open.pop()
        else:
            self.wrong.append(f"</{tag}> closes <{self.open[-1].name}>")

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        self.wrong.append(f"comment {data[:20]!r}")


def read_page(html: str) -> Found:
    """The page; one that is not well formed is an error."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.wrong == []
    assert reader.open == [reader.root]
    return reader.root


def dangers(html: str) -> list[str]:
    """What could run, load or lead out of the inspector."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    found = list(reader.wrong)
    for each in reader.elements:  # flat: what is dangerous may be nested without end
        if each.name not in _HARMLESS:
            found.append(f"<{each.name}>")
        for key, value in each.attributes.items():
            if key.startswith("on") or key in (
                "style",
                "srcdoc",
                "srcset",
                "xlink:href",
                "background",
            ):
                found.append(f"{key} of <{each.name}>")
            elif key in ("href", "action", "src", "formaction", "poster", "data"):
                within = value == "/ui" or value.startswith(("/ui/", "/ui?", "?", "#"))
                if not within or (each.name in ("script", "link") and value not in _OURS):
                    found.append(f"{key}={value[:40]!r} of <{each.name}>")
        if each.name == "script" and (each.children or "src" not in each.attributes):
            found.append("a script on the page itself")
        if each.name == "meta" and "http-equiv" in each.attributes:
            found.append("a meta that acts")
    return found
