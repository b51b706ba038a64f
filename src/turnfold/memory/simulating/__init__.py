"""What another budget or another strategy would have cost: a history run again, without a model."""

from __future__ import annotations

from turnfold.memory.simulating.run import simulate
from turnfold.memory.simulating.simulation import Cost, SimulatedCall, Simulation
from turnfold.memory.simulating.strategy_names import STRATEGY_NAMES, Plan, plan_for

__all__ = (
    "STRATEGY_NAMES",
    "Cost",
    "Plan",
    "SimulatedCall",
    "Simulation",
    "plan_for",
    "simulate",
)
