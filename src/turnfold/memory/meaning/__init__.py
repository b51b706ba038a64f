"""Recall by meaning: vectors of a conversation's entries beside its log, made in the background, never required."""

from __future__ import annotations

from turnfold.memory.meaning.index import Meanings, MeaningStatus

__all__ = ("MeaningStatus", "Meanings")
