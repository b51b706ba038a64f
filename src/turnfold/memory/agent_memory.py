"""What an agent learned while it answers, as document 004 describes it.

Held in the process, for programs that build their own prompt: put `get_toc_context()` and `get_memory_context()` behind
the history, not into the system prompt, whose change would void the provider's prompt cache. A session keeps the same
for any tool, in its store and in its tail: see `Session.findings`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, field

from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.recall.findings import (
    WORDS,
    ContentChunk,
    Item,
    Language,
    at_the_margin,
    chapters,
    check_chunk,
    check_language,
    chunks_of,
    items_text,
    with_chunk,
)
from turnfold.records.findings import check_score
from turnfold.records.json_text import check_text, freeze_object, thaw_object
from turnfold.tokens import TokenCounter, cautious_counter
from turnfold.window import fence, indented_whole, one_line

__all__ = ("AgentMemory", "AgentMemoryConfig", "ContentChunk")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMemoryConfig:
    """记忆系统配置: the settings of an `AgentMemory`, under their documented names."""

    memory_enabled: bool = True
    """是否启用 Agent 记忆系统."""
    memory_max_chunks: int = 10
    """最大记忆内容片段数."""
    memory_min_relevance: float = 0.5
    """最小相关性阈值: what is less relevant is not remembered."""

    def __post_init__(self) -> None:
        _check_limits(self.memory_max_chunks, self.memory_min_relevance)


@dataclass
class AgentMemory:
    """Agent 记忆状态: tables of contents and relevant content of one agent session.

    `language` is that of the texts it writes, `"zh"` or `"en"`; `context_tokens` is what one of them may cost by
    `counter`. One that is not `enabled` remembers nothing and writes empty texts.
    """

    toc_cache: dict[str, dict[str, object]] = field(default_factory=dict[str, dict[str, object]])
    """目录缓存, by regulation."""
    known_chapters: list[str] = field(default_factory=list[str])
    """已知章节范围: the chapters of the cached tables of contents."""
    relevant_chunks: list[ContentChunk] = field(default_factory=list[ContentChunk])
    """相关内容: most relevant first."""
    current_query: str = ""
    """当前查询上下文."""
    max_chunks: int = 10
    """最大记忆容量."""
    min_relevance: float = 0.5
    """最小相关性阈值."""
    _: KW_ONLY
    language: InitVar[str] = "zh"
    context_tokens: InitVar[int] = 2_000
    counter: InitVar[TokenCounter | None] = None
    enabled: InitVar[bool] = True

    def __post_init__(
        self, language: str, context_tokens: int, counter: TokenCounter | None, enabled: bool
    ) -> None:
        _check_limits(self.max_chunks, self.min_relevance)
        self._language: Language = check_language(language)
        self._tokens = _check_tokens(context_tokens)
        self._count: Callable[[str], int] = (counter or cautious_counter()).count_text
        self._enabled = enabled

    @classmethod
    def from_config(cls, config: AgentMemoryConfig, *, language: str = "zh") -> AgentMemory:
        """A memory with these settings."""
        return cls(
            max_chunks=config.memory_max_chunks,
            min_relevance=config.memory_min_relevance,
            language=language,
            enabled=config.memory_enabled,
        )

    def cache_toc(self, reg_id: str, toc: Mapping[str, object]) -> None:
        """缓存目录: keep a table of contents, a value of JSON; the newest of a regulation wins."""
        if not check_text(reg_id, path="reg_id").strip():
            raise InvalidRecord("a table of contents of nothing: reg_id is empty", path="reg_id")
        copied = thaw_object(freeze_object(toc, path="toc"))
        if not self._enabled:
            return
        self.toc_cache[reg_id] = copied
        self.known_chapters[:] = dict.fromkeys(
            title for each in self.toc_cache.values() for title in chapters(each)
        )
        _log.debug(f"[Memory] 缓存目录: {reg_id}")

    def get_cached_toc(self, reg_id: str) -> dict[str, object] | None:
        """获取缓存的目录: a copy of it, or None."""
        found = self.toc_cache.get(reg_id)
        return None if found is None else thaw_object(freeze_object(found, path="toc"))

    def has_cached_toc(self, reg_id: str) -> bool:
        """检查目录是否已缓存."""
        return reg_id in self.toc_cache

    def add_chunk(self, chunk: ContentChunk) -> None:
        """添加内容片段: keep a piece by relevance; the least relevant beyond `max_chunks` go.

        The same content of a source is kept once, with its better score; of a page only the newest state is kept. What
        is below `min_relevance` is not kept. A score that is none is refused, and nothing changes.
        """
        self._add([check_chunk(chunk)])

    def add_search_results(self, results: object) -> None:
        """从搜索结果中提取并添加高相关性内容: `results` is the list a search answered with.

        A result that cannot be read (no text, no source, no score from 0 to 1) is refused with its place in the list,
        and nothing of the list is kept.
        """
        found = chunks_of(results)
        self._add(found)
        _log.debug(f"[Memory] 添加搜索结果: {len(found)} 条")

    def add_page_content(self, content: str, source: str, relevance: float = 0.8) -> None:
        """添加页面内容摘要: what a page says; shown as far as the tokens reach, up to the end of a sentence or row."""
        self.add_chunk(ContentChunk(content, source, relevance, "page_content"))
        _log.debug(f"[Memory] 添加页面内容: {source}")

    def get_memory_context(self, *, tokens: int | None = None, fenced: bool = False) -> str:
        """生成记忆上下文: what was found, most relevant first, in at most `tokens`; empty when there is nothing.

        With `fenced` it stands between marks that nothing in it can close: content comes from documents and tools, and
        may hold anything.
        """
        items = [Item(each.source, each.content) for each in self.relevant_chunks]
        return self._text(items, tokens, fenced=fenced)

    def get_toc_cache_hint(self) -> str:
        """生成目录缓存提示: which tables of contents are there.

        The model believes it, so show it only together with what it speaks of: `get_toc_context()`.
        """
        if not self.toc_cache:
            return ""
        words = WORDS[self._language]
        names = ", ".join(map(one_line, self.toc_cache))
        return "\n".join((words.contents, words.fetched.format(names=names), words.no_toc_call))

    def get_toc_context(self, *, tokens: int | None = None, fenced: bool = False) -> str:
        """The cached tables of contents themselves, as outlines in at most `tokens`; the deepest levels go first."""
        items = [Item(reg_id, toc, toc=True) for reg_id, toc in self.toc_cache.items()]
        return self._text(items, tokens, fenced=fenced)

    def clear_query_context(self) -> None:
        """清除当前查询上下文（保留目录缓存）: forget what belongs to the question."""
        self.relevant_chunks.clear()
        self.current_query = ""

    def reset(self) -> None:
        """完全重置记忆."""
        self.clear_query_context()
        self.toc_cache.clear()
        self.known_chapters.clear()

    def _add(self, chunks: list[ContentChunk]) -> None:
        _check_limits(self.max_chunks, self.min_relevance)
        if not self._enabled:
            return
        kept = self.relevant_chunks
        for chunk in chunks:
            kept = with_chunk(kept, chunk, most=self.max_chunks, least=self.min_relevance)
        self.relevant_chunks[:] = kept

    def _text(self, items: list[Item], tokens: int | None, *, fenced: bool) -> str:
        note = WORDS[self._language].note

        def wrap(text: str) -> str:
            return fence(text, label="memory", note=note) if fenced else text

        return items_text(
            items,
            tokens=self._tokens if tokens is None else _check_tokens(tokens),
            count=self._count,
            measure=self._count,
            language=self._language,
            wrap=wrap,
            placed=indented_whole if fenced else at_the_margin,
        )


def _check_limits(max_chunks: int, min_relevance: float) -> None:
    if max_chunks < 1:
        raise InvalidOption(f"max_chunks={max_chunks} must be at least 1")
    check_score(min_relevance, path="min_relevance")


def _check_tokens(tokens: int) -> int:
    if tokens < 1:
        raise InvalidOption(f"tokens={tokens} must be at least 1")
    return tokens
