"""Nothing stored becomes markup, whatever it holds; and the check that says so can fail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inspector.hostile import PAYLOADS
from tests.inspector.reading import dangers, read_page
from turnfold.errors import InvalidOption
from turnfold.service.inspector import html as markup
from turnfold.service.inspector.html import address, tag, to_html

TEXTS = st.one_of(st.sampled_from(PAYLOADS), st.text(st.characters(exclude_categories=["Cs"])))


def seen(text: str) -> str:
    """What is shown of a text: itself, but for signs that cannot be seen."""
    return markup._BIDI.sub(
        lambda found: f"[U+{ord(found[0]):04X}]", markup._UNPRINTABLE.sub("\ufffd", text)
    )


def test_there_are_two_hundred_payloads() -> None:
    assert len(set(PAYLOADS)) == 200


@given(TEXTS, TEXTS)
def test_any_text_is_only_text(inside: str, beside: str) -> None:
    page = read_page(to_html(tag("p", inside, tag("em", beside), title=inside)))
    [paragraph] = page.children
    assert not isinstance(paragraph, str)
    assert paragraph.attributes == {"title": seen(inside)}
    assert [each.name for each in page.all()] == ["p", "em"]
    assert paragraph.text == seen(inside) + seen(beside)


def test_without_escaping_the_payloads_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [each for each in PAYLOADS if dangers(to_html(tag("pre", each)))] == []
    monkeypatch.setattr(markup, "escape", str)
    found = [each for each in PAYLOADS if dangers(to_html(tag("pre", each)))]
    assert len(found) >= 180  # the rest are tricks on other readers: Markdown, templates, addresses


@given(st.text(max_size=40), st.text(max_size=40))
def test_an_address_leads_to_its_parts_and_nowhere_else(part: str, value: str) -> None:
    from urllib.parse import parse_qs, unquote, urlsplit

    sound = part.encode(errors="ignore").decode(), value.encode(errors="ignore").decode()
    made = address("sessions", sound[0], query=sound[1])
    tag("a", href=made)
    split = urlsplit(made)
    assert (split.scheme, split.netloc, split.fragment) == ("", "", "")
    assert [unquote(each) for each in split.path.split("/")] == ["", "ui", "sessions", sound[0]]
    assert parse_qs(split.query, keep_blank_values=True) == {"query": [sound[1]]}


@pytest.mark.parametrize(
    "href",
    [
        "javascript:alert(1)",
        "//outside.invalid",
        "http://outside.invalid",
        "/uix",
        "/v1/sessions",
        "/ui/\nx",
        "\\\\outside",
        "data:text/html,x",
        "/ui/a\\b",
        "",
    ],
)
def test_an_address_out_of_the_inspector_is_refused(href: str) -> None:
    with pytest.raises(InvalidOption, match="not a link within"):
        tag("a", "x", href=href)


def test_what_runs_or_loads_by_itself_cannot_be_written() -> None:
    for name in ("img", "iframe", "object", "style", "video", "base", "embed"):
        with pytest.raises(InvalidOption, match="not one of the HTML elements"):
            tag(name)
    for attribute in ("onclick", "style", "srcset", "srcdoc"):
        with pytest.raises(InvalidOption, match="not one of the HTML attributes"):
            tag("p", **{attribute: "x"})
