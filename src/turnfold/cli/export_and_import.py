"""`turnfold export` and `turnfold import`: write conversations of a store to a file, and read them into a store."""

from __future__ import annotations

import base64
import gzip
import json as json_lines
import os
import sqlite3
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple, cast

from rich.text import Text

from turnfold.cli.chinese_labels import colon, label, problem_label, with_singulars
from turnfold.cli.lint import lint_file
from turnfold.cli.store_and_session_lookup import (
    Opened,
    address_of,
    default_store,
    file_of,
    find_session,
    looks_like_file,
    open_at,
)
from turnfold.cli.tables_and_progress_bars import (
    Reporter,
    as_json,
    make_console,
    printable,
    progressing,
)
from turnfold.errors import InvalidOption, NotFound, TurnfoldError
from turnfold.importers import PROVIDERS, TURNFOLD, Imported, import_file
from turnfold.records import Entry, Message, TextPart
from turnfold.redaction import Redactor
from turnfold.runtime import drive
from turnfold.stores import (
    Progress,
    RedactingStore,
    Store,
    all_conversations,
    all_entries,
    export_to,
)
from turnfold.tokens import TokenCounter, cautious_counter, counter_for, counter_named

__all__ = (
    "EXPORTS",
    "Exported",
    "export_sessions",
    "import_path",
    "output_file",
    "removing_new_store",
    "show_exported",
    "show_imported",
)


EXPORTS = ("turnfold", *PROVIDERS, "markdown")
_CALL_LINE = b'{"line":"document","kind":"call",'
"""Beginning of a line of an export with the receipt of a call, which names its token counter."""
_LONGEST_HEADER = 1 << 16
"""Most bytes of the first line of a file that are read to see if it is an export of turnfold."""
_MOST_LINTED = 16 << 20
"""Most bytes of a file that an import checks for faults, because the check takes about as long as the import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """Result of an export: how much was written and where, and the changes that the format required."""

    format: str
    output: str
    """Name of the file; `-` for standard output."""
    sessions: tuple[str, ...]
    entries: int
    changes: dict[str, int] = field(default_factory=dict[str, int])
    """Changes that the format required, and how often each was made."""


def export_sessions(
    store: str | None,
    tenant: str,
    names: Sequence[str],
    *,
    every: bool,
    format_name: str,
    output: Path | None,
    model: str,
    json: bool = False,
    force: bool = False,
) -> Exported:
    """Write sessions in the format `format_name` to a file or standard output; replace a file only with `force`."""
    if format_name not in EXPORTS:
        raise InvalidOption(f"format {format_name!r} is not one of {', '.join(EXPORTS)}")
    if not every and not names:
        raise InvalidOption("give the sessions to export, or --all")
    if format_name == "markdown" and output is None and json:
        raise InvalidOption(
            "--json prints JSON only, and markdown is not JSON: name a file for it with --output FILE"
        )
    if output is not None and output.is_file() and not force:
        raise InvalidOption(
            f"{output} exists already: give the name of a new file, or replace it with --force"
        )
    if every and names:
        raise InvalidOption("give either the sessions to export or --all, not both")
    # turnfold's own format is exact: without the key, it has the encrypted entries and the encrypted keys unchanged.
    refuse = format_name != "turnfold"
    with (
        open_at(store, tenant, refuse=refuse) as opened,
        progressing("exporting") as reporter,
    ):
        found = (
            [info.conversation for info in drive(all_conversations(opened.store, opened.scope))]
            if every
            else _named(opened, names)
        )
        if format_name == "turnfold":
            return _export_exactly(opened, found, output, reporter)
        with output_file(output) as file:
            entries, changes = _translate(
                opened, found, file, reporter, _Target(format_name, model)
            )
    return Exported(
        format=format_name,
        output="-" if output is None else str(output),
        sessions=tuple(found),
        entries=entries,
        changes=changes,
    )


def _named(opened: Opened, names: Sequence[str]) -> list[str]:
    """Return the ids of these sessions, each once; the error about a name of a file says how to name the output."""
    found: list[str] = []
    for name in names:
        try:
            found.append(find_session(opened, name))
        except NotFound:
            if not looks_like_file(name):
                raise
            raise InvalidOption(
                f"{name!r} is no session: to write the export to that file, put --output before its name"
            ) from None
    return list(dict.fromkeys(found))


class _Target(NamedTuple):
    """Format and model for which conversations are exported."""

    name: str
    model: str


def _export_exactly(
    opened: Opened, names: list[str], output: Path | None, reporter: Reporter
) -> Exported:
    done = drive(
        export_to(
            opened.store,
            opened.scope,
            sys.stdout.buffer if output is None else output,
            conversations=names,
            progress=lambda step: reporter.report(step.done, step.total),
        )
    )
    return Exported(
        format="turnfold",
        output="-" if output is None else str(output),
        sessions=tuple(names),
        entries=done.entries,
    )


@contextmanager
def output_file(output: Path | None) -> Generator[IO[str]]:
    """Context manager for a text file that becomes `output` only if the block succeeds; stdout if `output` is None.

    The file can be read only by its owner.
    """
    if output is None:
        yield sys.stdout
        return
    # mkstemp makes a file that only its owner can read; renaming it keeps the permissions.
    handle, draft = tempfile.mkstemp(
        prefix=f".{output.name[:40]}.", suffix=".part", dir=output.parent
    )
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            yield file
        Path(draft).replace(output)
    finally:
        Path(draft).unlink(missing_ok=True)


def _translate(
    opened: Opened, names: list[str], file: IO[str], reporter: Reporter, target: _Target
) -> tuple[int, dict[str, int]]:
    """Write the conversations in a provider's format; return the number of entries, and the changes by kind."""
    changes: Counter[str] = Counter()
    entries = 0
    for number, name in enumerate(names, 1):
        log = drive(_log(opened, name))
        entries += len(log)
        if target.name == "markdown":
            file.writelines(_markdown(name, log))
        else:
            file.write(_body(name, [entry.message for entry in log], target, changes) + "\n")
        reporter.report(number, len(names))
    return entries, dict(changes)


