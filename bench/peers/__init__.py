"""One file per peer. A file whose package is not installed is left out, and the report says so."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from bench.contender import Contender, Held, Reopened, Stored

__all__ = ("absent", "contenders", "held", "imports", "reopened", "stored", "versions")

_ALWAYS = ("apsw", "turnfold", "splintr-rs", "msgspec", "tiktoken")


def contenders() -> list[Contender]:
    """Everybody who builds windows, ours first."""
    return sorted(_offered("CONTENDERS"), key=lambda each: not each.ours)


def held() -> list[Held]:
    """Every way to hold messages, ours first."""
    return sorted(_offered("HELD"), key=lambda each: not each.ours)


def imports() -> list[str]:
    """Statements whose cost in a fresh interpreter is measured, ours first."""
    return sorted(_offered("IMPORTS"), key=lambda each: "turnfold" not in each)


def reopened() -> list[Reopened]:
    """Every store that is opened again after a restart, ours first."""
    return sorted(_offered("REOPENED"), key=lambda each: not each.ours)


def stored() -> list[Stored]:
    """Everybody who builds windows from a store, ours first."""
    return sorted(_offered("STORED"), key=lambda each: not each.ours)


def versions() -> dict[str, str]:
    """The version of every package that takes part."""
    everybody = (*contenders(), *held(), *reopened(), *stored())
    packages = {*_ALWAYS, *(each.package for each in everybody if each.package)}
    return {package: version(package) for package in sorted(packages)}


def absent() -> list[str]:
    """Peers that cannot take part here."""
    return [name for name in _names() if _module(name) is None]


def _names() -> list[str]:
    return [module.name for module in iter_modules(__path__)]


def _module(name: str) -> ModuleType | None:
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in {"bench", "turnfold"}:
            raise
        return None


def _offered(tuple_name: str) -> list[Any]:
    modules = [module for name in _names() if (module := _module(name))]
    return [each for module in modules for each in getattr(module, tuple_name, ())]
