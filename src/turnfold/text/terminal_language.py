"""The language of what commands print: that of TURNFOLD_LANG, else that of the locale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

__all__ = ("is_language", "language_of")


def is_language(name: str) -> bool:
    """Return True if TURNFOLD_LANG may have this value: `zh` or `en`, with or without a country."""
    return name.lower().startswith(("zh", "en"))


def language_of(environment: Mapping[str, str]) -> Literal["en", "zh"]:
    """Return the language that TURNFOLD_LANG sets, or else the locale; English for any other language."""
    chosen = environment.get("TURNFOLD_LANG", "")
    named = (environment.get(name, "") for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    locale = chosen if is_language(chosen) else next(filter(None, named), "")
    return "zh" if locale.lower().startswith("zh") else "en"