def _body(name: str, messages: list[Message], target: _Target, changes: Counter[str]) -> str:
    """Return one conversation as a JSON line: its id, and a request body in the target's format."""
    request = PROVIDERS[target.name].request(messages, model=target.model, cache=False, max_bytes=0)
    changes.update(f"{change.action}: {change.reason}" for change in request.changes)
    return json_lines.dumps({"conversation_id": name, **request.kwargs}, ensure_ascii=False)


async def _log(opened: Opened, name: str) -> list[Entry]:
    return [entry async for entry in all_entries(opened.store, opened.scope, name)]


def _markdown(name: str, log: list[Entry]) -> Iterator[str]:
    yield f"# {name}\n"
    for entry in log:
        message = entry.message
        yield f"\n## {entry.seq} {message.role}\n\n"
        if text := _paragraphs(message):
            yield f"{text}\n"
        for call in message.calls:
            fence = "`" * 3
            yield f"\n{fence}json\n{call.name}({call.arguments})\n{fence}\n"


def _paragraphs(message: Message) -> str:
    """Return the text of a message; texts that a framework joined into one system message are paragraphs.

    The texts of an answer may go on in the middle of a sentence.
    """
    if message.role != "system":
        return message.text
    return "\n\n".join(part.text for part in message.parts if isinstance(part, TextPart))


def show_exported(done: Exported, *, json: bool) -> None:
    """Print what was exported: to stderr, or as JSON to stdout, unless stdout is the output itself."""
    if json and done.output != "-":
        print(as_json(done))  # noqa: T201 (what the command is for)
        return
    console = make_console(to_stderr=True)
    text = label("{sessions:,} sessions, {entries:,} entries as {format} to {output}").format(
        sessions=len(done.sessions), entries=done.entries, format=done.format, output=done.output
    )
    console.print(Text(with_singulars(text)))
    for change, times in sorted(done.changes.items()):
        console.print(Text(f"  {times:,} x {change}", "dim"))


def import_path(
    store: str | None,
    tenant: str,
    path: Path,
    *,
    format_name: str,
    session: str,
    skip_bad: bool,
    branches: bool,
    trial: bool,
    model: str,
    redactor: Redactor | None = None,
) -> Imported:
    """Import a file into the store, which is created if it does not exist."""
    if path.is_dir():
        raise InvalidOption(f"{path} is a folder: give a file")
    if not path.is_file():
        raise NotFound(f"no such file: {path}")
    if not path.stat().st_size:
        raise InvalidOption(f"{path} is empty: give a file with a conversation")
    if store is None:
        default_store()  # creates its folder
    counter = import_counter(path, model)
    with (
        removing_new_store(address_of(store), keep=not trial),
        open_at(store, tenant, counter=counter, make=True) as opened,
        progressing("importing") as bar,
    ):

        def report(step: Progress) -> None:
            bar.report(step.done, step.total, step.what)

        into = opened.store
        if redactor is not None:
            into = cast("Store", RedactingStore(into, redactor))
        return drive(
            import_file(
                into,
                opened.scope,
                path,
                format_name=format_name,
                conversation=session,
                skip_bad=skip_bad,
                branches=branches,
                trial=trial,
                progress=report,
            )
        )


