"""PydanticAI messages of every kind, for properties."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    CachePoint,
    CompactionPart,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryFeedbackPart,
    RetryInfo,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserPromptPart,
    VideoUrl,
)
from pydantic_ai.usage import RequestUsage

texts = st.text(max_size=20) | st.sampled_from(["hello", "你好，世界", '{"a": 1}', "{", "null", ""])
names = st.sampled_from(["search", "read_file", "查询"])
ids = st.sampled_from(["c1", "c2", "call_3"])
times = st.integers(946_684_800_000_000, 4_102_444_800_000_000).map(
    lambda micros: datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)
)
details = st.none() | st.dictionaries(
    st.sampled_from(["a", "细节"]), st.none() | st.integers() | texts, max_size=2
)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
data = st.binary(min_size=1, max_size=12)
media: st.SearchStrategy[Any] = st.one_of(
    st.builds(ImageUrl, url=st.just("https://x.test/a.png"), vendor_metadata=details),
    st.builds(DocumentUrl, url=st.just("https://x.test/a.pdf"), identifier=st.none() | texts),
    st.builds(AudioUrl, url=st.just("https://x.test/a.mp3")),
    st.builds(VideoUrl, url=st.just("https://x.test/a.mp4")),
    st.builds(
        BinaryContent,
        data=data,
        media_type=st.sampled_from(["image/png", "audio/wav", "application/pdf", "text/plain"]),
        identifier=st.none() | texts,
    ),
    st.builds(UploadedFile, file_id=ids, provider_name=st.just("openai")),
)
user_items = (
    texts | media | st.builds(TextContent, content=texts, metadata=details) | st.builds(CachePoint)
)
user_prompts = st.builds(
    UserPromptPart, content=texts | st.lists(user_items, max_size=4), timestamp=times
)
tool_returns = st.builds(
    ToolReturnPart,
    tool_name=names,
    content=values | media | st.lists(texts | media | values, max_size=3),
    tool_call_id=ids,
    metadata=values,
    timestamp=times,
    outcome=st.sampled_from(["success", "failed", "denied", "interrupted"]),
)
feedback = st.builds(
    RetryFeedbackPart,
    content=texts,
    retry=st.builds(RetryInfo, cause=st.sampled_from(["model_retry", "no_output"])),
    timestamp=times,
)
request_parts = (
    user_prompts
    | tool_returns
    | feedback
    | st.builds(SystemPromptPart, content=texts, timestamp=times, metadata=details)
    | st.builds(CompactionPart, content=st.none() | texts)
)
requests = st.builds(
    ModelRequest,
    parts=st.lists(request_parts, min_size=1, max_size=4),
    timestamp=st.none() | times,
    instructions=st.none() | texts,
    run_id=st.none() | ids,
    metadata=details,
    state=st.sampled_from(["complete", "interrupted"]),
)
signed = st.builds(
    ThinkingPart,
    content=texts,
    signature=st.none() | texts,
    provider_name=st.sampled_from(["anthropic", "openai"]),
    provider_details=details,
    id=st.none() | ids,
)
response_parts = st.one_of(
    st.builds(TextPart, content=texts, provider_details=details),
    st.builds(ThinkingPart, content=texts),
    signed,
    st.builds(
        ToolCallPart,
        tool_name=names,
        args=st.none() | texts | st.dictionaries(texts, values, max_size=3),
        tool_call_id=ids,
        id=st.none() | ids,
        provider_details=details,
    ),
    st.builds(NativeToolCallPart, tool_name=names, args=texts, tool_call_id=ids),
    st.builds(NativeToolReturnPart, tool_name=names, content=values, tool_call_id=ids),
    st.builds(
        FilePart,
        content=st.builds(
            BinaryContent, data=data, media_type=st.sampled_from(["image/png", "audio/wav"])
        ),
    ),
    st.builds(CompactionPart, content=st.none() | texts, provider_name=st.just("anthropic")),
)
responses = st.builds(
    ModelResponse,
    parts=st.lists(response_parts, max_size=4),
    usage=st.builds(RequestUsage, input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9)),
    model_name=st.none() | names,
    timestamp=times,
    provider_name=st.none() | names,
    provider_details=details,
    run_id=st.none() | ids,
    metadata=details,
    state=st.sampled_from(["complete", "interrupted", "suspended"]),
)
messages: st.SearchStrategy[ModelMessage] = requests | responses
