"""What callers are told when SQLite fails: whether anything was written, and what to do; never what the bytes say."""

from __future__ import annotations

from turnfold.errors import StoreError, StoreUnavailable, UnsafeStore

__all__ = ("DAMAGE", "damaged", "interrupted", "known", "unread", "unwritten")

DAMAGE = (UnicodeDecodeError, OverflowError)
"""What the driver makes of text that is not UTF-8, and of a key that leaves no room for a seq."""


_OTHER_SCHEMA = (
    "no such column", "no such table", "has no column named", "NOT NULL constraint failed",
)  # fmt: skip
"""What SQLite says to statements that were made for other tables."""


def _other_schema(error: BaseException) -> UnsafeStore | None:
    """What a caller is told whose file got another schema while it was open; None for any other error."""
    if not any(words in str(error) for words in _OTHER_SCHEMA):
        return None
    return UnsafeStore(
        f"nothing was written: the file's tables are not those of this release ({error}). Another release has upgraded "
        "it since it was opened: restart this process with the newest turnfold"
    )


def unread(error: BaseException) -> StoreError:
    """What a reader is told whose transaction failed."""
    reason = f"nothing was read: {type(error).__name__}: {error}"
    return _other_schema(error) or StoreUnavailable(reason)


def unwritten(error: BaseException, *, committing: bool) -> StoreError:
    """What a writer is told whose transaction failed."""
    if other := _other_schema(error):
        return other
    reason = f"{type(error).__name__}: {error}"
    if not committing:
        return StoreUnavailable(f"nothing was written: {reason}")
    # A commit that fails while it syncs may already be whole in the log, and come back when the file is next opened.
    return StoreUnavailable(
        f"the commit failed ({reason}), and whether it reached the disk is unknown: what was asked was done whole or "
        "not at all; ask again, an append with the same client ids"
    )


def interrupted() -> StoreUnavailable:
    """What a writer is told whose job was undone by somebody's interrupt and is not begun again."""
    return StoreUnavailable(
        "nothing was written: the thread that wrote it was interrupted (Ctrl-C, a signal's exception); ask again"
    )


def damaged(error: Exception) -> StoreError:
    """What a reader is told who found what no store writes."""
    # Without the text of the error: a decoder's shows the bytes.
    return StoreError(
        f"the file holds what no store wrote there ({type(error).__name__}): restore it from a backup"
    )


def known(error: Exception) -> Exception:
    """The error of one job as its caller should see it."""
    if isinstance(error, DAMAGE):
        return damaged(error)
    return (
        error
        if isinstance(error, StoreError | ValueError | LookupError)
        else unwritten(error, committing=False)
    )
