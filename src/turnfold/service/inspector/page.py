"""Layout of every page (header, breadcrumbs, tabs, sign-in, errors), and commands that a user can copy from a page.

Pages are read-only, so a change such as a fork is offered as a command, to be run where the store is. Stored names in a
command are quoted for the shell or for Python. A name with invisible characters is not put into a command, because the
copied text would differ from the text that the user reads.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final, Literal, cast
from urllib.parse import urlencode

from turnfold.memory import Explanation
from turnfold.service.inspector.html import COPIED, ROOT, Element, Node, address, tag
from turnfold.service.inspector.labels import LANGUAGES, PageLabels
from turnfold.service.inspector.screen_types import RenderedScreen

__all__ = (
    "TABS",
    "as_command",
    "as_curl",
    "as_pytest",
    "error_page",
    "page",
    "sign_in",
    "to_copy",
)


_LONGEST: Final = 20_000
"""Most characters of a string inside a text to copy; longer strings are usually media in base64."""
_LONGEST_COMMAND: Final = 500_000
"""Most characters of a request that is shown as a curl command to copy; for a longer request no command is shown."""
_URLS: Final[Mapping[str, str]] = {
    "openai": "${OPENAI_BASE_URL:-https://api.openai.com/v1}/chat/completions",
    "anthropic": "${ANTHROPIC_BASE_URL:-https://api.anthropic.com}/v1/messages",
}
_HEADERS: Final[Mapping[str, Sequence[str]]] = {
    "openai": ('"Authorization: Bearer $OPENAI_API_KEY"',),
    "anthropic": ('"x-api-key: $ANTHROPIC_API_KEY"', '"anthropic-version: 2023-06-01"'),
}
_DEFAULTS: Final[Mapping[str, Mapping[str, object]]] = {
    "openai": {},
    "anthropic": {"max_tokens": 1_024},
}


def as_command(*arguments: str) -> str:
    """Return a `turnfold` shell command to copy, quoted; empty if an argument has invisible characters."""
    return shlex.join(("turnfold", *arguments)) if all(map(str.isprintable, arguments)) else ""


def as_curl(
    provider: Literal["openai", "anthropic"], body: Mapping[str, object], model: str = ""
) -> str:
    """Return the call as a curl command, with MODEL if the model is not known; empty if it is too long."""
    if _longest(body) > _LONGEST:
        return ""
    given = {"model": model or "MODEL", **_DEFAULTS[provider], **body}
    content = _without_invisible(json.dumps(given, ensure_ascii=False))
    if len(content) > _LONGEST_COMMAND:
        return ""
    headers = [*_HEADERS[provider], '"content-type: application/json"']
    lines = [f'curl -sS "{_URLS[provider]}"', *(f"-H {each}" for each in headers)]
    return " \\\n  ".join([*lines, f"-d {shlex.quote(content)}"])


def _without_invisible(text: str) -> str:
    """Return JSON with its invisible characters escaped: a reader sees all of a command before running it."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def as_pytest(explained: Explanation, session: str, tenant: str) -> str:
    """Return the source of a pytest test: the recorded call still has the same messages and token count."""
    manifest = explained.manifest
    roles = [message.role for message in explained.messages]
    return f"""import os

from turnfold import Memory


def test_what_the_model_saw() -> None:
    store = os.environ["TURNFOLD_STORE"]
    store = store if "://" in store else f"sqlite:///{{store}}"
    with Memory(store, scope={tenant!r}) as memory:
        seen = memory.session({session!r}).explain({manifest.call!a})
    assert seen.exact is {explained.exact}
    assert seen.manifest.digest == {manifest.digest!a}
    assert seen.manifest.tokens == {manifest.tokens}
    assert [message.role for message in seen.messages] == {roles!a}
"""


def to_copy(label: str, text: str, words: PageLabels, *, note: str, missing: str = "") -> Element:
    """Return a collapsed block with a text to copy; without a text, it shows the reason `missing`."""
    return tag(
        "details",
        tag("summary", label, class_="row"),
        tag("p", note if text else missing, class_="note"),
        tag("pre", text, class_=COPIED) if text else None,
        tag("button", words("copy"), type="button", data_copy=words("copied")) if text else None,
        class_="to-copy",
    )