def import_counter(path: Path, model: str) -> TokenCounter | None:
    """Return the counter of a model, or without one that of the first call in an export of turnfold, if it has any.

    Token counts are not in an export, so the importing store counts anew.
    """
    if model:
        return counter_for(model)
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
        try:
            if b'"turnfold-export"' not in lines.readline(_LONGEST_HEADER):
                return None
            for line in lines:
                if line.startswith(_CALL_LINE):
                    body = base64.b64decode(json_lines.loads(line)["body"])
                    return counter_named(json_lines.loads(body)["counter"])
        except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError):
            return None  # encrypted, or damaged: the import itself says what is wrong
    return None


@contextmanager
def removing_new_store(address: str, *, keep: bool) -> Generator[None]:
    """Context manager: removes the SQLite file that its block created, if the block fails or `keep` is False.

    A file in which something was stored is never removed.
    """
    path = file_of(address)
    new = path is not None and not path.exists()
    try:
        yield
    except BaseException:
        keep = False
        raise
    finally:
        # A write-ahead log that is still there after closing belongs to another process, which uses the file now.
        if new and path is not None and not keep and not Path(f"{path}-wal").exists():
            with suppress(sqlite3.Error):  # in doubt it stays
                _remove_if_empty(path)


def _remove_if_empty(path: Path) -> None:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        is_empty = connection.execute("SELECT count(*) FROM conversation").fetchone() == (0,)
    if is_empty:
        for end in ("", "-wal", "-shm"):
            Path(f"{path}{end}").unlink(missing_ok=True)


def show_imported(done: Imported, file: Path, *, model: str, json: bool) -> None:
    """Print what was imported or skipped, how it was counted, and how many faults `lint` finds in the file."""
    if json:
        print(as_json(done))  # noqa: T201 (what the command is for)
        return
    console = make_console()
    outcome = label("imported") if done.written else label("would import")
    text = label(
        "{entries:,} entries from {format}: {new:,} new sessions, {continued:,} continued, {already:,} already there"
    ).format(
        entries=done.entries,
        format=done.format,
        new=done.new,
        continued=len(done.continued),
        already=done.already,
    )
    console.print(Text(with_singulars(f"{outcome}{colon()}{text}")))
    for name in (*done.conversations[:5], *done.continued[:5]):
        console.print(Text(f"  {printable(name)}", "dim"))
    for each in done.completed:
        text = label(
            "{name}, entry {seq:,}: {parts:,} more parts of the answer, stored as a new entry"
        )
        text = text.format(name=printable(each.conversation), seq=each.seq, parts=each.parts)
        console.print(Text(f"  {text}", "dim"))
    for what, times in sorted(done.ignored.items()):
        text = label("not imported: {times:,} x {what}")
        console.print(
            Text(f"  {text.format(times=times, what=printable(problem_label(what)))}", "dim")
        )
    for name in done.erased:
        text = label("left out, because it was deleted from this store: {name}")
        console.print(Text(f"  {text.format(name=printable(name))}", "yellow"))
    for bad in done.bad:
        console.print(
            Text(
                f"  {label('left out of the import')}{colon()}{printable(problem_label(str(bad)))}",
                "yellow",
            )
        )
    if done.bad_total > len(done.bad):
        text = label("and {more:,} more left out").format(more=done.bad_total - len(done.bad))
        console.print(Text(f"  {text}", "yellow"))
    if done.entries:
        counter = import_counter(file, model) or cautious_counter()
        text = label("tokens are counted with {counter}; --model NAME counts as your model does")
        console.print(Text(f"  {text.format(counter=counter.name)}", "dim"))
    if done.format != TURNFOLD and (faults := _count_faults(file)):
        text = with_singulars(
            label(
                "{faults:,} faults by the rules of its provider; `turnfold lint {file}` lists them"
            ).format(faults=faults, file=printable(str(file)))
        )
        console.print(Text(f"  {text}", "yellow"))


def _count_faults(file: Path) -> int:
    """Return the number of faults that `turnfold lint` finds in a file; 0 if it cannot read the file or it is large."""
    if file.stat().st_size > _MOST_LINTED:
        return 0
    try:
        return sum(len(each.faults) for each in lint_file(file, None))
    except TurnfoldError:
        return 0
