"""Error texts for arguments that a constructor or a method does not have: they name the right call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from types import FunctionType
from typing import Any, Final, ParamSpec, TypeVar

__all__ = ("MEMORY_ADVICE", "SESSION_ADVICE", "hinted", "hinted_methods", "hinted_names")


_Arguments = ParamSpec("_Arguments")
_Class = TypeVar("_Class", bound=type)
Advice = Callable[[tuple[object, ...], Mapping[str, object]], str]
"""Function that takes arguments given by position and unknown options, and returns an error text; empty if it has no
advice."""


_READ: Final = "history() has what was said, context().messages what a model is sent"
_DELETE: Final = "use clear() to remove what it holds, or memory.delete(...) to delete the session"

SESSION_ADVICE: Final[Mapping[str, str]] = {
    "user.metadata": 'use add({"role": "user", "content": "...", "metadata": {...}})',
    "history.last": "use history()[-3:] for the last 3 entries",
    "recall.k": "use limit=",
    "append": 'use add(message), user("..."), assistant("...") or tool("...", tool_call_id="...")',
    "save_context": 'use user("...") and assistant("...")',
    "search": 'use recall("...")',
    "pop_item": "use erase(seq) with the number of the entry",
    "add_message": "use add(message)",
    **dict.fromkeys(("add_messages", "add_items", "put"), "use add(messages)"),
    **dict.fromkeys(("add_user_message", "add_user"), 'use user("...")'),
    **dict.fromkeys(("add_ai_message", "add_assistant_message"), 'use assistant("...")'),
    **dict.fromkeys(("messages", "get_messages", "get_items", "get", "get_all"), _READ),
    **dict.fromkeys(("load_memory_variables", "buffer", "get_history"), _READ),
    **dict.fromkeys(("clear_session", "clear_history", "reset"), _DELETE),
    **dict.fromkeys(("summarize", "compact", "compress"), "use fold()"),
    **dict.fromkeys(
        ("invoke", "run", "chat", "complete"),
        "send context() to a model client, or use turnfold.Agent",
    ),
}
"""Right call for options and methods that other libraries have and a session has not, by method and option, or by
method: of LangChain's memories, OpenAI's sessions, LlamaIndex."""

_SESSIONS: Final = (
    'memory.session("user-42") needs no creating, and memory.conversations() lists what is stored'
)
_DELETE_ALL: Final = (
    'use delete("user-42") for a session, erase_user("user-42") for everything of a user'
)

MEMORY_ADVICE: Final[Mapping[str, str]] = {
    "save_context": 'use session = memory.session("user-42"), then session.user("...") and session.assistant("...")',
    "chat_memory": 'use memory.session("user-42")',
    "load_memory_variables": 'use memory.session("user-42").context().messages',
    **dict.fromkeys(("add_messages", "put"), 'use memory.session("user-42").add(messages)'),
    **dict.fromkeys(
        ("get_messages", "messages", "buffer"), 'use memory.session("user-42").history()'
    ),
    **dict.fromkeys(("get_all", "get"), f"{_SESSIONS}; session.history() has what was said"),
    **dict.fromkeys(("create_session", "get_session", "new_session", "sessions"), _SESSIONS),
    **dict.fromkeys(
        ("delete_all", "delete_user", "delete_session", "reset", "clear", "erase"), _DELETE_ALL
    ),
    **{
        name: f'use memory.session("user-42").{name}(...)'
        for name in (
            *(
                "add",
                "user",
                "assistant",
                "tool",
                "system",
                "context",
                "history",
                "fold",
                "pin",
                "rules",
            ),
            *("add_rule", "calls", "explain", "record_usage", "status", "fork"),
        )
    },
}
"""Right call for methods that other libraries have and a memory has not: of LangChain's memories, mem0, LlamaIndex, and
of turnfold's own sessions."""


def _no_advice(given: tuple[object, ...], unknown: Mapping[str, object]) -> str:
    del given, unknown
    return ""


