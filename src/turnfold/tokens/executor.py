"""The process-wide pool that counts large batches off the event loop.

Made on first use, so importing turnfold starts no thread; `shutdown_token_executor()` stops it, and the next batch
starts a new one, so a test's teardown cannot break the test after it.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

__all__ = ("shutdown_token_executor", "token_executor")

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def token_executor() -> ThreadPoolExecutor:
    """The pool, started if it is not running."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(
                max_workers=min(4, os.cpu_count() or 1), thread_name_prefix="turnfold-tokens"
            )
        return _pool


def shutdown_token_executor(*, wait: bool = True) -> None:
    """Stop the counting threads. Counting afterwards is allowed and starts them again."""
    global _pool
    with _lock:
        pool, _pool = _pool, None
    if pool is not None:
        pool.shutdown(wait=wait)


def _forget_pool() -> None:
    """Threads do not survive a fork: without this, a forked worker would wait for them for ever."""
    global _lock, _pool
    _lock, _pool = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