def _longest(value: object) -> int:
    """Return the number of characters of the longest text in a JSON value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        value = list(cast("Mapping[str, object]", value).values())
    if isinstance(value, list | tuple):
        return max(map(_longest, cast("Sequence[object]", value)), default=0)
    return 0


TABS: Final = (
    "timeline", "log", "checkpoints", "rules", "memory", "recall", "snapshots", "costs",
)  # fmt: skip
"""Screens of a session; the first is its start page."""
_TAB_LABELS: Final[Mapping[str, str]] = {"memory": "pins & findings"}


def page(
    shown: RenderedScreen, words: PageLabels, *, here: Sequence[tuple[str, str]], signed_in: bool
) -> Element:
    """Return a whole page with header, tabs and the rendered screen; `here` has the query parameters of its address."""
    return _html(
        words,
        shown.title,
        _header(words, here, signed_in=signed_in, live=bool(shown.live)),
        tag(
            "main",
            _trail(shown),
            tag("h1", shown.title),
            _tabs(shown, words) if shown.session else None,
            tag("p", words(shown.about), class_="about") if shown.about else None,
            shown.body,
            id="content",
            data_live=shown.live or None,
        ),
    )


def sign_in(words: PageLabels, *, refused: str, local: bool = False) -> Element:
    """Return the sign-in page; `refused` is shown if a token was refused, and is empty if no token was tried.

    With `local` the service has no token file, and prints links that sign a browser in.
    """
    link = (
        "Without a token: open the newest link that the command printed, or run turnfold ui again."
    )
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
            tag("p", words(link), class_="quiet") if local else None,
            id="content",
        ),
    )  # fmt: skip


def error_page(words: PageLabels, *, title: str, detail: str, request_id: str) -> Element:
    """Return an error page; only the details that a wrong address leads to are translated."""
    title, detail = words.known(title), _detail(words, detail)
    return _html(
        words,
        title,
        _header(words, (), signed_in=False),
        tag(
            "main",
            tag("h1", title),
            tag("p", detail, class_="refused", role="alert"),
            tag("p", tag("code", request_id)) if request_id else None,
            tag("p", tag("a", words("to the sessions"), href=ROOT)),
            id="content",
        ),
    )


def _detail(words: PageLabels, english: str) -> str:
    if found := re.fullmatch(r"there is no session (.+)", english):
        return words("there is no session {name}", name=found[1])
    if found := re.fullmatch(r"no call (.+) in (.+): .+ lists the calls", english):
        return words("no call {call} in session {name}", call=found[1], name=found[2])
    if found := re.fullmatch(
        r"invalid query parameters: .*unknown field `(.+)`; .* are: (.+)", english
    ):
        return words(
            "unknown parameter {name}; the parameters are: {known}", name=found[1], known=found[2]
        )
    found = re.fullmatch(r"invalid query parameters: .* - at `\$\.(\w+)`", english)
    if found and words.language == "zh":
        return words("the parameter {name} has a value that is not allowed", name=found[1])
    return words.known(english)


def _html(words: PageLabels, title: str, *body: Node) -> Element:
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


def _header(
    words: PageLabels, here: Sequence[tuple[str, str]], *, signed_in: bool, live: bool = False
) -> Element:
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
            tag("span", words("live"), id="live", class_="quiet") if live else None,
            [_language(code, name, words, here) for code, name in LANGUAGES.items()],
            tag("button", "◐", type="button", id="brightness", title=words("dark or light"),
                aria_label=words("dark or light")),
            tag("form", tag("button", words("sign out"), type="submit"), method="post",
                action=address("sign-out")) if signed_in else None,
            class_="tools",
        ),
    )  # fmt: skip


def _language(code: str, name: str, words: PageLabels, here: Sequence[tuple[str, str]]) -> Element:
    query = urlencode([*here, ("lang", code)])
    chosen = "true" if code == words.language else None
    return tag("a", name, href=f"?{query}", hreflang=code, lang=code, aria_current=chosen)


def _trail(shown: RenderedScreen) -> Element | None:
    if not shown.trail:
        return None
    return tag("nav", [tag("a", label, href=href) for label, href in shown.trail], class_="trail")


def _tabs(shown: RenderedScreen, words: PageLabels) -> Element:
    return tag(
        "nav",
        [
            tag(
                "a",
                words(_TAB_LABELS.get(name, name)),
                href=address("sessions", shown.session, *((name,) if name != TABS[0] else ())),
                aria_current="page" if name == shown.tab else None,
            )
            for name in TABS
        ],
        class_="tabs",
    )
