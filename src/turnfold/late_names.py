"""Names that load their module when they are first used.

A program that uses one part of a package should not pay for the others, nor need what they need. Every package that
exports this way says only where each of its names lives; the rest is here, once.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as in turnfold itself: typing costs more than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ("late_names",)


def late_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose names, by the module they live in, are in `homes`."""
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    module = import_module(package)

    def get(name: str) -> object:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(home), name)
        setattr(module, name, value)
        return value

    def names() -> list[str]:
        version = ("__version__",) if hasattr(module, "__version__") else ()
        return sorted((*module.__all__, *version))

    return get, names
