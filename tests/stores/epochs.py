"""Epochs that are all the same, for tests that compare whole stores, or show what random ones guard against."""

from __future__ import annotations

from typing import SupportsIndex

import pytest

from turnfold.stores import log_semantics

__all__ = ("draw_one_epoch",)


class _Ones(list[int]):
    """Drawn numbers of which there is always one more, and it is 1."""

    def pop(self, _place: SupportsIndex = -1, /) -> int:
        return 1


def draw_one_epoch(patched: pytest.MonkeyPatch) -> None:
    """Let every write of every store in this process draw epoch 1, until the patch is undone."""
    patched.setattr(log_semantics, "_epoch_pool", _Ones())
