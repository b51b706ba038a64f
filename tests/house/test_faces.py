"""The blocking classes are what tools/faces.py writes from the awaiting ones: nobody edited them, none lags behind."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.house.source_tree import ROOT


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("faces", ROOT / "tools" / "faces.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["faces"] = module
    spec.loader.exec_module(module)
    return module


FACES = _tool()


def _meaning(text: str) -> str:
    tree = ast.parse(text)
    tree.body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    return ast.dump(tree)


@pytest.mark.parametrize("face", FACES.FACES, ids=lambda face: face.folder)
def test_the_written_face_is_what_the_tool_would_write(face: object) -> None:
    path: Path = face.path  # pyright: ignore[reportAttributeAccessIssue]
    written = path.read_text("utf-8")
    assert _meaning(written) == _meaning(FACES.write_faces(face)), "run: python tools/faces.py"


def test_a_method_that_is_missing_would_be_noticed() -> None:
    [face, *_] = FACES.FACES
    text = FACES.write_faces(face)
    assert _meaning(text) != _meaning(text.replace("def history", "def story"))
