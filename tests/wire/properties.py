"""What holds for any payload and any messages: tried a little in every run, and at length in the slow one."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.records.made_messages import messages as any_message
from tests.wire.formats import FORMATS, KEYS, canonical, spoken
from tests.wire.payloads import PROVIDERS, payloads
from tests.wire.samples import MODELS
from turnfold import wire
from turnfold.errors import InvalidRecord
from turnfold.records import Message

__all__ = ("PROPERTIES", "missing_texts", "tried")

payload_cases = st.sampled_from(PROVIDERS).flatmap(
    lambda provider: st.tuples(st.just(provider), payloads[provider])
)
message_cases = st.tuples(st.sampled_from(PROVIDERS), st.lists(any_message, max_size=6))


def after_repair_nothing_is_refused(case: tuple[str, Any]) -> None:
    provider, payload = case
    before = copy.deepcopy(payload)
    fixed = wire.repair(payload, provider)
    assert wire.lint(fixed.payload, provider) == ()
    assert payload == before, "the payload that was given has been changed"
    json.dumps(fixed.payload, allow_nan=False)


def a_payload_without_faults_is_left_alone(case: tuple[str, Any]) -> None:
    provider, payload = case
    fixed = wire.repair(payload, provider).payload
    again = wire.repair(fixed, provider)
    assert again.payload is fixed
    assert again.changes == ()


def every_change_is_listed_and_no_text_lost_unseen(case: tuple[str, Any]) -> None:
    provider, payload = case
    fixed = wire.repair(payload, provider)
    assert bool(fixed.changes) == (fixed.payload is not payload)
    assert missing_texts(payload, fixed) == []


def whatever_can_be_read_comes_back(case: tuple[str, Any]) -> None:
    name, payload = case
    items = payload if isinstance(payload, list) else payload.get(KEYS[name], [])
    if not isinstance(items, list):
        return
    try:
        messages = FORMATS[name].accept_all(items)
    except InvalidRecord:  # what cannot be kept whole is refused, never kept in part
        return
    if messages and messages[0].role == "system" and name == "anthropic":
        return  # a system message at the very front can only be the system prompt
    request = FORMATS[name].request(messages, cache=False, repair=False)
    assert canonical(request.kwargs[KEYS[name]]) == canonical(items)


def any_messages_become_a_request_that_is_taken(case: tuple[str, list[Message]]) -> None:
    target, messages = case
    request = FORMATS[target].request(messages, model=MODELS[target])
    assert wire.lint(request.kwargs, target) == ()
    kept = canonical(request.kwargs) + "".join(
        json.dumps(change.lost, ensure_ascii=False) for change in request.changes
    )
    unescaped = kept.replace('\\\\"', '\\"').replace("\\\\\\\\", "\\\\")
    for text in spoken(messages):
        assert quoted(text) in kept or quoted(text) in unescaped, text


def a_request_read_and_written_again_is_the_same(case: tuple[str, list[Message]]) -> None:
    target, messages = case
    module = FORMATS[target]
    first = module.request(messages, cache=False).kwargs
    second = module.request(module.accept_all(first), cache=False)
    assert canonical(second.kwargs) == canonical(first)
    assert second.changes == ()


PROPERTIES: dict[Callable[[Any], None], st.SearchStrategy[Any]] = {
    after_repair_nothing_is_refused: payload_cases,
    a_payload_without_faults_is_left_alone: payload_cases,
    every_change_is_listed_and_no_text_lost_unseen: payload_cases,
    whatever_can_be_read_comes_back: payload_cases,
    any_messages_become_a_request_that_is_taken: message_cases,
    a_request_read_and_written_again_is_the_same: message_cases,
}


def tried(check: Callable[[Any], None], examples: int, *, same: bool) -> None:
    """Try a property on so many examples: the same ones every time, or new ones."""

    @given(PROPERTIES[check])
    @settings(
        deadline=None,
        database=None,
        derandomize=same,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    def attempt(case: Any) -> None:
        check(case)

    attempt()


def missing_texts(payload: object, fixed: wire.Repaired) -> list[str]:
    """Texts of a payload that stand neither in the repaired one nor among what is listed as lost."""
    kept = json.dumps(fixed.payload, ensure_ascii=False) + "".join(
        json.dumps(change.lost, ensure_ascii=False) + change.lost for change in fixed.changes
    )
    kept += kept.replace('\\"', '"').replace("\\\\", "\\")
    return [text for text in _said(payload) if quoted(text) not in kept and text not in kept]


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


_WORDLESS = frozenset(
    "type role id call_id tool_call_id tool_use_id name model signature data thoughtSignature "
    "cache_control".split()
)


def _said(value: object) -> Iterator[str]:
    """Every text of a payload that is something said: not a type, a role, an id or a name."""
    if isinstance(value, str):
        if value.strip():
            yield value
    elif isinstance(value, list):
        for item in value:
            yield from _said(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _WORDLESS:
                yield from _said(item)
