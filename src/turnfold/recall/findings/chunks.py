"""Pieces of content as document 004 keeps them: by relevance, each once, the newest state of a page.

Search results come from tools that nobody here wrote. They are read by the names such tools use, and one that cannot be
read is refused with the place of the fault, before anything is changed: a memory that quietly lacks what was found is
worse than none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from turnfold.errors import InvalidRecord
from turnfold.records.findings import check_score
from turnfold.records.json_text import check_text

__all__ = ("ContentChunk", "check_chunk", "chunks_of", "with_chunk")

_SEARCH_RESULT = "search_result"
_CONTENTS = ("content", "snippet", "text")
_SCORES = ("score", "relevance_score", "relevance")
_PAGES = ("page_num", "page")


@dataclass
class ContentChunk:
    """内容片段: a piece of content, where it is from and how relevant it is."""

    content: str
    source: str
    """Where it is from, as `angui_2024 P85`."""
    relevance_score: float
    """0 to 1."""
    chunk_type: str
    """`search_result`, `page_content` or `table`."""
    metadata: dict[str, object] = field(default_factory=dict[str, object])


def check_chunk(chunk: ContentChunk, *, path: str = "chunk") -> ContentChunk:
    """A copy of the chunk; one that cannot be remembered is refused."""
    for name in ("content", "source", "chunk_type"):
        text = check_text(getattr(chunk, name), path=f"{path}.{name}")
        if not text.strip():
            raise InvalidRecord("nothing to remember: the text is empty", path=f"{path}.{name}")
    score = check_score(chunk.relevance_score, path=f"{path}.relevance_score")
    return replace(chunk, relevance_score=score, metadata=dict(chunk.metadata))


def chunks_of(results: object) -> list[ContentChunk]:
    """Search results as chunks, in their order.

    Each is a mapping with a text (`content`, `snippet` or `text`), a score (`score`, `relevance_score` or `relevance`)
    and a source (`source`, or `reg_id` with `page_num` or `page`). Everything else goes into the metadata.
    """
    if isinstance(results, str | bytes) or not isinstance(results, Sequence):
        raise InvalidRecord(
            f"{type(results).__name__}, not a list of search results",
            path="results",
            remedy="Give the list that the search tool answers with",
        )
    members = cast("Sequence[object]", results)
    return [_chunk_of(result, f"results[{at}]") for at, result in enumerate(members)]


def _chunk_of(result: object, path: str) -> ContentChunk:
    if not isinstance(result, Mapping):
        raise InvalidRecord(f"{type(result).__name__}, not a search result", path=path)
    fields = dict(cast("Mapping[str, object]", result))
    content, score = _first(fields, _CONTENTS, path), _first(fields, _SCORES, path)
    named = fields.pop("chunk_type", _SEARCH_RESULT)
    given = fields.pop("metadata", None)
    if given is not None and not isinstance(given, Mapping):
        raise InvalidRecord(f"{type(given).__name__}, not an object", path=f"{path}.metadata")
    told = dict(cast("Mapping[str, object]", given or {}))
    chunk = ContentChunk(
        content=cast("str", content),
        source=_source(fields, path),
        relevance_score=cast("float", score),
        chunk_type=cast("str", named),
        metadata={**fields, **told},
    )
    return check_chunk(chunk, path=path)


def _first(fields: dict[str, object], names: tuple[str, ...], path: str) -> object:
    name = next((each for each in names if fields.get(each) is not None), None)
    if name is None:
        raise InvalidRecord(f"none of {', '.join(names)} is there", path=path)
    return fields.pop(name)


def _source(fields: dict[str, object], path: str) -> str:
    if fields.get("source") is not None:
        return cast("str", fields.pop("source"))
    book = fields.get("reg_id")
    page = next((fields[name] for name in _PAGES if fields.get(name) is not None), None)
    if not isinstance(book, str) or not isinstance(page, int | str):
        raise InvalidRecord("neither a source nor reg_id and page_num are there", path=path)
    return f"{book} P{page}"


def with_chunk(
    chunks: Sequence[ContentChunk], chunk: ContentChunk, *, most: int, least: float
) -> list[ContentChunk]:
    """The chunks with one more: by relevance, the newest of equals first, at most `most`, none below `least`.

    The same content of the same source is kept once, with the better score. Of a page or a table only the newest state
    is kept, whatever its score; search results are excerpts, of which one source may have several.
    """
    best = max(
        (each.relevance_score for each in chunks if _same(each, chunk)),
        default=chunk.relevance_score,
    )
    new = replace(chunk, relevance_score=max(best, chunk.relevance_score))
    kept = [each for each in chunks if not _same(each, chunk) and not _replaces(chunk, each)]
    if new.relevance_score >= least:
        kept.insert(0, new)
    return sorted(kept, key=lambda each: -each.relevance_score)[:most]


def _same(one: ContentChunk, other: ContentChunk) -> bool:
    return (one.source, one.content) == (other.source, other.content)


def _replaces(new: ContentChunk, old: ContentChunk) -> bool:
    if new.chunk_type == _SEARCH_RESULT:
        return False
    return (new.source, new.chunk_type) == (old.source, old.chunk_type)
