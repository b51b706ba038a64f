"""No statement is built from input: what a database is asked is written in the source, and values are bound to it.

A statement may be joined from parts, if every part is written in the package itself: a literal, a constant of a
module, a choice between such, or a local name or parameter that is only ever given such. What cannot be seen to be so
is listed here, with the reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source_tree import PACKAGE, python_files, shown

RUNNING = {"execute": 0, "executemany": 0, "executescript": 0, "Statement": 0, "scalar": 1}
"""Functions that run a statement, and which of their arguments it is."""
STORES = python_files(PACKAGE)

JUSTIFIED = {
    "importers/histories.table_values": "a table and its columns, named in the module's _TABLES",
    "postgres/transactions.exchange": "passes statements on; each is checked where it is made",
    "postgres/transactions.allow_long": "a constant with a number of milliseconds, which is an option of the store",
    "postgres/transactions.transact": "constants with numbers of milliseconds, which are options of the store",
    "postgres/statements.lock_head": "a statement checked where it is made, with a literal added",
    "postgres/statements.of_conversation": "an action and a table, named by the callers in the package",
    "postgres/schema.migrate": "the steps of MIGRATIONS, which are constants",
    "postgres/search.any_places": "conditions written in SearchQuery._where, which binds every value",
    "postgres/search.best_places": "conditions written in SearchQuery._where, which binds every value",
    "postgres/transfer.capture": "a number of rows, which FETCH cannot bind",
    "sqlite/erasure._erase_rows": "a table and its columns, named in the module's _ROWS",
    "sqlite/file_checks._assert_setting": "a name of _SETTINGS; a PRAGMA binds nothing",
    "sqlite/file_checks._open_once": "names and values of _SETTINGS; a PRAGMA binds nothing",
    "sqlite/search_index.add_rows": "a table of the index, named by its number in _tables",
    "sqlite/search_index._configure": "a table of the index, named by its number in _tables",
    "sqlite/search_index._count": "a table of the index, named by its number in _tables",
    "sqlite/search_index._delete_some": "a table of the index, named by its number in _tables",
    "sqlite/search_index.partly_indexed": "a table of the index, named by its number in _tables",
    "sqlite/search_index._remove_rows": "a table of the index, named by its number in _tables",
    "sqlite/search_index.set_parts_indexed": "a table of the index, named by its number in _tables",
    "sqlite/search_index._start_new_index": "the tables of the index, named by its number in _tables",
    "sqlite/search_index.beside_texts": "conditions written by the callers in the package, whose values are bound",
    "sqlite/search_index.merge_some": "a table of the index, named by its number in _tables",
    "sqlite/search_index.places": "a table of the index, named by its number in _tables",
    "sqlite/search_index.remove_retired": "the tables of the index, named by its number in _tables",
    "sqlite/statements.delete_from": "a table, named by the callers in the package",
    "sqlite/statements.insert_entries": "one literal row of placeholders, repeated",
    "sqlite/statements.scalar": "passes a statement on; each is checked where it is made",
    "sqlite/schema.migrate": "the steps of MIGRATIONS, which are constants",
    "sqlite/search._count_in_span": "a table of the index, named by its number",
    "sqlite/search._entries": "a table of the index, and conditions written there whose values are bound",
    "sqlite/search._stored_count": "a table of the index, named by its number",
    "sqlite/search._texts": "a table of the index, and conditions written there whose values are bound",
}
"""Functions as folder/module.function."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Reader:
    """What can be seen of one module: its constants, its functions, and who calls them with what."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)
        self.functions = [node for node in ast.walk(self.tree) if isinstance(node, Function)]
        self.inside: dict[ast.AST, Function] = {}
        for function in self.functions:  # an inner function comes after the outer one
            self.inside |= dict.fromkeys(ast.walk(function), function)
        self.imported = {
            alias.asname or alias.name.rpartition(".")[2]
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        # Nothing a caller says can be in what a module computes while it is loaded.
        self.constants = {
            target.id
            for node in self.tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }

    def faults(self, module: str) -> list[str]:
        """The statements that cannot be seen to be written in the source."""
        found: list[str] = []
        for function, call in self._calls():
            where = f"{module}.{function.name if function else ''}"
            statement = call.args[RUNNING[_name(call.func)]]
            if where not in JUSTIFIED and not self._written(statement, function, set()):
                found.append(f"{where}: {ast.unparse(statement)[:80]}")
        return found

    def _calls(self) -> Iterator[tuple[Function | None, ast.Call]]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and len(node.args) > RUNNING.get(_name(node.func), 99):
                yield self.inside.get(node), node

    def _written(self, part: ast.expr | None, function: Function | None, seen: set[str]) -> bool:
        """Whether the text of an expression is in the source, wherever it comes from."""
        match part:
            case ast.Constant():
                return True
            case ast.JoinedStr(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
                return all(self._written(each, function, seen) for each in parts)
            case ast.FormattedValue(value=value):
                return self._written(value, function, seen)
            case ast.BinOp(left=one, op=ast.Add(), right=two) | ast.IfExp(body=one, orelse=two):
                return self._written(one, function, seen) and self._written(two, function, seen)
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                return owner in self.imported and name.isupper()
            case ast.Call(func=ast.Name(id=name)):
                return self._returned(name, seen)
            case ast.Name(id=name):
                return self._named(name, function, seen)
            case _:
                return False

    def _named(self, name: str, function: Function | None, seen: set[str]) -> bool:
        mark = f"{function.name if function else ''}.{name}"
        if mark in seen:
            return True  # it is being looked at
        seen.add(mark)
        given: list[tuple[ast.expr | None, Function | None]] = []
        if function is not None:
            given += ((value, function) for value in _assigned(name, function))
            given += self._passed(name, function)
        if given:
            return all(self._written(value, owner, seen) for value, owner in given)
        return name in self.constants or (name in self.imported and name.lstrip("_").isupper())

    def _passed(
        self, name: str, function: Function
    ) -> list[tuple[ast.expr | None, Function | None]]:
        """What the callers give for a parameter, each with its own names; None where that cannot be seen."""
        given = function.args
        order = [each.arg for each in (*given.posonlyargs, *given.args) if each.arg != "self"]
        if name not in (*order, *(each.arg for each in given.kwonlyargs)):
            return []
        if not function.name.startswith("_"):
            return [(None, None)]
        default = dict(zip(reversed(order), reversed(given.defaults), strict=False)).get(name)
        found: list[tuple[ast.expr | None, Function | None]] = []
        for call in ast.walk(self.tree):
            if isinstance(call, ast.Call) and _name(call.func) == function.name:
                named = {word.arg: word.value for word in call.keywords}
                place = order.index(name) if name in order else len(call.args)
                value = call.args[place] if place < len(call.args) else named.get(name, default)
                found.append((value, self.inside.get(call)))
        return found or [(None, None)]

    def _returned(self, name: str, seen: set[str]) -> bool:
        for function in self.functions:
            if function.name == name:
                returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
                return all(self._written(node.value, function, seen) for node in returns)
        return False


def _module(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def _name(expression: ast.expr) -> str:
    match expression:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def _assigned(name: str, function: Function) -> Iterator[ast.expr | None]:
    """What a local name is given; None where that cannot be seen."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=found)], value=value):
                if found == name:
                    yield value
            case ast.AnnAssign(target=ast.Name(id=found), value=value):
                if found == name:
                    yield value
            case (
                ast.For(target=ast.Name(id=found), iter=value)
                | ast.comprehension(target=ast.Name(id=found), iter=value)
            ):
                if found == name:
                    yield value
            case ast.Name(id=found, ctx=ast.Store()) if found == name:
                if not _is_plain_target(node, function):
                    yield None