def hinted(
    name: str, advice: Advice = _no_advice
) -> Callable[[Callable[_Arguments, None]], Callable[_Arguments, None]]:
    """Decorate the constructor of the class `name`: a `TypeError` for an unknown argument names the right call.

    The signature stays as it is, for readers, editors and type checkers.
    """

    def decorate(init: Callable[_Arguments, None]) -> Callable[_Arguments, None]:
        @wraps(init)
        def construct(*given: _Arguments.args, **options: _Arguments.kwargs) -> None:
            try:
                init(*given, **options)
            except TypeError as error:
                # An error from inside the constructor has one more frame, and is not about its arguments.
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise
                known = inspect.signature(init).parameters
                unknown = {each: options[each] for each in options if each not in known}
                text = advice(given[1:], unknown) or _nearest(name, unknown, known)
                if not text:
                    raise
                raise TypeError(text) from None

        return construct

    return decorate


def _nearest(name: str, unknown: Mapping[str, object], known: Mapping[str, object]) -> str:
    """Return the error text for an option that does not exist, with the known option that is most like it."""
    from difflib import get_close_matches  # for errors only

    for option in unknown:
        like = get_close_matches(option, [each for each in known if each != "self"], 1)
        meant = f": did you mean {like[0]}=?" if like else f"; help({name}) lists its options"
        return f"{name} has no option {option!r}{meant}"
    return ""


def hinted_methods(advice: Mapping[str, str]) -> Callable[[_Class], _Class]:
    """Decorate a class: a `TypeError` for an option that a public method does not have names the right call.

    `advice` has the right calls, by method and option (`history.last`); for others the options of the method are
    listed. A name without an option (`messages`) is a method of other libraries: its `AttributeError` names the right
    call.
    """
    names = {name: told for name, told in advice.items() if "." not in name}

    def decorate(kind: _Class) -> _Class:
        if names:
            type.__setattr__(kind, "__getattr__", _attribute_hint(kind.__name__, names))
        for name, method in list(vars(kind).items()):
            if isinstance(method, FunctionType) and not name.startswith("_"):
                setattr(kind, name, _with_hints(f"{kind.__name__}.{name}", method, advice))
        return kind

    return decorate


def hinted_names(advice: Mapping[str, str], *, items: str) -> Callable[[_Class], _Class]:
    """Decorate a class: the errors for names of other libraries, and for `value["key"]`, name the right call.

    `advice` has the right calls by name; `items` is what to use in place of a key.
    """

    def decorate(kind: _Class) -> _Class:
        def refuse(holder: object, key: object) -> object:
            del holder, key
            raise TypeError(f"{kind.__name__!r} object is not subscriptable: {items}")

        type.__setattr__(kind, "__getattr__", _attribute_hint(kind.__name__, advice))
        type.__setattr__(kind, "__getitem__", refuse)
        type.__setattr__(kind, "__iter__", None)  # or Python would ask for the items 0, 1, 2
        return kind

    return decorate


def _attribute_hint(kind: str, advice: Mapping[str, str]) -> Callable[[object, str], object]:
    """Return a `__getattr__` that raises the `AttributeError` for a name that an object does not have."""

    def refuse(holder: object, name: str) -> object:
        if name not in advice:
            return object.__getattribute__(
                holder, name
            )  # raises the usual error, or that of a property
        raise AttributeError(
            f"{kind!r} object has no attribute {name!r}: {advice[name]}", name=name, obj=holder
        )

    return refuse


def _with_hints(name: str, method: Callable[..., Any], advice: Mapping[str, str]) -> object:
    if inspect.isasyncgenfunction(method):
        return method
    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def wait(*given: object, **options: object) -> object:
            try:
                return await method(*given, **options)
            except TypeError as error:
                if told := _method_hint(error, name, method, options, advice):
                    raise TypeError(told) from None
                raise

        return wait

    @wraps(method)
    def call(*given: object, **options: object) -> object:
        try:
            return method(*given, **options)
        except TypeError as error:
            if told := _method_hint(error, name, method, options, advice):
                raise TypeError(told) from None
            raise

    return call


def _method_hint(
    error: TypeError,
    name: str,
    method: Callable[..., Any],
    options: Mapping[str, object],
    advice: Mapping[str, str],
) -> str:
    """Return the text that names the right call; empty for other errors, such as those from inside the method."""
    known = inspect.signature(method).parameters
    unknown = next((each for each in options if each not in known), None)
    if error.__traceback__ is None or error.__traceback__.tb_next is not None or unknown is None:
        return ""
    names = ", ".join(each for each in known if each != "self") or "none"
    told = advice.get(f"{method.__name__}.{unknown}", f"it takes {names}")
    return f"{name} has no option {unknown!r}: {told}"
