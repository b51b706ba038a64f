"""How large the large tests are: in the default run (`make test`), and in the slow one (`make test-slow`).

A default is small, but large enough that the sabotages of its test are found; the slow size is the same test marked
slow. A property of Hypothesis names the examples of a usual run: the default profile tries 18 % of them, and the
slow run, with the profile `thorough`, ten times as many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings

__all__ = (
    "AGENT_KILLS",
    "ANY_TEXT",
    "BACKUPS",
    "CONTEXT_BLOCKS",
    "CROWDED_ORDERS",
    "DAMAGED_EXPORTS",
    "DAMAGED_FILES",
    "EXPIRIES",
    "FOLD_FAULTS",
    "FORGED_EXPORTS",
    "IMPORT_KILLS",
    "IMPORT_KILLS_AT_ANY_TIME",
    "LOST_POSTGRES_ANSWERS",
    "LOST_POSTGRES_ANSWERS_CACHED",
    "LOST_SQLITE_ANSWERS",
    "MUTATED_BODIES",
    "POSTGRES_APPENDS",
    "POSTGRES_APPENDS_CACHED",
    "POSTGRES_EXPIRIES",
    "POSTGRES_KILLS",
    "POSTGRES_ROUND_TRIPS",
    "POWER_LOSSES",
    "PROFILES",
    "RANDOM_ORDERS",
    "REBUILT_LOGS",
    "REDIS_CALLS",
    "ROUND_TRIPS",
    "RULE_FLOODS",
    "SCHEDULES",
    "SEARCHES",
    "SERVICE_REQUESTS",
    "SNAPSHOT_KILLS",
    "SQLITE_APPENDS",
    "SQLITE_KILLS",
    "TOOL_TURNS",
    "Size",
    "examples",
)


@dataclass(frozen=True)
class Size:
    """Two sizes of one test: a small one for every run, a large one for the slow run."""

    default: int
    slow: int
    minutes: int = 15
    """Time limit of the slow one."""

    def values(self) -> list[Any]:
        """Return the values of a parameter; the second is marked slow."""
        marks = (pytest.mark.slow, pytest.mark.timeout(60 * self.minutes))
        return [
            pytest.param(self.default, id=f"{self.default:,}"),
            pytest.param(self.slow, id=f"{self.slow:,}", marks=marks),
        ]


# Processes, servers and machines that end at any moment.
SQLITE_KILLS = Size(25, 1_000)
POSTGRES_KILLS = Size(9, 200)
IMPORT_KILLS = Size(2, 300, minutes=30)
IMPORT_KILLS_AT_ANY_TIME = Size(3, 300, minutes=30)
SNAPSHOT_KILLS = Size(3, 60)
AGENT_KILLS = Size(3, 100, minutes=30)
POWER_LOSSES = Size(1_000, 20_000)
BACKUPS = Size(1, 25, minutes=30)

# Writers that work at once, and answers that are lost on the way.
SQLITE_APPENDS = Size(15, 500)
POSTGRES_APPENDS = Size(3, 500, minutes=60)
POSTGRES_APPENDS_CACHED = Size(3, 500, minutes=60)
LOST_SQLITE_ANSWERS = Size(300, 7_000)
LOST_POSTGRES_ANSWERS = Size(60, 1_000)
LOST_POSTGRES_ANSWERS_CACHED = Size(40, 1_000)
RANDOM_ORDERS = Size(300, 50_000, minutes=30)
CROWDED_ORDERS = Size(5, 1_000, minutes=30)

# Caches that forget, fail or lie.
REDIS_CALLS = Size(250, 10_000)
EXPIRIES = Size(600, 94_000, minutes=30)
POSTGRES_EXPIRIES = Size(120, 6_000, minutes=30)

# Data that is moved, damaged or hostile.
ROUND_TRIPS = Size(300, 100_000, minutes=60)
POSTGRES_ROUND_TRIPS = Size(25, 5_000, minutes=30)
DAMAGED_EXPORTS = Size(400, 100_000, minutes=60)
FORGED_EXPORTS = Size(1_000, 300_000, minutes=60)
DAMAGED_FILES = Size(200, 10_000)
MUTATED_BODIES = Size(20_000, 1_000_000)
ANY_TEXT = Size(15, 1_000)
SEARCHES = Size(25, 3_000)
SERVICE_REQUESTS = Size(2, 100, minutes=30)

# Contexts and folds.
CONTEXT_BLOCKS = Size(6, 200)
"""Blocks of replayed conversations: 125 in each by default, 1,000 in the slow run."""
SCHEDULES = Size(500, 1_000_000, minutes=600)
REBUILT_LOGS = Size(12, 60)
"""For each strategy."""
TOOL_TURNS = Size(3, 10)
"""Turns of five rounds of tool calls, with each provider."""
RULE_FLOODS = Size(6, 30)
"""Messages of 30 made-up rules each; a ledger compares each rule with all before it."""
FOLD_FAULTS = Size(4, 500, minutes=60)
"""For each of seven faults and three modes: 10,500 in the slow run."""

PROFILES = {"turnfold": 18, "sabotage": 100, "thorough": 1_000}
"""Examples of a property that names no number, by profile."""


def examples(number: int) -> settings:
    """Return the settings of a property whose usual number of examples is `number`."""
    share = PROFILES.get(settings.get_current_profile_name(), 100) / 100
    return settings(max_examples=max(5, round(number * share)))