def _is_plain_target(name: ast.Name, function: Function) -> bool:
    """Whether the cases above have seen this assignment."""
    return any(
        name in (targets if len(targets := _targets(node)) == 1 else [])
        for node in ast.walk(function)
    )


def _targets(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Assign(targets=targets):
            return targets
        case (
            ast.AnnAssign(target=target) | ast.For(target=target) | ast.comprehension(target=target)
        ):
            return [target]
        case _:
            return []


@pytest.mark.parametrize("path", STORES, ids=shown)
def test_statements_are_written_in_the_source(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if any(name in text for name in RUNNING):
        assert list(Reader(text).faults(_module(path))) == []


@pytest.mark.parametrize("where", JUSTIFIED)
def test_no_exception_outlives_its_reason(where: str) -> None:
    module, _, function = where.partition(".")
    [path] = [path for path in STORES if _module(path) == module]
    text = path.read_text(encoding="utf-8")
    found = [
        each for each, call in Reader(text)._calls() if each is not None and each.name == function
    ]
    assert found


@pytest.mark.parametrize(
    "body",
    [
        "c.execute('SELECT ' + name)",
        "c.execute(f'SELECT {name}')",
        "c.execute('SELECT %s' % name)",
        "c.execute('SELECT {}'.format(name))",
        "c.execute(name)",
        "sql = 'SELECT 1'\n    sql += name\n    c.execute(sql)",
        "sql = 'SELECT 1'\n    if name: sql = name\n    c.execute(sql)",
        "sql, values = name\n    c.execute(sql)",
        "for sql in name: c.execute(sql)",
        "c.executemany(' '.join([name]), [])",
        "scalar(c, f'SELECT {name}')",
        "Statement(f'SELECT {name}', ())",
        "c.execute(built(name))",
        "_inner(c, name)",
        "_inner(c, sql=f'{name}')",
        "c.execute(name.SQL)",
        "if (sql := name): c.execute(sql)",
    ],
)
def test_the_rule_sees_a_statement_built_from_input(body: str) -> None:
    assert len(Reader(SAMPLE.format(body=body)).faults("sample")) == 1


@pytest.mark.parametrize(
    "body",
    [
        "c.execute('SELECT ?', (name,))",
        "scalar(c, 'SELECT ?', (name,))",
        "c.execute(f'SELECT {COLUMNS} FROM t', (name,))",
        "c.execute(f'SELECT {other.COLUMNS} FROM t' + ' WHERE x')",
        "order = 'ASC' if name else 'DESC'\n    c.execute(f'SELECT 1 {order}')",
        "for sql in ('SELECT 1', COLUMNS): c.execute(sql)",
        "_inner(c, 'SELECT 1')",
        "c.execute(chosen(name))",
    ],
)
def test_the_rule_lets_constants_pass(body: str) -> None:
    assert Reader(SAMPLE.format(body=body)).faults("sample") == []


SAMPLE = """
from package import other

COLUMNS = ", ".join(["a", "b"])

def outer(c, name):
    {body}

def _inner(c, sql):
    c.execute(sql)

def _other(c):
    _inner(c, "SELECT 2")

def built(name):
    return f"SELECT {{name}}"

def chosen(name):
    if name:
        return COLUMNS
    return "SELECT 1"
"""
