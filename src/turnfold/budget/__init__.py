"""WHAT MAY BE SPENT: window, reserve, named shares and water marks."""

from __future__ import annotations

from turnfold.budget.budget import Budget, Shares, WaterMarks

__all__ = ("Budget", "Shares", "WaterMarks")
