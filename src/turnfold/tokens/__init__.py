"""Count the tokens of texts, messages, media and tool schemas; tables of models (counter, context window) and prices.

A count is exact if the model's vocabulary is public; otherwise it is an estimate, which `Calibration` corrects by the
usage that the provider reports.
"""

from __future__ import annotations

from turnfold.tokens.calibration import (
    Calibration,
    CalibrationLog,
    ScaledCounter,
    calibrated,
    can_correct,
    corrected_counter,
    correction_of,
)
from turnfold.tokens.certainty import Certainty, Count, TextCounter, weakest
from turnfold.tokens.counter import (
    Framing,
    TokenCounter,
    UpperBoundCounter,
    cautious_counter,
    formula_message_tokens,
    shutdown_token_executor,
    token_executor,
)
from turnfold.tokens.estimate import TextEstimator, estimate_text, formula_tokens
from turnfold.tokens.estimate_profile import (
    CL100K_LIKE,
    ENVELOPE,
    MODERN,
    SINGLE_DIGITS,
    EstimateProfile,
)
from turnfold.tokens.media import ImageRule, audio_tokens, file_tokens, table_tokens
from turnfold.tokens.model_driver_counter import CacheStats, CountCache, DriverCounter, ModelDriver
from turnfold.tokens.model_table import (
    ModelInfo,
    context_window_for,
    counter_for,
    counter_named,
    find_model,
    register_model,
)
from turnfold.tokens.prices import (
    CacheRule,
    Charge,
    Price,
    PriceTable,
    load_prices,
    shipped_prices,
)
from turnfold.tokens.tokenizer import ENCODINGS, Encoding, count_without_lock

__all__ = (
    "CL100K_LIKE",
    "ENCODINGS",
    "ENVELOPE",
    "MODERN",
    "SINGLE_DIGITS",
    "CacheRule",
    "CacheStats",
    "Calibration",
    "CalibrationLog",
    "Certainty",
    "Charge",
    "Count",
    "CountCache",
    "DriverCounter",
    "Encoding",
    "EstimateProfile",
    "Framing",
    "ImageRule",
    "ModelDriver",
    "ModelInfo",
    "Price",
    "PriceTable",
    "ScaledCounter",
    "TextCounter",
    "TextEstimator",
    "TokenCounter",
    "UpperBoundCounter",
    "audio_tokens",
    "calibrated",
    "can_correct",
    "cautious_counter",
    "context_window_for",
    "corrected_counter",
    "correction_of",
    "count_without_lock",
    "counter_for",
    "counter_named",
    "estimate_text",
    "file_tokens",
    "find_model",
    "formula_message_tokens",
    "formula_tokens",
    "load_prices",
    "register_model",
    "shipped_prices",
    "shutdown_token_executor",
    "table_tokens",
    "token_executor",
    "weakest",
)
