"""The paths a text mentions, whatever stands around them, and however long the text is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sizes import examples
from turnfold.text import paths_in, plain_path

MENTIONED = {
    "see src/app/main.py.": {"src/app/main.py", "src/app", "src"},
    r"open .\src\app.py:42:": {"src/app.py", "src"},
    "C:\\x\\a.txt": {"C:/x/a.txt", "C:/x", "C:"},
    "/etc/hosts, then ./a/b/": {"/etc/hosts", "/etc", "a/b", "a"},
    "README.md and v1.2.3 and 3.14": {"README.md"},
    "看src/app.py文件": {"src/app.py", "src", "看src/app.py文件", "看src"},
    "见 文档/说明.md": {"文档/说明.md", "文档"},
    "https://example.org/a/b.html": {"example.org/a/b.html", "example.org/a", "example.org"},
    "no path. none at all": set[str](),
    "...": set[str](),
}


@pytest.mark.parametrize("text", MENTIONED)
def test_paths_and_their_folders_are_found(text: str) -> None:
    assert paths_in(text) == MENTIONED[text]


def test_a_run_that_is_data_is_no_path() -> None:
    assert paths_in("a/" * 5_000) == frozenset()
    assert len(paths_in("/".join("a" * 1 for _ in range(400)))) == 17


@examples(300)
@given(st.text(st.sampled_from("ab中./\\: -~é"), max_size=60))
def test_every_path_is_plain_and_its_folders_are_there(text: str) -> None:
    found = paths_in(text)
    for path in found:
        assert plain_path(path) == path
        folder = path.rpartition("/")[0]
        assert not folder or folder in found or path.count("/") > 15
