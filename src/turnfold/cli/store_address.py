"""Which store a command speaks of: the one named, TURNFOLD_STORE's, or a file in the user's data folder.

This is the one place that decides it. A command that only looks never makes a store: a mistyped address is told, and
leaves no empty file behind.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote

from turnfold.errors import InvalidOption, NotFound
from turnfold.stores.addresses import divided, may_hold_password, shown_address

__all__ = ("address_of", "default_store", "file_of", "require_there")


def default_store(environment: Mapping[str, str] | None = None, *, make_folder: bool = True) -> str:
    """The address used where none is named."""
    known = os.environ if environment is None else environment
    if known.get("TURNFOLD_STORE"):
        return address_of(known["TURNFOLD_STORE"])
    base = known.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    folder = Path(base) / "turnfold"
    if make_folder:
        folder.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{(folder / 'chat.db').as_posix()}"


def address_of(store: str | None) -> str:
    """The address of a store that may be named by the path of its file."""
    if not store:
        return default_store(make_folder=False)
    if "://" in store:
        return store
    if may_hold_password(store):
        raise InvalidOption(
            "the store is named by what seems to be an address without a scheme: write "
            "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, or sqlite:///PATH for a file of such a name"
        )
    return f"sqlite:///{quote(Path(store).as_posix())}"


def file_of(address: str) -> Path | None:
    """The SQLite file behind an address; None for any other store, and for one in memory."""
    parts = divided(address)
    if parts.scheme.lower() != "sqlite" or parts.authority or len(parts.path) < 2:
        return None
    return Path(unquote(parts.path[1:]))


def require_there(address: str) -> None:
    """Refuse a SQLite file that does not exist: opening it would make it."""
    path = file_of(address)
    if path is not None and not path.exists():
        raise NotFound(
            f"there is no store at {shown_address(str(path))}. Name one with --store or TURNFOLD_STORE; "
            "`turnfold chat` and `turnfold import` make one"
        )
