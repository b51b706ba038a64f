"""One door to the four sets of rules, so that a caller names its provider and nothing else."""

from __future__ import annotations

from turnfold.wire.lint_anthropic import lint_anthropic
from turnfold.wire.lint_gemini import lint_gemini
from turnfold.wire.lint_openai_chat import lint_openai_chat
from turnfold.wire.lint_openai_responses import lint_openai_responses
from turnfold.wire.rules import Fault, Faults, opened

__all__ = ("lint",)

_LINTS = {
    "anthropic": lint_anthropic,
    "gemini": lint_gemini,
    "openai_chat": lint_openai_chat,
    "openai_responses": lint_openai_responses,
}


def lint(payload: object, provider: str) -> tuple[Fault, ...]:
    """Every rule of `provider` that the payload breaks: the arguments of a call, or its list of messages alone.

    Nothing found means nothing known to be refused; what only the provider can judge (a forged signature, a model's
    own limits) is not among the rules.
    """
    listing = opened(payload, provider)
    faults = Faults(provider)
    _LINTS[provider](listing, faults)
    return tuple(faults.found)
