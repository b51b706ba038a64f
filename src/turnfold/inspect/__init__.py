"""Read-only tools for contexts and calls: views, comparison of calls, token costs, audit and simulation."""

from __future__ import annotations

from turnfold._lazy_loading import late_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnfold.inspect.auditor import AuditFault, AuditRule, audit
    from turnfold.inspect.chinese_reasons import REASONS, translate_reason
    from turnfold.inspect.diff import CallDiff, FirstDifference, diff_calls
    from turnfold.inspect.simulation import (
        STRATEGY_NAMES,
        Cost,
        FoldCost,
        FoldPrompt,
        FoldRecorder,
        SimulatedCall,
        SimulatedFold,
        Simulation,
        SimulationPlan,
        plan_for,
        simulate,
    )
    from turnfold.inspect.token_totals import (
        CallCost,
        CostRow,
        EntryCost,
        LogCosts,
        call_cost,
        conversation_costs,
        known_price,
    )
    from turnfold.inspect.views import (
        FIDELITY_MEANING,
        CacheState,
        CallPoint,
        CallView,
        ContextView,
        LeftOut,
        LeftOutRule,
        SentItem,
        call_numbers,
        call_point,
        call_text,
        call_view,
        context_view,
        excerpt,
        fidelity_of_all,
        left_out,
        recent_calls,
        sent_items,
        session_title,
        shown_text,
        with_tail_parts,
    )

__all__ = (
    "FIDELITY_MEANING",
    "REASONS",
    "STRATEGY_NAMES",
    "AuditFault",
    "AuditRule",
    "CacheState",
    "CallCost",
    "CallDiff",
    "CallPoint",
    "CallView",
    "ContextView",
    "Cost",
    "CostRow",
    "EntryCost",
    "FirstDifference",
    "FoldCost",
    "FoldPrompt",
    "FoldRecorder",
    "LeftOut",
    "LeftOutRule",
    "LogCosts",
    "SentItem",
    "SimulatedCall",
    "SimulatedFold",
    "Simulation",
    "SimulationPlan",
    "audit",
    "call_cost",
    "call_numbers",
    "call_point",
    "call_text",
    "call_view",
    "context_view",
    "conversation_costs",
    "diff_calls",
    "excerpt",
    "fidelity_of_all",
    "known_price",
    "left_out",
    "plan_for",
    "recent_calls",
    "sent_items",
    "session_title",
    "shown_text",
    "simulate",
    "translate_reason",
    "with_tail_parts",
)

_HOMES = {
    "turnfold.inspect.auditor": "AuditFault AuditRule audit",
    "turnfold.inspect.token_totals": "CallCost CostRow EntryCost LogCosts call_cost conversation_costs "
    "known_price",
    "turnfold.inspect.diff": "CallDiff FirstDifference diff_calls",
    "turnfold.inspect.chinese_reasons": "REASONS translate_reason",
    "turnfold.inspect.simulation": "Cost FoldCost FoldPrompt FoldRecorder STRATEGY_NAMES SimulatedCall SimulatedFold "
    "Simulation SimulationPlan plan_for simulate",
    "turnfold.inspect.views": "CacheState CallPoint CallView ContextView LeftOut LeftOutRule SentItem call_numbers "
    "call_point call_text call_view context_view excerpt FIDELITY_MEANING fidelity_of_all left_out recent_calls "
    "sent_items session_title shown_text with_tail_parts",
}

__getattr__, __dir__ = late_names(__name__, _HOMES)
