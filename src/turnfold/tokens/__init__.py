"""WHAT IT COSTS: exact, estimated, calibrated and cached counts; media; the model table."""

from __future__ import annotations

from turnfold.tokens.cache import CacheStats, CountCache
from turnfold.tokens.calibration import Calibration, Corrected, ScaledCounter, calibrated
from turnfold.tokens.cautious import CautiousText, cautious_counter, formula_message_tokens
from turnfold.tokens.clip import clip, clip_end, count_upto
from turnfold.tokens.counter import TokenCounter
from turnfold.tokens.counts import Certainty, Count, TextCounter, weakest
from turnfold.tokens.driver import DriverCounter, ModelDriver
from turnfold.tokens.encodings import ENCODINGS, Encoding
from turnfold.tokens.estimate import TextEstimator, estimate_text, formula_tokens
from turnfold.tokens.estimate_profile import (
    CL100K_LIKE,
    ENVELOPE,
    MODERN,
    SINGLE_DIGITS,
    EstimateProfile,
)
from turnfold.tokens.executor import shutdown_token_executor, token_executor
from turnfold.tokens.framing import Framing
from turnfold.tokens.media import ImageRule, audio_tokens, file_tokens, table_tokens
from turnfold.tokens.models import (
    ModelInfo,
    context_window_for,
    counter_for,
    counter_named,
    find_model,
    register_model,
)
from turnfold.tokens.normal_forms import normal_form

__all__ = (
    "CL100K_LIKE",
    "ENCODINGS",
    "ENVELOPE",
    "MODERN",
    "SINGLE_DIGITS",
    "CacheStats",
    "Calibration",
    "CautiousText",
    "Certainty",
    "Corrected",
    "Count",
    "CountCache",
    "DriverCounter",
    "Encoding",
    "EstimateProfile",
    "Framing",
    "ImageRule",
    "ModelDriver",
    "ModelInfo",
    "ScaledCounter",
    "TextCounter",
    "TextEstimator",
    "TokenCounter",
    "audio_tokens",
    "calibrated",
    "cautious_counter",
    "clip",
    "clip_end",
    "context_window_for",
    "count_upto",
    "counter_for",
    "counter_named",
    "estimate_text",
    "file_tokens",
    "find_model",
    "formula_message_tokens",
    "formula_tokens",
    "normal_form",
    "register_model",
    "shutdown_token_executor",
    "table_tokens",
    "token_executor",
    "weakest",
)
