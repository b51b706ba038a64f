"""Evaluation of memories without a model: how much of a conversation a call still sends, and what calls cost."""

from __future__ import annotations

from turnfold.evaluation.measures import (
    MeasuredCall,
    call_positions,
    evidence_share,
    recall_scores,
    rules_in,
)
from turnfold.evaluation.peers import (
    Bm25Peer,
    Peer,
    PeerFactory,
    RecencyPeer,
    TurnfoldPeer,
    find_peers,
    peer_names,
)
from turnfold.evaluation.trials import (
    EvalConversation,
    EvalQuestion,
    EvalRule,
    Evaluation,
    EvaluationRow,
    EvaluationTrial,
    FoldPoint,
    evaluate,
    read_set,
    run_trial,
    sample_set,
)

__all__ = (
    "Bm25Peer",
    "EvalConversation",
    "EvalQuestion",
    "EvalRule",
    "Evaluation",
    "EvaluationRow",
    "EvaluationTrial",
    "FoldPoint",
    "MeasuredCall",
    "Peer",
    "PeerFactory",
    "RecencyPeer",
    "TurnfoldPeer",
    "call_positions",
    "evaluate",
    "evidence_share",
    "find_peers",
    "peer_names",
    "read_set",
    "recall_scores",
    "rules_in",
    "run_trial",
    "sample_set",
)
