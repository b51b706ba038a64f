"""Turn errors of the SQLite driver into errors of the store.

Each error says whether anything was written and what to do; none shows stored content.
"""

from __future__ import annotations

from turnfold.errors import StoreError, StoreUnavailable, UnsafeStore

__all__ = (
    "DAMAGE",
    "caller_error",
    "damage_error",
    "interrupted_error",
    "read_error",
    "write_error",
)


DAMAGE = (UnicodeDecodeError, OverflowError)
"""Errors of the driver if a file is damaged: text that is not UTF-8, or a number that is too large for a key."""


_OTHER_SCHEMA = (
    "no such column", "no such table", "has no column named", "NOT NULL constraint failed",
)  # fmt: skip
"""Parts of SQLite's messages if a statement does not fit the tables, because another release changed them."""


def _schema_error(error: BaseException) -> UnsafeStore | None:
    """Return the error for a file whose tables another release changed while it was open; None for other errors."""
    if not any(words in str(error) for words in _OTHER_SCHEMA):
        return None
    return UnsafeStore(
        f"nothing was written: the file's tables are not those of this release ({error}). Another release has upgraded "
        "it since it was opened: restart this process with the newest turnfold"
    )


def read_error(error: BaseException) -> StoreError:
    """Return the store error to raise for a read transaction that failed with a driver's error."""
    reason = f"nothing was read: {type(error).__name__}: {error}"
    return _schema_error(error) or StoreUnavailable(reason)


def write_error(error: BaseException, *, committing: bool) -> StoreError:
    """Return the store error to raise for a failed write transaction; with `committing`, it may have been committed."""
    if other := _schema_error(error):
        return other
    reason = f"{type(error).__name__}: {error}"
    if not committing:
        return StoreUnavailable(f"nothing was written: {reason}")
    # A commit that fails while it syncs may be complete in the log, and reappear when the file is next opened.
    return StoreUnavailable(
        f"the commit failed ({reason}), and whether it reached the disk is unknown: it was applied as a whole or not "
        "at all. Retry, an append with the same client ids"
    )


def interrupted_error() -> StoreUnavailable:
    """Return the error for a write that an interrupt rolled back and that is not retried."""
    return StoreUnavailable(
        "nothing was written: the writing thread was interrupted (Ctrl-C, or an exception of a signal handler); retry"
    )


def damage_error(error: Exception) -> StoreError:
    """Return the error for stored data that turnfold cannot have written, so the file is damaged."""
    # Without the text of the error: that of a decoder shows the bytes.
    return StoreError(
        f"the file is damaged: it contains data that turnfold never writes ({type(error).__name__}): restore it from a "
        "backup"
    )


def caller_error(error: Exception) -> Exception:
    """Return the error to raise from a failed write job: its own error, or a store error in place of the driver's."""
    if isinstance(error, DAMAGE):
        return damage_error(error)
    is_callers = isinstance(error, StoreError | ValueError | LookupError)
    return error if is_callers else write_error(error, committing=False)
