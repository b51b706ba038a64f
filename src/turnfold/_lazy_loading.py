"""Lazy loading: imports the names of a package, and compiles regular expressions, when they are first used."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # not imported from `typing`, which takes longer to load than all the rest
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping

__all__ = (
    "late_names",
    "late_pattern",
)


def late_names(
    package: str, homes: Mapping[str, str], advice: Mapping[str, str] | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package; `homes` maps modules to the names they define.

    `advice` has what to use in place of names of other libraries, by name.

    Subpackages are attributes too: `import turnfold; turnfold.wire.anthropic` works without another import.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    module = import_module(package)

    def get(name: str) -> object:
        home = home_of.get(name)
        if home is not None:
            value: object = getattr(import_module(home), name)
        elif not name.startswith("_") and _is_module(f"{package}.{name}"):
            return import_module(f"{package}.{name}")  # also sets the attribute of the package
        elif advice and name in advice:
            # Python would replace the text of an AttributeError.
            raise ImportError(f"cannot import name {name!r} from {package}: {advice[name]}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(module, name, value)
        return value

    def names() -> list[str]:
        version = ("__version__",) if hasattr(module, "__version__") else ()
        return sorted({*module.__all__, *home_of, *version})

    return get, names


def _is_module(name: str) -> bool:
    from importlib.util import find_spec  # loaded only for a package that was not imported

    return find_spec(name) is not None


class _LatePattern:
    """A regular expression that is compiled when one of its methods is first used."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        import re  # compiling a pattern is most of the time it takes to load many modules

        compiled = re.compile(self.pattern, self._flags)
        for each in ("findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"):
            setattr(self, each, getattr(compiled, each))
        return getattr(compiled, name)


def late_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression that is compiled when one of its methods is first used."""
    return _LatePattern(pattern, flags)  # pyright: ignore[reportReturnType] (it has all methods of a pattern)
