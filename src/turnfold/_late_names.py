"""Exports that load their module on first use, so that a program pays only for the parts it uses."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as in turnfold itself: typing costs more than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ("late_names",)


def late_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package; `homes` maps modules to the names they define.

    Subpackages are attributes too: `import turnfold; turnfold.wire.anthropic` works without another import.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    module = import_module(package)

    def get(name: str) -> object:
        home = home_of.get(name)
        if home is not None:
            value: object = getattr(import_module(home), name)
        elif not name.startswith("_") and _is_module(f"{package}.{name}"):
            return import_module(f"{package}.{name}")  # which sets the attribute
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(module, name, value)
        return value

    def names() -> list[str]:
        version = ("__version__",) if hasattr(module, "__version__") else ()
        return sorted((*module.__all__, *version))

    return get, names


def _is_module(name: str) -> bool:
    from importlib.util import find_spec  # not needed by a program that names what it imports

    return find_spec(name) is not None
