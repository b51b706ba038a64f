"""The files the house rules speak about, so that every rule means the same ones."""

from __future__ import annotations

from pathlib import Path

__all__ = ("PACKAGE", "ROOT", "SOURCE", "module_name", "python_files", "shown")

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "turnfold"


def python_files(*folders: Path) -> list[Path]:
    """Every Python file below the folders; finding none would make each rule pass unseen."""
    found = sorted(path for folder in folders for path in folder.rglob("*.py"))
    if not found:
        raise FileNotFoundError(f"no Python file below {', '.join(map(shown, folders))}")
    return found


def module_name(path: Path) -> str:
    """The dotted name under which a file of the package is imported."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def shown(path: Path) -> str:
    """A path as a reader of the test report wants it: from the root of the project."""
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
