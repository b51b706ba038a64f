"""Memory for the clients of a LiteLLM proxy, as a callback of the proxy.

Clients of the chat interface send their whole history with every request. Before the proxy passes a request on, the
hook stores that history in the log of its conversation, and sends the session's context instead. Every history is taken
as the whole conversation: if a client starts over, earlier messages are no longer shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final, cast

from litellm.integrations.custom_logger import CustomLogger

from turnfold import wire
from turnfold._caches import SizedCache
from turnfold.adapters._common import HistoryView, ThreadBridge, function_schema, session_of
from turnfold.memory import AsyncMemory, AsyncSession, Memory
from turnfold.records import Message, Origin, TextPart, freeze
from turnfold.stores import short_name
from turnfold.wire import JsonObject, list_of, object_of, objects_of, text_at

__all__ = ("TurnfoldHook",)


_CHAT: Final = frozenset({"completion", "acompletion"})
"""LiteLLM's call types for requests of the chat interface."""
_SYSTEM: Final = ("system", "developer")
_MOST = 256
"""Most conversations whose state is cached; the least recently used one is dropped first."""


class TurnfoldHook(CustomLogger):
    """Fits the chat requests of a LiteLLM proxy to the budget of a memory.

    The conversation of a request is `user/session`: the user (or the key) that LiteLLM knows, and the session id that
    the client sends (`litellm_session_id`, the header `x-litellm-session-id`). Without one, it is named after the
    beginning of the history. With `recall`, folded (compacted) content that matches the user's words is shown again.
    """

    def __init__(self, memory: AsyncMemory | Memory, *, recall: bool = True) -> None:
        super().__init__()
        self._memory = memory
        self._recall = recall
        self._bridge = ThreadBridge(memory)
        self._views: SizedCache[str, HistoryView] = SizedCache(limit=_MOST)

    async def async_pre_call_hook(
        self, user_api_key_dict: object, cache: object, data: dict[str, object], call_type: str
    ) -> dict[str, object] | None:
        """Return the chat request with messages that fit the budget; None (no change) for other interfaces."""
        del cache
        messages = objects_of(data.get("messages"))
        if call_type not in _CHAT or not messages:
            return None
        leading = next(
            (at for at, one in enumerate(messages) if one.get("role") not in _SYSTEM), len(messages)
        )
        texts = [text for one in messages[:leading] if (text := _text_of(one)).strip()]
        view = self._view(_owner(user_api_key_dict), _session_id(data, messages))
        fitted = await self._bridge(
            view.fit(
                [_copied(one) for one in messages[leading:]],
                system=texts,
                tools=_tools(data),
                to=wire.openai_chat,
                model=data.get("model", ""),
            )
        )
        system = messages[:leading]
        if fitted.system != texts:
            system = [{"role": "system", "content": text} for text in fitted.system]
        sent = wire.openai_chat.request(fitted.messages).kwargs["messages"]
        return {**data, "messages": [*system, *(list_of(sent) or [])]}

    def _view(self, owner: str, session_id: str) -> HistoryView:
        session: AsyncSession = session_of(self._memory, short_name(f"{owner}/{session_id}"))
        known = self._views.get(session.id)
        if known is None:
            known = HistoryView(
                session,
                _record_of,
                adapter=type(self).__name__,
                recall=self._recall,
                continues=False,
            )
            self._views.put(session.id, known)
        return known


def _owner(key: object) -> str:
    """Return the sender of a request: the user of its API key, or the hash of the key."""
    names = (getattr(key, name, None) for name in ("user_id", "token", "api_key"))
    return next((str(name) for name in names if name), "anonymous")


def _session_id(data: Mapping[str, object], messages: Sequence[JsonObject]) -> str:
    metadata = object_of(data.get("metadata")) or {}
    given = data.get("litellm_session_id") or metadata.get("session_id")
    if given:
        return str(given)
    first = next((at for at, one in enumerate(messages) if one.get("role") == "user"), 0)
    beginning = json.dumps(messages[: first + 1], sort_keys=True, default=str)
    return f"begins:{blake2b(beginning.encode('utf-8', 'replace'), digest_size=12).hexdigest()}"


def _copied(message: JsonObject) -> JsonObject:
    return cast("JsonObject", json.loads(json.dumps(message)))


def _record_of(fields: JsonObject) -> Message:
    """Convert a chat message to a record (stored form); a system message inside the history gets the role user."""
    if fields.get("role") not in _SYSTEM:
        return wire.openai_chat.accept(fields)
    origin = Origin(wire.openai_chat.PROVIDER, form=freeze({"=": [fields]}, path="form"))
    return Message.of("user", (TextPart(_text_of(fields)),), origin=origin)


def _text_of(message: JsonObject) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(text_at(block, "text") for block in objects_of(content))


def _tools(data: Mapping[str, object]) -> list[JsonObject]:
    """Return the tool schemas and the answer format of a request, to count their tokens."""
    tools = objects_of(data.get("tools"))
    answer = object_of(data.get("response_format"))
    if answer is not None:
        schema = object_of(answer.get("json_schema")) or answer
        tools.append(function_schema(text_at(schema, "name") or "answer", "", schema))
    return tools
