"""Values out of a file: the same whatever the size of a chunk, each with its line, and damage told where it is."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
import zipfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnfold.errors import InvalidExport, NotFound
from turnfold.importers import UnreadableItem, json_stream
from turnfold.importers.json_stream import Value, open_text, read_values

TEXTS = st.text(alphabet=st.sampled_from('ab"\\{}[],:\n 猫é\u2028'), max_size=12)
LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | TEXTS
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
)
OBJECTS = st.dictionaries(TEXTS, TREES, max_size=4)


def read(text: str) -> list[Value | UnreadableItem]:
    return list(read_values(io.StringIO(text, newline="\n")))


@given(st.lists(OBJECTS, max_size=5), st.sampled_from([None, 0, 2]), st.integers(1, 40))
def test_a_list_gives_its_elements_whatever_the_chunks(
    elements: list[object], indent: int | None, chunk: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "_CHUNK", chunk)
        found = read(json.dumps(elements, indent=indent, ensure_ascii=False))
    assert [each.value for each in found if isinstance(each, Value)] == elements
    assert len(found) == len(elements)


@given(st.lists(OBJECTS.filter(bool), min_size=1, max_size=5), st.integers(0, 3))
def test_lines_are_counted(elements: list[dict[str, object]], blank: int) -> None:
    gap = "\n" * (blank + 1)
    lines = read(gap.join(json.dumps(element) for element in elements))
    assert [(each.line - 1) // (blank + 1) for each in lines] == list(range(len(elements)))
    nested = read("[\n" + (",\n" * 1).join(json.dumps(element) for element in elements) + "\n]")
    assert [each.line for each in nested] == [n + 2 for n in range(len(elements))]


@pytest.mark.parametrize("text", ['{"a": 1}\n{"a": 2}', '[{"a": 1},\n{"a": 2}]'])
def test_blank_lines_at_the_beginning_are_counted(text: str) -> None:
    assert [each.line for each in read("\n  \n" + text)] == [3, 4]


def test_one_object_over_many_lines_is_one_value() -> None:
    found = read(
        json.dumps({"messages": [{"role": "user", "content": 'a "quoted" {brace'}]}, indent=4)
    )
    assert [each.line for each in found] == [1]
    assert isinstance(found[0], Value)


def test_a_bad_line_does_not_spoil_the_next() -> None:
    found = read('{"a": 1}\n{"a": \n{"a": 3}\n')
    assert [type(each).__name__ for each in found] == ["Value", "UnreadableItem", "Value"]
    assert found[1].line == 2


@pytest.mark.parametrize(
    "text", ['[{"a": 1}, {"b": ', '[{"a": 1}', '[{"a": "unclosed', "[1, 2]", "[nonsense]"]
)
def test_a_list_that_was_cut_off_is_told(text: str) -> None:
    assert isinstance(read(text)[-1], UnreadableItem)


def test_depth_without_end_is_told_and_not_followed() -> None:
    found = read("[" + '{"a":' * 100_000 + "1" + "}" * 100_000 + "]")
    assert [type(each) for each in found] == [UnreadableItem]
    assert "deep" in str(found[0])


def test_packed_files_are_read_as_they_are(tmp_path: Path) -> None:
    text = '\ufeff{"a": "猫"}\n{"a": 2}\n'
    (tmp_path / "plain").write_text(text, encoding="utf-8")
    (tmp_path / "packed.gz").write_bytes(gzip.compress(text.encode()))
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("user.json", "{}")
        archive.writestr("some/conversations.json", text)
    for name in ("plain", "packed.gz", "export.zip"):
        with open_text(tmp_path / name) as file:
            assert [each.value for each in read_values(file) if isinstance(each, Value)] == [
                {"a": "猫"},
                {"a": 2},
            ]
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("user.json", "{}")
    with pytest.raises(InvalidExport, match="conversations"), open_text(tmp_path / "other.zip"):
        pass
    with pytest.raises(NotFound), open_text(tmp_path / "nothing"):
        pass


@pytest.mark.parametrize("form", ["%s\n%s\n", "[%s, %s]", "[\n%s,\n%s\n]"])
def test_a_key_that_is_given_twice_is_told(form: str) -> None:
    twice = '{"role": "user", "content": "safe", "content": "other"}'
    bad, good = read(form % (twice, '{"a": 1}'))
    assert isinstance(bad, UnreadableItem)
    assert "the key 'content' is given twice" in bad.problem
    assert isinstance(good, Value)
    assert good.value == {"a": 1}


def test_space_without_end_is_refused_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_stream, "_LONGEST_VALUE", 1 << 20)
    monkeypatch.setattr(json_stream, "_CHUNK", 1 << 10)
    path = tmp_path / "file.json.gz"
    with gzip.open(path, "wt", encoding="utf-8") as packed:
        packed.write("[" + " " * (3 << 20))
    with open_text(path) as file, pytest.raises(InvalidExport, match="more than 1,048,576 spaces"):
        list(read_values(file))


def test_a_value_without_end_is_read_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "_LONGEST_VALUE", 1 << 20)
    file = io.StringIO('[\n{"content": "' + "a" * (20 << 20) + '"}]', newline="\n")
    with pytest.raises(InvalidExport, match="line 2: the value has more than 1,048,576 characters"):
        list(read_values(file))
    assert file.tell() < 5 << 20


@pytest.mark.parametrize(
    "content", [b"PK\x03\x04 cut off", gzip.compress(b'{"a": 1}' * 99, mtime=0)[:-9]]
)
def test_a_damaged_archive_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "damaged"
    path.write_bytes(content)
    with pytest.raises(InvalidExport, match="damaged is damaged"), open_text(path) as file:
        list(read_values(file))


def _archive(
    path: Path, packing: int = zipfile.ZIP_DEFLATED, content: str = '{"a": 1}'
) -> bytearray:
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr("conversations.json", content)
    return bytearray(path.read_bytes())


ODD_ARCHIVES = {
    "encrypted": {6: 1},
    "patched": {6: 0x20},
    "of a later version": {4: 200},
    "packed in an unknown way": {8: 97},
}


@pytest.mark.parametrize("what", ODD_ARCHIVES)
def test_an_archive_that_cannot_be_unpacked_is_told(tmp_path: Path, what: str) -> None:
    """`zipfile` raises RuntimeError and NotImplementedError for these."""
    path = tmp_path / "odd.zip"
    content = _archive(path)
    listed = content.index(b"PK\x01\x02") + 2  # the same fields, two bytes later
    for at, value in ODD_ARCHIVES[what].items():
        content[at] = content[listed + at] = value
    path.write_bytes(bytes(content))
    with pytest.raises(InvalidExport, match="is damaged: "), open_text(path) as file:
        list(read_values(file))


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_packing_that_no_export_has_is_refused(tmp_path: Path, packing: int) -> None:
    """Such a header may ask for gigabytes of memory, and damaged content raises errors of its own."""
    path = tmp_path / "odd.zip"
    _archive(path, packing)
    with pytest.raises(InvalidExport, match="packed in another way"), open_text(path):
        pass


@given(st.data())
def test_no_damage_to_an_archive_raises_another_error(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "odd.zip")
        content = _archive(path, content='{"a": "' + "text " * 50 + '"}')
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(bytes(content))
        with suppress(InvalidExport), open_text(path) as file:
            list(read_values(file))


def test_an_archive_of_very_many_files_is_refused_before_its_list_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_stream, "_LARGEST_DIRECTORY", 10_000)
    path = tmp_path / "many.zip"
    for files in (100, 300):
        with zipfile.ZipFile(path, "w") as archive:
            for number in range(files):
                archive.writestr(f"{number}", "")
            archive.writestr("conversations.json", "{}")
        if files == 100:
            with open_text(path) as file:
                assert file.read() == "{}"
    with (
        pytest.raises(InvalidExport, match=r"its list of files has more than [0-9,]+ bytes"),
        open_text(path),
    ):
        pass


def test_a_link_in_an_archive_is_a_text_and_leads_nowhere(tmp_path: Path) -> None:
    path, secret = tmp_path / "link.zip", tmp_path / "secret.json"
    secret.write_text('{"secret": 1}')
    link = zipfile.ZipInfo("../conversations.json")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(link, str(secret))
    with open_text(path) as file:
        [found] = read_values(file)
    assert isinstance(found, UnreadableItem)


def test_a_long_list_is_never_held_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "_CHUNK", 4096)
    most = 0

    class Watched(json_stream._Scan):
        def next_value(self) -> Value | UnreadableItem | None:
            nonlocal most
            found = super().next_value()
            most = max(most, len(self._text))
            return found

    monkeypatch.setattr(json_stream, "_Scan", Watched)
    text = json.dumps([{"n": n, "text": "x" * 500} for n in range(2000)])
    assert sum(1 for _ in read_values(io.StringIO(text))) == 2000
    assert most < 20_000 < len(text)


def test_an_element_that_is_no_json_does_not_spoil_the_next() -> None:
    found = read('[{"a": 1}, {"a": nothing, "b": "}"}, {"a": [3, }, ], {"a": 4}]')
    assert [each.value for each in found if isinstance(each, Value)] == [{"a": 1}, {"a": 4}]
    assert [each.line for each in found if isinstance(each, UnreadableItem)] == [1, 1]


@pytest.mark.parametrize("first", ["", '{"role": "user", "content": "你好"}\n'])
def test_a_compressed_line_without_end_is_refused_and_not_read_whole(
    first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_stream, "_LONGEST_VALUE", 2 << 20)
    path = tmp_path / "bomb.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(first + '{"x": "' + "a" * (40 << 20))
    assert path.stat().st_size < 100_000
    tracemalloc.start()
    try:
        with open_text(path) as file, pytest.raises(InvalidExport, match="2,097,152"):
            list(read_values(file))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 << 20


@pytest.mark.parametrize("kind", ["gzip", "zip"])
@pytest.mark.parametrize("content", ["\n", '{"role": "user", "content": "x"}\n', " "])
def test_a_file_that_unpacks_a_thousandfold_is_refused_early(
    kind: str, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two gigabytes of empty lines, two megabytes compressed, were read for minutes."""
    monkeypatch.setattr(json_stream, "_UNPACKED_FREELY", 1 << 20)
    path, text = tmp_path / "bomb", content * ((16 << 20) // len(content))
    if kind == "gzip":
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(text)
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("conversations.json", text)
    allowed = max(1 << 20, 200 * path.stat().st_size)
    assert allowed < len(text)
    sizes: list[int] = []
    with open_text(path) as file, pytest.raises(InvalidExport, match="more than 200 times"):
        sizes.extend(map(len, iter(partial(file.read, 1 << 16), "")))
    assert sum(sizes) <= allowed


def test_brackets_without_end_are_not_counted_to_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "_CHUNK", 1 << 12)
    file = io.StringIO("[" * (4 << 20))
    [found] = read_values(file)
    assert isinstance(found, UnreadableItem)
    assert "nested too deeply" in found.problem
    assert file.tell() < 1 << 20


@pytest.mark.parametrize("begins", ["", '{"a": 1}\n'])
def test_empty_lines_without_end_are_refused(begins: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "_MOST_BLANK", 100)
    file = io.StringIO(begins + "\n" * 10_000)
    with pytest.raises(InvalidExport, match="more than 100 empty lines in a row"):
        list(read_values(file))
    assert file.tell() < 200
    assert len(read("\n" * 99 + '{"a": 1}\n' + "\n" * 99 + '{"a": 2}')) == 2
