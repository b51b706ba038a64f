"""The API reference, read from the source without running it: no optional package has to be installed for its page.

Each public name of a folder is shown as it is written there: signature, docstring, public methods, fields. What the
folders export is their `__all__`; where a name is defined is found by following the imports.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc

from tools.docs_pages import ROOT

__all__ = ("FOLDERS", "OVERVIEW", "Defined", "exported", "find", "overview_page", "reference_page")

SOURCE = ROOT / "src"
FOLDERS = (
    "records",
    "text",
    "tokens",
    "budget",
    "window",
    "fold",
    "rules",
    "search",
    "wire",
    "models",
    "stores",
    "memory",
    "findings",
    "workspace_snapshots",
    "memories",
    "inspect",
    "evaluation",
    "importers",
    "telemetry",
    "agent",
    "api",
    "service",
    "proxy",
    "client",
    "testing",
    "errors",
)
"""In the order of the sentence that is the tree."""
OVERVIEW = ROOT / "docs" / "api.md"
"""The public names on one page, for reading on a code host."""
_OVERVIEW_NOTE = (
    "Written from the source by `python -m tools.docs_reference`; a test compares it. The classes that programs hold "
    "come first, with their methods; then the other names, by package. A class `AsyncX` has the methods of `X`, "
    "awaited."
)
_WIDTH = 88

type_of_function = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Defined:
    """Where a public name is defined, and how."""

    name: str
    module: str
    node: ast.stmt


@cache
def module_tree(module: str) -> ast.Module | None:
    """The syntax tree of a module of the project; None for any other name."""
    path = SOURCE.joinpath(*module.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return ast.parse(candidate.read_text(encoding="utf-8"))
    return None


def exported(module: str) -> tuple[str, ...]:
    """The public names of a module: those of its `__all__`, and those it imports from its packages `as` themselves."""
    tree = module_tree(module)
    names: list[str] = []
    for node in _statements(tree.body) if tree else ():
        if isinstance(node, ast.Assign) and _names(node) == ["__all__"]:
            names += ast.literal_eval(node.value)
        elif isinstance(node, ast.ImportFrom) and node.module != module:
            names += [alias.name for alias in node.names if alias.asname == alias.name]
    return tuple(
        sorted(set(names), key=lambda each: (not each.isupper(), not each[0].isupper(), each))
    )


def find(module: str, name: str) -> Defined | None:
    """The definition of a name, wherever the imports of the module lead."""
    tree = module_tree(module)
    for node in _statements(tree.body) if tree else ():
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name == name:
                return Defined(name, module, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            if name in _names(node):
                return Defined(name, module, node)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    deeper = None if node.module == module else find(node.module, alias.name)
                    return deeper or _module(node.module, alias.name)
    return _module(module, name)


def _module(parent: str, name: str) -> Defined | None:
    tree = module_tree(f"{parent}.{name}")
    text = ast.get_docstring(tree) if tree else None
    return None if text is None else Defined(name, parent, ast.Expr(ast.Constant(text)))


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If):  # TYPE_CHECKING: what a lazy package says it has
            yield from node.body


def _names(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def reference_page(folder: str, *, heading: str, note: str) -> str:
    """The page of one folder, in Markdown."""
    module = f"turnfold.{folder}"
    tree = module_tree(module)
    about = (ast.get_docstring(tree) or "") if tree else ""
    parts = [f"# {heading}", note, cleandoc(about)]
    for name in sorted(exported(module), key=lambda each: (each.isupper(), each.lower())):
        found = find(module, name)
        if found is not None:
            parts.append(_entry(found, module))
    return "\n\n".join(part for part in parts if part) + "\n"


def overview_page() -> str:
    """All public names with their signatures and first sentences; the classes of `turnfold` itself with methods."""
    top = exported("turnfold")
    parts = [
        "# Public names",
        _OVERVIEW_NOTE,
        "## turnfold",
    ]
    for name in top:
        found = find("turnfold", name)
        if found is None or (name.startswith("Async") and name.removeprefix("Async") in top):
            continue
        parts.append("\n".join(_overview_lines(found, methods=True)))
    for folder in FOLDERS:
        module = f"turnfold.{folder}"
        names = sorted(
            set(exported(module)) - set(top), key=lambda each: (each.isupper(), each.lower(), each)
        )
        lines = [
            line for name in names if (at := find(module, name)) for line in _overview_lines(at)
        ]
        parts += [f"## {module}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _overview_lines(found: Defined, *, methods: bool = False) -> Iterator[str]:
    node = found.node
    if isinstance(node, ast.ClassDef):
        yield _overview_line(_class_head(node), _docstring(node))
        for item in node.body if methods else ():
            if isinstance(item, type_of_function) and not item.name.startswith("_"):
                yield f"  {_overview_line(_signature(item, item.name), _docstring(item))}"
    elif isinstance(node, type_of_function):
        yield _overview_line(_signature(node, node.name), _docstring(node))
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        yield _overview_line(_short(ast.unparse(node)), "")
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield _overview_line(found.name, str(node.value.value))


def _overview_line(signature: str, text: str) -> str:
    flat = " ".join(signature.split()).replace("( ", "(").replace(", )", ")")
    sentence = " ".join(text.partition("\n\n")[0].split())
    return f"- `{flat}`" + (f": {sentence}" if sentence else "")


def _entry(found: Defined, module: str) -> str:
    node = found.node
    where = f"`from {module} import {found.name}` · `{_file(found.module)}`"
    parts = [f"## {found.name}"]
    if isinstance(node, ast.ClassDef):
        parts += [
            where,
            _code(_class_head(node)),
            _docstring(node),
            *_fields(node),
            *_methods(node),
        ]
    elif isinstance(node, type_of_function):
        parts += [where, _code(_signature(node, node.name)), _docstring(node)]
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        parts += [where, _code(_short(ast.unparse(node)))]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        parts += [f"`{found.module}.{found.name}`", cleandoc(str(node.value.value))]
    return "\n\n".join(part for part in parts if part)


def _class_head(node: ast.ClassDef) -> str:
    for item in node.body:
        if isinstance(item, type_of_function) and item.name == "__init__":
            return _signature(item, node.name)
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    return f"class {node.name}({bases})" if bases else f"class {node.name}"


def _fields(node: ast.ClassDef) -> list[str]:
    """The annotated fields of a record with what is said of each, the members of an enumeration."""
    rows: list[str] = []
    for at, item in enumerate(node.body):
        if isinstance(item, ast.AnnAssign | ast.Assign) and _public(_names(item)):
            said = _said_after(node.body, at)
            rows.append(f"- `{_short(ast.unparse(item))}`" + (f": {said}" if said else ""))
    return ["\n".join(rows)] if rows else []


def _public(names: list[str]) -> bool:
    return any(not name.startswith("_") for name in names)


def _said_after(body: list[ast.stmt], at: int) -> str:
    after = body[at + 1] if at + 1 < len(body) else None
    if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
        return " ".join(str(after.value.value).split())
    return ""


def _methods(node: ast.ClassDef) -> list[str]:
    parts: list[str] = []
    for item in node.body:
        if isinstance(item, type_of_function) and not item.name.startswith("_"):
            said = _docstring(item)
            parts += [f"### {node.name}.{item.name}", _code(_signature(item, item.name)), said]
    return parts


def _signature(node: Function, name: str) -> str:
    arguments = ast.unparse(node.args)
    for owner in ("self", "cls"):
        if arguments == owner or arguments.startswith(f"{owner}, "):
            arguments = arguments[len(owner) :].removeprefix(", ")
    if _decorated(node, "property"):
        return f"{name}: {ast.unparse(node.returns) if node.returns else ''}"
    head = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    answer = f" -> {ast.unparse(node.returns)}" if node.returns and name == node.name else ""
    line = f"{head}{name}({arguments}){answer}"
    if len(line) <= _WIDTH:
        return line
    inner = "".join(f"    {one},\n" for one in _arguments(node))
    return f"{head}{name}(\n{inner}){answer}"


def _arguments(node: Function) -> list[str]:
    """The arguments one by one, by unparsing them alone."""
    spec = node.args
    positional = [*spec.posonlyargs, *spec.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(spec.defaults))
    shown = [
        _one(arg, value) for arg, value in zip(positional, [*defaults, *spec.defaults], strict=True)
    ]
    if spec.vararg:
        shown.append(f"*{ast.unparse(spec.vararg)}")
    elif spec.kwonlyargs:
        shown.append("*")
    shown += [
        _one(arg, value) for arg, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
    ]
    if spec.kwarg:
        shown.append(f"**{ast.unparse(spec.kwarg)}")
    return [one for one in shown if one not in {"self", "cls"}]


def _one(argument: ast.arg, default: ast.expr | None) -> str:
    text = ast.unparse(argument)
    return text if default is None else f"{text} = {ast.unparse(default)}"


def _decorated(node: Function, name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in node.decorator_list)


def _docstring(node: ast.ClassDef | Function) -> str:
    return ast.get_docstring(node) or ""


def _code(text: str) -> str:
    return f"```py\n{text}\n```"


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 160 else f"{flat[:157]}..."


def _file(module: str) -> str:
    path = SOURCE.joinpath(*module.split("."))
    found = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    return found.relative_to(ROOT).as_posix()


if __name__ == "__main__":
    OVERVIEW.write_text(overview_page(), encoding="utf-8")
