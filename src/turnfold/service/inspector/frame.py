"""What every page has around its screen: the way back, the tabs of a session, language, brightness, keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode

from turnfold.service.inspector.asked import Shown
from turnfold.service.inspector.markup import ROOT, Element, Node, address, tag
from turnfold.service.inspector.words import LANGUAGES, Words

__all__ = ("TABS", "page", "sign_in", "wrong")

TABS: Final = ("timeline", "log", "checkpoints", "recall", "snapshots")
"""Screens of a session; the first is its home."""


def page(
    shown: Shown, words: Words, *, here: Sequence[tuple[str, str]], signed_in: bool
) -> Element:
    """A whole page; `here` is what stands behind the question mark of its address."""
    return _html(
        words,
        shown.title,
        _header(words, here, signed_in=signed_in),
        tag(
            "main",
            _trail(shown),
            tag("h1", shown.title),
            _tabs(shown, words) if shown.session else None,
            shown.body,
            id="content",
            data_live=shown.live or None,
        ),
    )


def sign_in(words: Words, *, refused: str) -> Element:
    """Where a token is asked for."""
    return _html(
        words,
        words("sign in"),
        _header(words, (), signed_in=False),
        tag(
            "main",
            tag("h1", words("sign in")),
            tag("p", refused, class_="refused", role="alert") if refused else None,
            tag("p", words(
                "A token with the right to read. It is kept in a cookie that no script can read, until you sign out."
            )),
            tag(
                "form",
                tag("label", words("token"), " ",
                    tag("input", type="password", name="token", required=True, autocomplete="off", maxlength=512)),
                tag("button", words("sign in"), type="submit"),
                method="post",
                action=address("sign-in"),
            ),
            id="content",
        ),
    )  # fmt: skip


def wrong(words: Words, *, title: str, detail: str, request_id: str) -> Element:
    """What is shown in place of a screen that cannot be."""
    return _html(
        words,
        title,
        _header(words, (), signed_in=False),
        tag(
            "main",
            tag("h1", title),
            tag("p", detail, class_="refused", role="alert"),
            tag("p", tag("code", request_id)) if request_id else None,
            id="content",
        ),
    )


def _html(words: Words, title: str, *body: Node) -> Element:
    return tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("title", f"{title} · turnfold"),
            tag("link", rel="icon", href=address("assets", "icon.svg"), type="image/svg+xml"),
            tag("link", rel="stylesheet", href=address("assets", "inspector.css")),
            tag("script", src=address("assets", "inspector.js")),
        ),
        tag(
            "body",
            tag("a", words("skip to the content"), href="#content", class_="skip"),
            *body,
            tag("footer", words("j/k move · Enter opens · / searches")),
        ),
        lang=words.language,
    )


def _header(words: Words, here: Sequence[tuple[str, str]], *, signed_in: bool) -> Element:
    return tag(
        "header",
        tag(
            "nav",
            tag("a", "turnfold", href=ROOT, class_="home"),
            tag("a", words("sessions"), href=ROOT),
            tag("a", words("health"), href=address("health")),
        ),
        tag(
            "div",
            tag("span", words("live"), id="live", class_="quiet"),
            [_language(code, name, words, here) for code, name in LANGUAGES.items()],
            tag("button", "◐", type="button", id="brightness", title=words("dark or light"),
                aria_label=words("dark or light")),
            tag("form", tag("button", words("sign out"), type="submit"), method="post",
                action=address("sign-out")) if signed_in else None,
            class_="tools",
        ),
    )  # fmt: skip


def _language(code: str, name: str, words: Words, here: Sequence[tuple[str, str]]) -> Element:
    query = urlencode([*here, ("lang", code)])
    chosen = "true" if code == words.language else None
    return tag("a", name, href=f"?{query}", hreflang=code, lang=code, aria_current=chosen)


def _trail(shown: Shown) -> Element | None:
    if not shown.trail:
        return None
    return tag("nav", [tag("a", label, href=href) for label, href in shown.trail], class_="trail")


def _tabs(shown: Shown, words: Words) -> Element:
    return tag(
        "nav",
        [
            tag(
                "a",
                words(name),
                href=address("sessions", shown.session, *((name,) if name != TABS[0] else ())),
                aria_current="page" if name == shown.tab else None,
            )
            for name in TABS
        ],
        class_="tabs",
    )
