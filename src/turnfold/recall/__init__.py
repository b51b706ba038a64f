"""WHAT IS BROUGHT BACK: the terms a text is found by, alike in every backend."""

from __future__ import annotations

from turnfold.recall.terms import terms_of

__all__ = ("terms_of",)
