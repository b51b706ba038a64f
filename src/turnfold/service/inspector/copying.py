"""What a reader takes away from a page: a command for a terminal, a request for curl, a test.

Pages only read, so what would change something is not done here: it is written down for whoever may do it, with their
own rights, where the store is. Everything stored is quoted for the language it is written in; a name that cannot be
seen whole on the page is not put into a command, because what is copied would not be what was read.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Final, Literal, cast

from turnfold.memory.manifests import Explanation
from turnfold.service.inspector.markup import Element, tag
from turnfold.service.inspector.words import Words

__all__ = ("as_command", "as_curl", "as_pytest", "to_copy")

_LONGEST: Final = 20_000
"""Characters of one text in something to copy: media in base64 is longer, and no terminal takes it."""
_WHERE: Final[Mapping[str, str]] = {
    "openai": "${OPENAI_BASE_URL:-https://api.openai.com/v1}/chat/completions",
    "anthropic": "${ANTHROPIC_BASE_URL:-https://api.anthropic.com}/v1/messages",
}
_HEADERS: Final[Mapping[str, Sequence[str]]] = {
    "openai": ('"Authorization: Bearer $OPENAI_API_KEY"',),
    "anthropic": ('"x-api-key: $ANTHROPIC_API_KEY"', '"anthropic-version: 2023-06-01"'),
}
_NEEDED: Final[Mapping[str, Mapping[str, object]]] = {
    "openai": {},
    "anthropic": {"max_tokens": 1_024},
}


def as_command(*given: str) -> str:
    """A command of `turnfold`; empty where a word of it holds what cannot be seen."""
    return shlex.join(("turnfold", *given)) if all(map(str.isprintable, given)) else ""


def as_curl(provider: Literal["openai", "anthropic"], body: Mapping[str, object]) -> str:
    """The call as it goes to a provider, with the reader's own key and model; empty where it holds media."""
    if _longest(body) > _LONGEST:
        return ""
    content = json.dumps({"model": "MODEL", **_NEEDED[provider], **body}, ensure_ascii=True)
    headers = [*_HEADERS[provider], '"content-type: application/json"']
    lines = [f'curl -sS "{_WHERE[provider]}"', *(f"-H {each}" for each in headers)]
    return " \\\n  ".join([*lines, f"-d {shlex.quote(content)}"])


def as_pytest(explained: Explanation, session: str, tenant: str) -> str:
    """A test that the call can still be shown as it was: the same messages, the same count."""
    manifest = explained.manifest
    roles = [message.role for message in explained.messages]
    return f"""import os

from turnfold import Memory


def test_what_the_model_saw() -> None:
    with Memory(os.environ["TURNFOLD_STORE"], scope={tenant!a}) as memory:
        seen = memory.session({session!a}).explain({manifest.call!a})
    assert seen.exact is {explained.exact}
    assert seen.manifest.digest == {manifest.digest!a}
    assert seen.manifest.tokens == {manifest.tokens}
    assert [message.role for message in seen.messages] == {roles!a}
"""


def to_copy(label: str, text: str, words: Words, *, note: str, missing: str = "") -> Element:
    """Something to copy, closed until somebody wants it; `missing` says why there is none."""
    return tag(
        "details",
        tag("summary", label, class_="row"),
        tag("p", note if text else missing, class_="note"),
        tag("pre", text, class_="copied") if text else None,
        tag("button", words("copy"), type="button", data_copy=words("copied")) if text else None,
        class_="to-copy",
    )


def _longest(value: object) -> int:
    """Characters of the longest text in a value of JSON."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        value = list(cast("Mapping[str, object]", value).values())
    if isinstance(value, list | tuple):
        return max(map(_longest, cast("Sequence[object]", value)), default=0)
    return 0
