"""`ProxyOptions`: the options of a proxy, and the budget of each model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from turnfold.budget import Budget
from turnfold.errors import InvalidOption
from turnfold.redaction import Redactor
from turnfold.service import Limits
from turnfold.stores import EncryptionKey
from turnfold.tokens import context_window_for

__all__ = ("ProxyOptions",)


def _limits() -> Limits:
    # More requests at once than in a service, because each of them waits for a model.
    return Limits(body=64 << 20, concurrent=256)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyOptions:
    """Options of `turnfold proxy`: provider, store, budgets, access, time limits."""

    upstream: str
    """Address of the provider, without the path of an interface: `https://api.anthropic.com`."""
    store: str = "sqlite://"
    """Address of the store that keeps the conversations; the default keeps them in memory."""
    encryption_key: EncryptionKey | Sequence[EncryptionKey] | None = field(
        default=None, repr=False, kw_only=True
    )
    """Key that encrypts all content before it reaches the store."""
    redact: Redactor | None = None
    """Replaces secrets and personal data with labels before anything is stored; the provider gets them as sent."""
    budget: int = 0
    """Tokens that a request may have; 0 for three quarters of the model's context window."""
    model_budgets: Mapping[str, int] = field(default_factory=dict[str, int])
    """Beginning of a model's name -> budget in tokens; of several beginnings that match, the longest counts."""
    time_zone: str = "UTC"
    """IANA name of the time zone of the times in prompts."""
    session: str = ""
    """Session of requests that name none; if empty, such requests are passed through unchanged."""
    host: str = "127.0.0.1"
    port: int = 8789
    tokens_file: Path | None = None
    """File of access tokens, sent in the header X-Turnfold-Token; required for other than loopback addresses."""
    tenant: str = "default"
    """Tenant of all requests if there is no tokens file."""
    allow_hosts: tuple[str, ...] = ()
    """Further host names that the Host header of a request may have."""
    limits: Limits = field(default_factory=_limits)
    connect_seconds: float = 10.0
    """Seconds within which the provider must accept a connection."""
    read_seconds: float = 600.0
    """Seconds without any data from the provider after which a request fails."""
    drain: float = 60.0
    """Seconds that running requests get to finish at shutdown."""

    def __post_init__(self) -> None:
        for name in ("connect_seconds", "read_seconds"):
            if not getattr(self, name) > 0:
                raise InvalidOption(f"{name}={getattr(self, name)} must be more than 0 seconds")
        if self.drain < 0:
            raise InvalidOption(f"drain={self.drain} must not be negative: give 0 or more seconds")
        for tokens in (self.budget, *self.model_budgets.values()):
            if tokens < 0:
                raise InvalidOption(
                    f"a budget of {tokens} tokens is not possible: give 1 or more, or 0 for three quarters of the "
                    "context window"
                )

    def budget_of(self, model: str) -> Budget:
        """Return the budget of a model.

        Raises `UnknownModel` if no budget is set and its context window is not known.
        """
        named = [name for name in self.model_budgets if model.startswith(name)]
        tokens = self.model_budgets[max(named, key=len)] if named else self.budget
        if tokens:
            return Budget(max_tokens=tokens)
        return Budget(context_window=context_window_for(model))
