"""Compaction items, signatures and encrypted reasoning: carried to the model that wrote them, and never missed.

The official clients talk to the strict server, which compacts when it is told to, checks that its items come back as it
gave them, and refuses items that it gave to another key or has forgotten. A session goes on whatever happens to them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.models.providers import PROVIDERS, TOOLS, Client, Provider, no_wait
from tests.models.strict_server import (
    RESPONSES,
    Call,
    Cut,
    Line,
    Refuse,
    Say,
    Seen,
    StrictServer,
    Trouble,
    roughly,
)
from turnfold import AsyncMemory, Budget, ModelFailed, wire
from turnfold.memory import AsyncSession
from turnfold.models import Answer
from turnfold.models.failures import Failure, refuses_items
from turnfold.records import Message, OpaquePart, has_compaction
from turnfold.testing.model_replies import Body, seal, sealed_item
from turnfold.tokens import counter_for

WORD = "天蓝-ALPHA-7"
COMPACTED = "compacted: the user gave a code word 代号"
CHAT, RESPONDING, CLAUDE = PROVIDERS
compacting = pytest.mark.parametrize(
    "provider", [RESPONDING, CLAUDE], ids=["openai_responses", "anthropic"]
)


def opaque_values(value: Any) -> Iterator[str]:
    """What only the provider can read."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("encrypted_content", "signature", "data") and isinstance(inner, str):
                yield inner
            else:
                yield from opaque_values(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from opaque_values(inner)


class Compacting(StrictServer):
    """Knows which key it gave an item to."""

    def __init__(self, script: Callable[[Body], Line]) -> None:
        super().__init__(script)
        self.issued: dict[str, str] = {}
        self.refusals: list[str] = []
        self.wording: tuple[str, str] = ("", "")
        """Code and message of a refusal instead of the usual ones."""

    @property
    def _key(self) -> str:
        headers = self.seen[-1].headers
        return headers.get("x-api-key") or headers["authorization"]

    def next_item(self, body: Body) -> Line:
        line = super().next_item(body)
        say = line if isinstance(line, Say) else getattr(line, "reply", Say())
        model = body["model"]
        for made in (
            seal(model, say.thought),
            seal(model, say.compaction),
            sealed_item(model, say.compaction),
        ):
            self.issued[made] = self._key
        return line

    def refusal(self, provider: str, request: Seen, *, counting: bool) -> Refuse | None:
        body = request.body
        refused = super().refusal(provider, request, counting=counting)
        if refused is None:
            for value in opaque_values(body):
                if self.issued.get(value) != self._key:
                    refused = self._refusal(provider, body)
                    self.refusals.append(refused.message)
                    break
        return refused

    def _refusal(self, provider: str, body: Body) -> Refuse:
        code, message = self.wording
        if message:
            return Refuse(400, message, code=code)
        if provider == RESPONSES:
            text = "The encrypted content gAAA...Rg== could not be verified."
            return Refuse(400, text, code="invalid_encrypted_content")
        if '"compaction"' in json.dumps(body["messages"]):
            return Refuse(400, "The block does not verify.", code="compaction_signature_invalid")
        return Refuse(400, "messages.1.content.0: Invalid `signature` in `thinking` block")


def asked(body: Body) -> str:
    """The newest message of a request."""
    return json.dumps((body.get("messages") or body["input"])[-1], ensure_ascii=False)


def answering(body: Body) -> Line:
    """A model that thinks about everything and compacts at the third question."""
    number = asked(body).partition("question ")[2].partition(":")[0]
    return Say(
        f"Answer {number}. 答 {number}。",
        thought=f"thought {number}",
        compaction=COMPACTED if number == "3" else "",
    )


def sent(server: StrictServer, at: int = -1) -> str:
    """A request as text."""
    return json.dumps(server.seen[at].body, ensure_ascii=False)


def item_of(message: Message) -> Body:
    """The compaction item in a message."""
    [found] = [
        json.loads(part.json)
        for part in message.parts
        if isinstance(part, OpaquePart) and "compaction" in part.json
    ]
    return found


@dataclass
class Talk:
    """A session and the client it is held with."""

    session: AsyncSession
    client: Client
    server: Compacting
    streamed: bool = False
    answers: list[Answer] = field(default_factory=list[Answer])

    async def ask(self, first: int, last: int) -> list[Answer]:
        """Ask the questions of these numbers; return the answers."""
        found: list[Answer] = []
        for number in range(first, last + 1):
            said = f" The code word is {WORD}. 代号是 {WORD}。" if number == 1 else ""
            await self.session.user(f"question {number}: 还有吗? What else?{said}")
            found.append(await self.answer())
        self.answers += found
        return found

    async def answer(self) -> Answer:
        """Call the model with the context of now, and store what it answers."""
        context = await self.session.context(to=self.client)
        if self.streamed:
            answer = await self.client.stream(context)
        else:
            answer = await self.client.complete(context)
        await self.session.add(answer.message)
        if answer.usage is not None:
            await self.session.record_usage(answer.usage)
        return answer

    def with_client(self, provider: Provider, model: str = "model-1", key: str = "k") -> None:
        """Go on with another client."""
        url = f"{self.server.url}{provider.path}"
        self.client = provider.make(model, base_url=url, api_key=key, sleep=no_wait)


def held(
    provider: Provider,
    use: Callable[[Talk], Awaitable[None]],
    script: Callable[[Body], Line] = answering,
    *,
    streamed: bool = False,
    memory_options: dict[str, Any] | None = None,
    **options: Any,
) -> None:
    """Hold a conversation in a memory of its own, with the real client and a server that compacts."""
    kept = {"budget": Budget(max_tokens=4_000), **(memory_options or {})}

    async def inside() -> None:
        with Compacting(script) as server:
            async with (
                AsyncMemory("sqlite://", **kept) as memory,
                provider.client(server, **options) as client,
            ):
                await use(Talk(memory.session("s"), client, server, streamed))
            assert server.rejected == []

    asyncio.run(inside())


@compacting
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_an_item_comes_back_as_it_was_and_stands_for_what_is_before_it(
    provider: Provider, *, streamed: bool
) -> None:
    async def use(talk: Talk) -> None:
        await talk.ask(1, 5)
        item = item_of(talk.answers[2].message)
        before, after = sent(talk.server, 2), sent(talk.server, 4)
        assert WORD in before
        assert WORD not in after  # the item stands for it
        assert json.dumps(item, ensure_ascii=False) in after
        assert ("question 3" in after, "question 4" in after) == (False, True)
        [left_out] = [each for each in talk.answers[4].changes if "compaction" in each]
        assert left_out.startswith("messages[0] left out: 5 messages that a compaction item of")
        [entry] = await talk.session.history(after=5, limit=1)
        assert item_of(entry.message) == item  # in the log as it came
        assert talk.server.refusals == []

    held(provider, use, streamed=streamed)


def test_the_beta_header_is_sent_with_the_callers_own() -> None:
    async def use(talk: Talk) -> None:
        await talk.ask(1, 4)
        await talk.session.user("one more")
        context = await talk.session.context()
        assert await talk.client.count_tokens(context) is not None
        headers = talk.server.seen[-1].headers
        assert headers["anthropic-beta"] == "mine-2026-01-01,compact-2026-01-12"

    options = {"extra_headers": {"anthropic-beta": "mine-2026-01-01"}}
    held(CLAUDE, use, options=options)


async def lost(talk: Talk, provider: Provider) -> None:
    """The entry that holds the item is erased."""
    del provider
    await talk.session.erase(6)


async def expired(talk: Talk, provider: Provider) -> None:
    """The provider no longer knows its items."""
    del provider
    talk.server.issued.clear()


async def refused_otherwise(talk: Talk, provider: Provider) -> None:
    """The same in other words, as seen at Azure and Anthropic."""
    await expired(talk, provider)
    talk.server.wording = (
        ("invalid_value", "Conflicting authenticated continuation identities.")
        if provider is RESPONDING
        else (
            "",
            "messages.0.content.0.compaction.encrypted_content: Extra inputs are not permitted",
        )
    )


async def other_model(talk: Talk, provider: Provider) -> None:
    talk.with_client(provider, "another-model")


async def other_key(talk: Talk, provider: Provider) -> None:
    talk.with_client(provider, key="of another organisation")


async def other_provider(talk: Talk, provider: Provider) -> None:
    talk.with_client(CHAT if provider is RESPONDING else RESPONDING)


FAULTS = {
    each.__name__: each
    for each in (lost, expired, refused_otherwise, other_model, other_key, other_provider)
}
ASKED_TWICE = {"expired", "refused_otherwise", "other_key"}


@compacting
@pytest.mark.parametrize(
    "streamed", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["whole", "streamed"]
)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_session_goes_on_without_its_item(
    provider: Provider, fault: str, *, streamed: bool
) -> None:
    async def use(talk: Talk) -> None:
        await talk.ask(1, 5)
        assert WORD not in sent(talk.server)
        await FAULTS[fault](talk, provider)
        item = item_of(talk.answers[2].message)["encrypted_content"]
        answers = await talk.ask(6, 8)
        assert [answer.message.text for answer in answers] == [
            f"Answer {number}. 答 {number}。" for number in (6, 7, 8)
        ]
        # The plain log stands in, and the item is tried once at most.
        assert all(WORD in sent(talk.server, at) for at in (-3, -2, -1))
        assert all(item not in sent(talk.server, at) for at in (-3, -2, -1))
        assert len(talk.server.refusals) == (1 if fault in ASKED_TWICE else 0)
        told = [each for each in answers[0].changes if "the provider refused one" in each]
        assert len(told) == len(talk.server.refusals)

    held(provider, use, streamed=streamed)


@compacting
def test_without_the_second_request_such_a_session_is_over(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnfold.models.base_client.refuses_items", lambda _: False)

    async def use(talk: Talk) -> None:
        await talk.ask(1, 5)
        await expired(talk, provider)
        for number in (6, 7):
            with pytest.raises(ModelFailed):
                await talk.ask(number, number)

    held(provider, use)


@compacting
@pytest.mark.parametrize("after", [1, 4, 7])
@pytest.mark.parametrize("politely", [False, True])
def test_a_stream_that_breaks_in_the_item_leaves_nothing_behind(
    provider: Provider, after: int, *, politely: bool
) -> None:
    broken: list[int] = []

    def script(body: Body) -> Line:
        line = answering(body)
        if "question 3" in asked(body) and isinstance(line, Say) and not broken:
            broken.append(after)
            return Cut(line, after, politely=politely)
        return line

    async def use(talk: Talk) -> None:
        await talk.ask(1, 2)
        try:
            await talk.ask(3, 3)
        except ModelFailed:  # some text was delivered: the caller decides
            await talk.answer()
        await talk.ask(4, 5)
        assert talk.server.refusals == []
        assert WORD not in sent(talk.server)
        assert len(await talk.session.history()) == 10

    held(provider, use, script, streamed=True)


@compacting
def test_a_refusal_in_the_middle_of_an_answer_is_not_repeated(provider: Provider) -> None:
    def script(body: Body) -> Line:
        line = answering(body)
        if "question 5" in asked(body) and list(opaque_values(body)) and isinstance(line, Say):
            text = "The encrypted content could not be verified."
            delivering = 6 if provider is RESPONDING else 10
            return Trouble(line, delivering, kind="invalid_encrypted_content", message=text)
        return line

    async def use(talk: Talk) -> None:
        await talk.ask(1, 4)
        with pytest.raises(ModelFailed):
            await talk.ask(5, 5)
        answer = await talk.answer()  # the same call again
        assert answer.message.text == "Answer 5. 答 5。"
        assert WORD in sent(talk.server)

    held(provider, use, script, streamed=True)


def test_thinking_is_switched_off_where_a_tool_loop_lost_its_thoughts() -> None:
    def script(body: Body) -> Line:
        if "tool_result" in asked(body):
            return Say("Done. 好。", thought="and so" if "thinking" in body else "")
        return Say(calls=(Call("c1", "look", {"place": "x"}),), thought="let me look")

    async def use(talk: Talk) -> None:
        async def step() -> Answer:
            context = await talk.session.context(to=talk.client, tools=TOOLS)
            answer = await talk.client.complete(context, tools=TOOLS)
            await talk.session.add(answer.message)
            return answer

        await talk.session.user("question 1: look")
        await step()
        await talk.session.tool("seen", tool_call_id="c1")
        talk.server.issued.clear()
        answer = await step()
        assert answer.message.text == "Done. 好。"
        assert len(talk.server.refusals) == 1
        assert talk.server.seen[-1].body["thinking"] == {"type": "disabled"}

    held(CLAUDE, use, script, options={"thinking": {"type": "enabled", "budget_tokens": 1024}})


@compacting
@pytest.mark.parametrize("refusal", ["messages.0.content: Field required", "Invalid API key"])
def test_another_refusal_is_final(provider: Provider, refusal: str) -> None:
    async def use(talk: Talk) -> None:
        with pytest.raises(ModelFailed, match=refusal):
            await talk.ask(1, 1)
        assert len(talk.server.seen) == 1

    held(provider, use, lambda _: Refuse(400, refusal))


@compacting
def test_a_refusal_without_anything_to_leave_out_is_final(provider: Provider) -> None:
    text = "The encrypted content could not be verified."

    async def use(talk: Talk) -> None:
        with pytest.raises(ModelFailed, match=text):
            await talk.ask(1, 1)
        assert len(talk.server.seen) == 1

    held(provider, use, lambda _: Refuse(400, text))


def compacting_as_asked(body: Body) -> Line:
    """A model that compacts at the tokens it is asked to."""
    asked_for = body["context_management"]
    if isinstance(asked_for, list):
        [edit], used = asked_for, roughly(body["input"])
        trigger = edit["compact_threshold"]
    else:
        [edit], used = asked_for["edits"], roughly(body["messages"])
        trigger = edit["trigger"]["value"]
    return Say("Noted. 好。", compaction=COMPACTED if used >= trigger else "")


@compacting
@pytest.mark.parametrize("mode", ["native", "auto"])
def test_a_memory_asks_the_provider_to_compact(provider: Provider, mode: str) -> None:
    tokens, model = (80_000, "claude-opus-5") if provider is CLAUDE else (6_000, "gpt-5.4")

    async def use(talk: Talk) -> None:
        talk.with_client(provider, model)
        for number in range(16):
            word = f"code word {WORD}" if number == 0 else ""
            await talk.session.user(f"{number} {word} " + "a parcel on the shelf " * (tokens // 50))
            await talk.answer()
        entries = await talk.session.history()
        items = [entry.seq for entry in entries if has_compaction(entry.message)]
        assert len(items) >= 2
        folded = [each.upto for each in await talk.session.checkpoints()]
        assert items[0] - 1 in folded  # after a step before it, where the range is long
        assert max(folded) < items[-1]
        assert WORD not in sent(talk.server)
        talk.server.issued.clear()  # and on the day its items are worth nothing
        await talk.session.user("And now? 然后呢?")
        await talk.answer()
        assert WORD in sent(talk.server)
        assert len(talk.server.refusals) == 1

    options = {
        "budget": Budget(max_tokens=tokens),
        "counter": counter_for("gpt-4o"),
        "compaction": mode,
        "recall": "off",
    }
    held(provider, use, compacting_as_asked, memory_options=options)


UNKNOWN = {
    "openai_responses": "Unknown parameter: 'context_management'.",
    "anthropic": "This model does not support the compact_20260112 edit.",
}


@compacting
def test_a_server_that_cannot_compact_is_asked_once(provider: Provider) -> None:
    def script(body: Body) -> Line:
        if "context_management" in body:
            return Refuse(400, UNKNOWN[provider.name])
        return Say("Noted. 好。")

    async def use(talk: Talk) -> None:
        await talk.ask(1, 3)
        asking = ["context_management" in seen.body for seen in talk.server.seen]
        assert asking == [True, False, False, False]

    options = {"budget": Budget(max_tokens=80_000), "compaction": "native"}
    held(provider, use, script, memory_options=options)


SIGNED = {
    "role": "model",
    "parts": [
        {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "U0lHTkVE"},
    ],
}


def test_gemini_gets_its_signatures_back_until_it_refuses_them() -> None:
    history = wire.gemini.accept_all(
        [{"role": "user", "parts": [{"text": "look"}]}, SIGNED], model="gemini-3-pro"
    )
    written = wire.gemini.request(history, model="gemini-3-pro").kwargs["contents"][1]
    assert written == SIGNED
    refused = {wire.item_key(message) for message in history}
    again = wire.gemini.request(history, model="gemini-3-pro", refused=refused)
    assert "U0lHTkVE" not in json.dumps(again.kwargs)
    assert "functionCall" in json.dumps(again.kwargs)
    assert any("thoughtSignature" in str(change) for change in again.changes)


@pytest.mark.parametrize(
    "target", ["gemini-2.5-flash", "openai_chat", "openai_responses", "anthropic"]
)
def test_others_get_the_messages_without_the_signatures_of_gemini(target: str) -> None:
    history = wire.gemini.accept_all(
        [
            {"role": "user", "parts": [{"text": "look"}]},
            SIGNED,
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": "look", "response": {"result": "roses"}}}],
            },
        ],
        model="gemini-3-pro",
    )
    name = "gemini" if target.startswith("gemini") else target
    written = getattr(wire, name).request(history, model=target).kwargs
    assert "U0lHTkVE" not in json.dumps(written)
    assert "roses" in json.dumps(written)
    assert wire.lint(written, name) == ()
    # A log without the entry that held the signature is still a valid request.
    rest = getattr(wire, name).request([history[0], *history[2:]], model=target).kwargs
    assert wire.lint(rest, name) == ()


REFUSALS = [
    ("invalid_encrypted_content", "The encrypted content gAAA...Rg== could not be verified."),
    ("invalid_value", "Conflicting authenticated continuation identities."),
    ("", "Item 'rs_1' of type 'reasoning' was provided without its required following item."),
    ("", "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."),
    ("", "Unknown parameter: 'context_management'."),
    ("", "messages.5.content.0: Invalid `signature` in `thinking` block"),
    ("", "messages.1.content.0: Invalid `data` in `redacted_thinking` block"),
    ("", "`thinking` or `redacted_thinking` blocks in the latest message cannot be modified."),
    ("", "messages.2.content.0.compaction.encrypted_content: Extra inputs are not permitted"),
    ("compaction_signature_invalid", "The block does not verify."),
    ("compaction_block_misplaced", "The block is not the first."),
    ("", "Input tag 'compaction' found using 'type' does not match any of the expected tags"),
    ("INVALID_ARGUMENT", "Unable to submit request because Thought signature is not valid."),
    ("INVALID_ARGUMENT", "Corrupted thought signature."),
    ("INVALID_ARGUMENT", "Function call is missing a thought_signature in functionCall parts."),
]
OTHERS = [
    ("", "max_tokens must be greater than thinking.budget_tokens"),
    ("", "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after"),
    ("invalid_api_key", "Incorrect API key provided"),
    ("model_not_found", "The model `gpt-9` does not exist"),
    ("context_length_exceeded", "the encrypted content is too long"),
]


@pytest.mark.parametrize(("code", "message"), REFUSALS)
def test_the_refusals_of_the_providers_are_known(code: str, message: str) -> None:
    assert refuses_items(Failure(message=message, status=400, code=code))
    assert not refuses_items(Failure(message=message, status=503, code=code))


@pytest.mark.parametrize(("code", "message"), OTHERS)
def test_other_refusals_are_not_taken_for_them(code: str, message: str) -> None:
    assert not refuses_items(Failure(message=message, status=400, code=code))
