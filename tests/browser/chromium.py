"""A real Chromium for a test: Playwright's own, or the system's; none is a reason to skip, told in words."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import pytest

api = pytest.importorskip(
    "playwright.sync_api", reason="browser tests need playwright: make test-browser"
)
Page: TypeAlias = Any
"""Of Playwright, which the environment that checks types does not hold."""

__all__ = ("Page", "Watched", "browsing", "expect", "picture")

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

expect: Any = api.expect


def _executable(own: str) -> str:
    known = [os.environ.get("TURNFOLD_CHROMIUM", ""), own, *(shutil.which(n) or "" for n in _NAMES)]
    for each in known:
        if each and Path(each).exists():
            return each
    pytest.skip(
        "there is no Chromium: `playwright install chromium`, or install the system's package, "
        "or name one with TURNFOLD_CHROMIUM"
    )


@dataclass
class Watched:
    """A page, and everything it did that it should not have done."""

    page: Page
    context: Any
    wanted: list[str] = field(default_factory=list[str])
    """What of other hosts a page asked for, also where the browser refused."""
    outside: list[str] = field(default_factory=list[str])
    """What of it left the page; none of it arrives."""
    said: list[str] = field(default_factory=list[str])
    """Errors of scripts and of the policy."""
    dialogs: list[str] = field(default_factory=list[str])


@contextmanager
def browsing(base: str) -> Iterator[Watched]:
    """A new browser, watched."""
    own = urlsplit(base).netloc
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=_executable(driver.chromium.executable_path)
        )
        context = browser.new_context(
            base_url=base, viewport={"width": 1000, "height": 760}, locale="en-GB"
        )
        context.set_default_timeout(60_000)
        api.expect.set_options(timeout=60_000)
        page = context.new_page()
        watched = Watched(page, context)

        def left(request: Any) -> None:
            split = urlsplit(request.url)
            if split.scheme in ("http", "https", "ws", "wss") and split.netloc != own:
                watched.wanted.append(request.url)

        def stop(route: Any) -> None:
            if urlsplit(route.request.url).netloc == own:
                route.continue_()
            else:
                watched.outside.append(route.request.url)
                route.abort()

        context.on("request", left)
        context.route("**/*", stop)

        def heard(told: Any) -> None:
            if told.type == "error":
                watched.said.append(told.text)

        def asked(dialog: Any) -> None:
            watched.dialogs.append(dialog.message)
            dialog.dismiss()

        page.on("console", heard)
        page.on("pageerror", lambda error: watched.said.append(str(error)))
        page.on("dialog", asked)
        try:
            yield watched
        finally:
            context.close()
            browser.close()


def picture(page: Page, name: str, folder: Path) -> None:
    """A picture of what is on the screen, where TURNFOLD_SCREENSHOTS says, or where nobody looks."""
    wanted = os.environ.get("TURNFOLD_SCREENSHOTS")
    path = Path(wanted or folder) / f"inspector-{name}.png"
    page.screenshot(path=path)
    assert path.stat().st_size > 5_000
