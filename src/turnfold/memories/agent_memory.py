"""Remembers tables of contents and relevant passages that an agent's tools returned (`AgentMemory`).

It is the memory of design document 004.

It lives in the process, for applications that build their own prompt: put `get_toc_context()` and
`get_memory_context()` after the history, not into the system prompt, where every change would invalidate the provider's
prompt cache. `Session.findings` stores the results of any tool and adds them to the context by itself. An `AgentMemory`
that is given to an agent or an adapter as `findings=` does both: the results of the documented tools are stored in the
session's findings and in the `AgentMemory`.

Search results come from tools of other programs, so several usual field names are accepted. If one result cannot be
read, `InvalidRecord` names its index and nothing is added: a memory that silently lacks a result is worse than none.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import cast

from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.findings import (
    LABELS,
    FindingItem,
    FindingRule,
    Language,
    chapter_titles,
    check_language,
    escape_headings,
    items_text,
    rule_for,
    rules_by_tool,
)
from turnfold.records import check_score, check_text, freeze_object, plain_text, thaw_object
from turnfold.text import fence, indented_whole, one_line
from turnfold.tokens import TokenCounter, cautious_counter
from turnfold.wire import outcome_of_blocks

__all__ = (
    "AgentMemory",
    "AgentMemoryConfig",
    "ContentChunk",
    "check_chunk",
    "chunks_of",
    "with_chunk",
)


_SEARCH_RESULT = "search_result"
_CONTENTS = ("content", "snippet", "text")
_SCORES = ("score", "relevance_score", "relevance")
_PAGES = ("page_num", "page")
_LISTS = ("results", "hits", "items", "matches")
_PAGE_TEXTS = ("content", "content_markdown", "text", "markdown")
_PAGE_NUMBERS = ("start_page", "end_page", "page_num", "page")


@dataclass
class ContentChunk:
    """A piece of content with its source and relevance (内容片段)."""

    content: str
    source: str
    """Document and page the content comes from, such as `angui_2024 P85`."""
    relevance_score: float
    """Relevance from 0 to 1."""
    chunk_type: str
    """Kind of content: `search_result`, `page_content` or `table`."""
    metadata: dict[str, object] = field(default_factory=dict[str, object])


def check_chunk(chunk: ContentChunk, *, path: str = "chunk") -> ContentChunk:
    """Return a copy of a valid chunk; raises `InvalidRecord` for a blank text or a score that is not from 0 to 1."""
    for name in ("content", "source", "chunk_type"):
        text = check_text(getattr(chunk, name), path=f"{path}.{name}")
        if not text.strip():
            raise InvalidRecord(f"{name} is empty or blank; give a text", path=f"{path}.{name}")
    score = check_score(chunk.relevance_score, path=f"{path}.relevance_score")
    return replace(chunk, relevance_score=score, metadata=dict(chunk.metadata))


def chunks_of(results: object) -> list[ContentChunk]:
    """Convert search results of a tool to chunks (pieces of content with source and score), in their order.

    Each is a mapping with a text (`content`, `snippet` or `text`), a score (`score`, `relevance_score` or `relevance`)
    and a source (`source`, or `reg_id` with `page_num` or `page`). Everything else goes into the metadata.
    """
    if isinstance(results, str | bytes) or not isinstance(results, Sequence):
        raise InvalidRecord(
            f"got {type(results).__name__}, expected a list of search results",
            path="results",
            remedy="Pass the list that the search tool returned",
        )
    members = cast("Sequence[object]", results)
    return [_chunk_of(result, f"results[{at}]") for at, result in enumerate(members)]


def _chunk_of(result: object, path: str) -> ContentChunk:
    if not isinstance(result, Mapping):
        raise InvalidRecord(
            f"got {type(result).__name__}, expected a search result: a dictionary with its content and score",
            path=path,
        )
    fields = dict(cast("Mapping[str, object]", result))
    content, score = _first(fields, _CONTENTS, path), _first(fields, _SCORES, path)
    chunk_type = fields.pop("chunk_type", _SEARCH_RESULT)
    given = fields.pop("metadata", None)
    if given is not None and not isinstance(given, Mapping):
        raise InvalidRecord(
            f"the metadata of a search result must be a dictionary, got {type(given).__name__}",
            path=f"{path}.metadata",
        )
    metadata = dict(cast("Mapping[str, object]", given or {}))
    chunk = ContentChunk(
        content=cast("str", content),
        source=_source(fields, path),
        relevance_score=cast("float", score),
        chunk_type=cast("str", chunk_type),
        metadata={**fields, **metadata},
    )
    return check_chunk(chunk, path=path)


def _first(fields: dict[str, object], names: tuple[str, ...], path: str) -> object:
    name = next((each for each in names if fields.get(each) is not None), None)
    if name is None:
        raise InvalidRecord(
            f"the result has no field {' or '.join(names)}: give one of them", path=path
        )
    return fields.pop(name)


def _source(fields: dict[str, object], path: str) -> str:
    if fields.get("source") is not None:
        return cast("str", fields.pop("source"))
    book = fields.get("reg_id")
    page = next((fields[name] for name in _PAGES if fields.get(name) is not None), None)
    if not isinstance(book, str) or not isinstance(page, int | str):
        raise InvalidRecord(
            "the result has neither the field source, nor reg_id and page_num: give one or the other",
            path=path,
        )
    return f"{book} P{page}"


def with_chunk(
    chunks: Sequence[ContentChunk], chunk: ContentChunk, *, most: int, least: float
) -> list[ContentChunk]:
    """Return the chunks and one more, most relevant first (newest first among equals).

    At most `most` chunks are returned, and none with a relevance below `least`. If a source has the same content twice,
    the better score is kept. Of a page or table only the newest version is kept, whatever its score; search results are
    excerpts, of which one source may have several.
    """
    best = max(
        (each.relevance_score for each in chunks if _same_content(each, chunk)),
        default=chunk.relevance_score,
    )
    new = replace(chunk, relevance_score=max(best, chunk.relevance_score))
    others = [
        each for each in chunks if not _same_content(each, chunk) and not _replaces(chunk, each)
    ]
    if new.relevance_score >= least:
        others.insert(0, new)
    return sorted(others, key=lambda each: -each.relevance_score)[:most]


def _same_content(one: ContentChunk, other: ContentChunk) -> bool:
    return (one.source, one.content) == (other.source, other.content)


def _replaces(new: ContentChunk, old: ContentChunk) -> bool:
    if new.chunk_type == _SEARCH_RESULT:
        return False
    return (new.source, new.chunk_type) == (old.source, old.chunk_type)


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMemoryConfig:
    """The settings of an `AgentMemory`, under their documented names (记忆系统配置)."""

    memory_enabled: bool = True
    """False for a memory that keeps nothing (是否启用 Agent 记忆系统)."""
    memory_max_chunks: int = 10
    """Most content chunks that are kept (最大记忆内容片段数)."""
    memory_min_relevance: float = 0.5
    """Content chunks with a lower relevance score are not kept (最小相关性阈值)."""

    def __post_init__(self) -> None:
        _check_limits(self.memory_max_chunks, self.memory_min_relevance)


@dataclass(init=False)
class AgentMemory:
    """Tables of contents and relevant content of one agent session (Agent 记忆状态).

    `language` (`"zh"` or `"en"`) is the language of the rendered texts; `context_tokens` limits each text, counted by
    `counter`. With `enabled=False` it keeps nothing and renders empty texts.
    """

    toc_cache: dict[str, dict[str, object]]
    """Id of a regulation -> the cached table of contents of the regulation (目录缓存)."""
    known_chapters: list[str]
    """The chapters of the cached tables of contents (已知章节范围)."""
    relevant_chunks: list[ContentChunk]
    """The kept content chunks, most relevant first (相关内容)."""
    current_query: str
    """The question that the agent is answering; set by the caller (当前查询上下文)."""
    max_chunks: int
    """Most content chunks that are kept (最大记忆容量)."""
    min_relevance: float
    """Content chunks with a lower relevance score are not kept (最小相关性阈值)."""

    def __init__(  # noqa: PLR0917 (documented fields, each allowed by position)
        self,
        toc_cache: dict[str, dict[str, object]] | None = None,
        known_chapters: list[str] | None = None,
        relevant_chunks: list[ContentChunk] | None = None,
        current_query: str = "",
        max_chunks: int = 10,
        min_relevance: float = 0.5,
        *,
        language: str = "zh",
        context_tokens: int = 2_000,
        counter: TokenCounter | None = None,
        enabled: bool = True,
    ) -> None:
        _check_limits(max_chunks, min_relevance)
        self.toc_cache = {} if toc_cache is None else toc_cache
        self.known_chapters = [] if known_chapters is None else known_chapters
        self.relevant_chunks = [] if relevant_chunks is None else relevant_chunks
        self.current_query = current_query
        self.max_chunks, self.min_relevance = max_chunks, min_relevance
        self.language: Language = check_language(language)
        self.context_tokens = _check_tokens(context_tokens)
        self.counter = counter or cautious_counter()
        self.enabled = enabled

    @classmethod
    def from_config(cls, config: AgentMemoryConfig, *, language: str = "zh") -> AgentMemory:
        """Create an `AgentMemory` with the settings of a config."""
        return cls(
            max_chunks=config.memory_max_chunks,
            min_relevance=config.memory_min_relevance,
            language=language,
            enabled=config.memory_enabled,
        )

    def cache_toc(self, reg_id: str, toc: Mapping[str, object]) -> None:
        """Cache the table of contents of a regulation, a JSON object; it replaces an earlier one (缓存目录)."""
        if not check_text(reg_id, path="reg_id").strip():
            raise InvalidRecord(
                "reg_id is empty or blank; give the id of the regulation", path="reg_id"
            )
        copied = thaw_object(freeze_object(toc, path="toc"))
        if not self.enabled:
            return
        self.toc_cache[reg_id] = copied
        self.known_chapters[:] = dict.fromkeys(
            title for each in self.toc_cache.values() for title in chapter_titles(each)
        )
        _log.debug(f"[Memory] 缓存目录: {reg_id}")

    def get_cached_toc(self, reg_id: str) -> dict[str, object] | None:
        """Return a copy of a regulation's cached table of contents; None if there is none (获取缓存的目录)."""
        found = self.toc_cache.get(reg_id)
        return None if found is None else thaw_object(freeze_object(found, path="toc"))

    def has_cached_toc(self, reg_id: str) -> bool:
        """Return True if the table of contents of the regulation is cached (检查目录是否已缓存)."""
        return reg_id in self.toc_cache

    def add_chunk(self, chunk: ContentChunk) -> None:
        """Add a chunk; the least relevant chunks beyond `max_chunks` are dropped (添加内容片段).

        If a source has the same content twice, the better score is kept; of a page only the newest version is kept.
        Chunks below `min_relevance` are not kept. An invalid chunk raises `InvalidRecord`, and nothing changes.
        """
        self._add([check_chunk(chunk)])

    def add_search_results(self, results: object) -> None:
        """Add the chunks of `results`, the list that a search returned (从搜索结果中提取并添加高相关性内容).

        If a result cannot be read (no text, no source, no score from 0 to 1), `InvalidRecord` names its index and
        nothing is added.
        """
        found = chunks_of(results)
        self._add(found)
        if self.enabled:
            _log.debug(f"[Memory] 添加搜索结果: {len(found)} 条")

    def add_page_content(self, content: str, source: str, relevance: float = 0.8) -> None:
        """Add the content of a page; a long page is cut at a sentence or row when it is rendered (添加页面内容摘要)."""
        self.add_chunk(ContentChunk(content, source, relevance, "page_content"))
        if self.enabled:
            _log.debug(f"[Memory] 添加页面内容: {source}")

    def get_memory_context(self, *, tokens: int | None = None, fenced: bool = False) -> str:
        """Render the relevant content, best first, in at most `tokens`; "" if there is none (生成记忆上下文).

        With `fenced` the text is put between marks (a fence) that it cannot close, because content of documents and
        tools may contain instructions.
        """
        items = [FindingItem(each.source, each.content) for each in self.relevant_chunks]
        return self._text(items, tokens, fenced=fenced)

    def get_toc_cache_hint(self) -> str:
        """List the cached tables of contents as a text to add to a prompt, after a blank line (生成目录缓存提示).

        It tells the model not to fetch them again, so send it only together with the tables (`get_toc_context()`).
        """
        if not self.toc_cache:
            return ""
        labels = LABELS[self.language]
        names = ", ".join(map(one_line, self.toc_cache))
        lines = labels.contents, labels.fetched.format(names=names), labels.no_toc_call
        return "\n\n" + "\n".join(lines)

    def get_toc_context(self, *, tokens: int | None = None, fenced: bool = False) -> str:
        """Return the cached tables of contents as outlines in at most `tokens`.

        The deepest levels are cut if needed.
        """
        items = [FindingItem(reg_id, toc, toc=True) for reg_id, toc in self.toc_cache.items()]
        return self._text(items, tokens, fenced=fenced)

    def finding_rules(
        self,
        *,
        toc: str = "get_toc",
        search: str = "smart_search",
        read: str = "read_page_range",
        serve: bool = False,
    ) -> tuple[FindingRule, ...]:
        """Return the rules by which a session stores the results of the documented tools here and as findings.

        A finding is a tool result that the session remembers.

        Search hits below `min_relevance` are not stored. With `serve`, a repeated call for the same table of contents
        is answered with the stored result instead of being made; without it, the model sees the stored table in its
        context.
        """
        least = self.min_relevance
        return (
            FindingRule(toc, kind="toc", serve=serve, keep=self._keep_toc),
            FindingRule(search, min_relevance=least, keep=self._keep_search),
            FindingRule(read, relevance=0.8, min_relevance=least, keep=self._keep_page),
        )

    def update(
        self,
        tool_name: str,
        result_content: object,
        arguments: Mapping[str, object] | None = None,
    ) -> None:
        """Store the result of a documented tool (`_update_memory()` in the document); other tools are ignored.

        The result is text, or any value that a tool returns. A table of contents is cached under the `reg_id` of the
        call's arguments or of the table. A tool of an MCP server may be given by its full name (`mcp__rules__get_toc`).
        """
        rule = rule_for(rules_by_tool(self.finding_rules()), tool_name)
        found = outcome_of_blocks(result_content)
        if rule is not None and rule.keep is not None and not found.failed:
            rule.keep(arguments or {}, found.text)

    def _keep_toc(self, arguments: Mapping[str, object], result: str) -> str | None:
        if not self.enabled:
            return None
        toc = _json_of(result)
        if isinstance(toc, dict):
            named = arguments.get("reg_id") or toc.get("reg_id")
            with _reported("get_toc"):
                self.cache_toc(plain_text(named, path="reg_id"), toc)
        return result

    def _keep_search(self, arguments: Mapping[str, object], result: str) -> str | None:  # noqa: ARG002 (a rule's)
        if not self.enabled:
            return None
        value = _json_of(result)
        lists = [value] if not isinstance(value, dict) else [value.get(name) for name in _LISTS]
        hits = next((cast("list[object]", each) for each in lists if isinstance(each, list)), None)
        if hits is None:
            return result
        with _reported("search"):
            scores = [chunk.relevance_score for chunk in chunks_of(hits)]
            self.add_search_results(hits)
            relevant = [
                hit for hit, score in zip(hits, scores, strict=True) if score >= self.min_relevance
            ]
            return json.dumps(relevant, ensure_ascii=False) if relevant else None
        return result

    def _keep_page(self, arguments: Mapping[str, object], result: str) -> str | None:
        if not self.enabled:
            return None
        value = _json_of(result)
        fields = {**arguments, **(value if isinstance(value, dict) else {})}
        found = next((fields[name] for name in _PAGE_TEXTS if fields.get(name)), result)
        pages = [str(fields[name]) for name in _PAGE_NUMBERS if fields.get(name) is not None]
        source = fields.get("source") or f"{fields.get('reg_id', '')} P{'-'.join(pages)}".strip()
        with _reported("read"):
            self.add_page_content(str(found), str(source))
        return result

    def clear_query_context(self) -> None:
        """Remove chunks and question; cached tables of contents stay (清除当前查询上下文，保留目录缓存)."""
        self.relevant_chunks.clear()
        self.current_query = ""

    def reset(self) -> None:
        """Remove everything, also the cached tables of contents (完全重置记忆)."""
        self.clear_query_context()
        self.toc_cache.clear()
        self.known_chapters.clear()

    def _add(self, chunks: list[ContentChunk]) -> None:
        _check_limits(self.max_chunks, self.min_relevance)
        if not self.enabled:
            return
        added = self.relevant_chunks
        for chunk in chunks:
            added = with_chunk(added, chunk, most=self.max_chunks, least=self.min_relevance)
        self.relevant_chunks[:] = added

    def _text(self, items: list[FindingItem], tokens: int | None, *, fenced: bool) -> str:
        note = LABELS[self.language].note

        def wrap(text: str) -> str:
            return fence(text, label="memory", note=note) if fenced else text

        return items_text(
            items,
            tokens=self.context_tokens if tokens is None else _check_tokens(tokens),
            count=self.counter.count_text,
            measure=self.counter.count_text,
            language=self.language,
            wrap=wrap,
            layout=indented_whole if fenced else escape_headings,
        )


def _json_of(text: str) -> dict[str, object] | list[object] | None:
    try:
        value = cast("object", json.loads(text))
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict | list):
        return cast("dict[str, object] | list[object]", value)
    return None


@contextmanager
def _reported(tool: str) -> Generator[None]:
    """Context manager: if the result of a tool cannot be read, log that instead of raising.

    The session stores the result's text anyway.
    """
    try:
        yield
    except (InvalidRecord, InvalidOption) as error:
        fields = {"event": "result_unreadable", "tool": tool}
        kind = type(error).__name__
        _log.warning(
            "[Memory] the result of the tool %s cannot be read (%s) and is not kept here; the session stores its text",
            tool,
            kind,
            extra=fields,
        )


def _check_limits(max_chunks: int, min_relevance: float) -> None:
    if max_chunks < 1:
        raise InvalidOption(f"max_chunks={max_chunks} must be at least 1")
    check_score(min_relevance, path="min_relevance")


def _check_tokens(tokens: int) -> int:
    if tokens < 1:
        raise InvalidOption(f"tokens={tokens} must be at least 1")
    return tokens
