"""Document 001's memories over a store: loaded, written back, the same after a restart, for any number of writers."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory.conversations import agent_transcript, chat, gaps, marks, pairing_faults
from tests.memory.fakes import ScriptedModel, told
from tests.memory.short_faults import Faulty
from turnfold import (
    InvalidOption,
    Memory,
    Message,
    SummaryTokenMemory,
    TokenMemory,
    assistant,
    system,
    user,
)
from turnfold.errors import IdReused, InvalidRecord, StoreUnavailable
from turnfold.memories.history_overlap import count_known
from turnfold.stores import MemoryStore, Scope, open_store

S = "user_123"


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/tokens.db"


@pytest.fixture(params=["sqlite", "postgres"])
def anywhere(request: pytest.FixtureRequest, address: str, tmp_path: Path) -> Iterator[str]:
    """The address of an empty store."""
    if request.param == "sqlite":
        yield address
        return
    pytest.importorskip("psycopg", reason="needs psycopg")
    from tests.memory.short_places import as_url
    from tests.stores.servers import PostgresPlaces

    places = PostgresPlaces()
    yield as_url(places.url(tmp_path))
    places.sweep()
    places.close()


def history(storage: object, raw: Sequence[object] = (), **options: Any) -> list[Message]:
    """One call in a process of its own."""

    async def ask() -> list[Message]:
        async with TokenMemory(S, storage, **options) as memory:
            return await memory.get_history(raw)

    return asyncio.run(ask())


def summarised(
    storage: object, model: ScriptedModel, raw: Sequence[object] = (), max_tokens: int = 1500
) -> list[Message]:
    async def ask() -> list[Message]:
        async with SummaryTokenMemory(
            S, model, storage=storage, max_tokens=max_tokens, summary_reserve_tokens=200
        ) as memory:
            return await memory.get_history(raw)

    return asyncio.run(ask())


def stored(storage: Any) -> list[Message]:
    """The whole log, read without the memory."""
    with Memory(storage) as memory:
        return [entry.message for entry in memory.session(S).history(limit=10_000)]


# ------------------------------------------------------------------------------------------- histories


def test_a_history_outlives_its_process(anywhere: str) -> None:
    log = [system("rules"), *chat(5)]
    assert history(anywhere, log) == log
    assert history(anywhere) == log
    assert history(anywhere, []) == log
    more = [*log, user("<10> more")]
    assert history(anywhere, more) == more
    assert stored(anywhere) == more


def test_what_is_passed_again_is_stored_once(address: str) -> None:
    log = chat(6)
    for stop in (2, 2, 7, 5, 12, 12):
        assert history(address, log[:stop])[-1] == log[max(stop - 1, len(stored(address)) - 1)]
    newer = [*log[8:], user("<12> newer")]
    assert history(address, newer) == [*log, newer[-1]], "only the newer part of it"
    assert history(address, [user("<13> alone")])[-1].text == "<13> alone"
    assert marks(stored(address)) == list(range(14))


def test_what_is_stored_is_whole_however_little_is_shown(address: str) -> None:
    log = agent_transcript(30)
    shown = history(address, log, max_tokens=1000)
    assert len(shown) < len(log)
    assert pairing_faults(shown) == []
    assert stored(address) == log
    wide = history(address, max_tokens=10**6, max_message_length=10**6)
    assert wide == log, "a larger budget shows it again"


def test_a_new_system_message_takes_the_place_of_the_old_one(address: str) -> None:
    log = chat(2)
    history(address, [system("old rules"), *log])
    assert history(address, [system("new rules"), *log]) == [system("new rules"), *log]
    assert history(address, [*log, user("<4> next")])[0] == system("new rules")
    assert history(address, [system("new rules"), *log])[0] == system("new rules")
    assert [each.text for each in stored(address) if each.role == "system"] == [
        "old rules",
        "new rules",
    ]
    with Memory(address) as memory:
        assert memory.session(S).context().messages[0] == system("new rules")


def test_a_message_that_was_said_before_is_added_by_name(address: str) -> None:
    async def run() -> None:
        async with TokenMemory(S, address) as memory:
            await memory.get_history(chat(1))
            for _ in range(3):
                await memory.add_messages(
                    [user("<0> again"), assistant("<1> again")], client_id="2"
                )
            await memory.add_messages(chat(1)[:1])
            with pytest.raises(IdReused):
                await memory.add_messages([user("else"), user("else")], client_id="2")
            assert marks(await memory.get_history()) == [0, 1, 0, 1, 0]

    asyncio.run(run())


def test_an_open_store_and_a_tenant_may_be_given(tmp_path: Path) -> None:
    async def run() -> None:
        store = open_store(f"sqlite:///{tmp_path}/a.db")
        ours, theirs = TokenMemory(S, (store, Scope("ours"))), TokenMemory(S, (store, "theirs"))
        await ours.get_history(chat(2))
        assert await theirs.get_history() == []
        await ours.close()
        assert len(await ours.get_history()) == 4, "a store that was given stays open"
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("storage", [object(), 3, ("sqlite://", 3), {"host": "x"}, ""])
def test_what_can_hold_no_history_is_refused(storage: object) -> None:
    with pytest.raises((InvalidOption, ValueError)):
        TokenMemory(S, storage)
    with pytest.raises(InvalidOption, match="storage"):
        asyncio.run(TokenMemory(S).add_messages(chat(1)))


# ------------------------------------------------------------------------- objects with get, set and delete


class Values:
    """The document's `SessionInterface`, over JSON texts."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def get(self, key: str) -> object:
        return json.loads(self.texts[key]) if key in self.texts else None

    def set(self, key: str, value: object) -> None:
        self.texts[key] = json.dumps(value, ensure_ascii=False)

    def delete(self, key: str) -> None:
        self.texts.pop(key, None)


class AsyncValues(Values):
    """The same for programs with an event loop."""

    async def get(self, key: str) -> object:
        await asyncio.sleep(0)
        return super().get(key)

    async def set(self, key: str, value: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - that is the point
        await asyncio.sleep(0)
        super().set(key, value)


@pytest.fixture(params=[Values, AsyncValues])
def values(request: pytest.FixtureRequest) -> Values:
    return request.param()


def test_an_object_with_get_and_set_keeps_the_history(values: Values) -> None:
    log = [system("规则"), *agent_transcript(10)]
    assert history(values, log, max_tokens=10**6) == log
    assert history(values, max_tokens=10**6) == log
    newer = [*log[-3:], user("<90> 还在")]
    assert history(values, newer, max_tokens=10**6) == [*log, newer[-1]]
    assert history(values, [system("new"), *log[1:]], max_tokens=10**6)[0] == system("new")
    kept = json.loads(values.texts[S])
    assert len(kept["messages"]) == len(log) + 1, "each once"
    assert kept["messages"][0] == {"role": "system", "content": "new"}


def test_what_else_is_in_the_value_is_left_alone(values: Values) -> None:
    values.texts[S] = json.dumps(
        {"messages": [{"role": "user", "content": "<0> from elsewhere"}], "theme": "dark"}
    )
    assert history(values) == [user("<0> from elsewhere")]
    assert history(values, [user("<0> from elsewhere"), assistant("<1> ok")])[-1].text == "<1> ok"
    assert json.loads(values.texts[S])["theme"] == "dark"

    async def run() -> None:
        async with TokenMemory(S, values) as memory:
            for _ in range(3):
                await memory.add_messages([user("<2> again")], client_id="2")
            await memory.add_messages([user("<2> again")])
            assert marks(await memory.get_history()) == [0, 1, 2, 2]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ('{"messages": []}', "got str, expected a dict"),
        ([{"role": "user", "content": "hi"}], "got list, expected a dict"),
        ({"summary": 5}, "Expected `str`, got `int` - at `$.summary`"),
        ({"upto": "x"}, "Expected `int`, got `str` - at `$.upto`"),
    ],
)
def test_a_value_that_cannot_be_read_is_an_error_that_says_so(value: object, problem: str) -> None:
    values = Values()
    values.set(S, value)

    async def ask() -> None:
        await SummaryTokenMemory(S, ScriptedModel(), storage=values).get_history([user("hi")])

    expected = (
        f"the value that the storage has for session '{S}' cannot be read: {problem}. get() must"
    )
    with pytest.raises(InvalidRecord, match=re.escape(expected)):
        asyncio.run(ask())


def test_a_summary_is_kept_there_and_cleared_there(values: Values) -> None:
    log = [system("规则"), *chat(60)]
    heard: list[int] = []
    shown: list[Message] = []
    for stop in range(7, 122, 6):
        model = scribe()
        shown = summarised(values, model, log[:stop])
        assert remembered(shown) == set(range(stop - 1))
        heard += told(model)
    assert heard == list(range(len(heard))), "each once, whatever restarts there are"
    assert len(heard) > 40
    memory = SummaryTokenMemory(S, scribe(), storage=values, max_tokens=1500)
    memory.clear_summary()
    assert len(json.loads(values.texts[S])["messages"]) == 121, "the history stays"
    again = scribe()
    assert remembered(summarised(values, again)) == set(range(120))
    assert told(again)[0] == 0


def test_tasks_that_share_it_lose_nothing(values: Values) -> None:
    async def run() -> None:
        memory = TokenMemory(S, values)
        await asyncio.gather(*(memory.add_messages([user(f"<{n}> 你好")]) for n in range(20)))
        assert sorted(marks(await memory.get_history())) == list(range(20))

    asyncio.run(run())


# -------------------------------------------------------------------------------------------- writers


def test_two_writers_lose_and_double_nothing(anywhere: str) -> None:
    """Each knows the common beginning and its own messages, and passes all of that every time."""
    begun = chat(2)
    history(anywhere, begun)

    async def write(name: str) -> None:
        async with TokenMemory(S, anywhere) as memory:
            mine: list[Message] = []
            for number in range(8):
                mine.append(user(f"{name}-{number}"))
                await memory.get_history([*begun, *mine])
                await memory.get_history([*begun, *mine])

    async def run() -> None:
        await asyncio.gather(*(write(name) for name in "abc"))

    asyncio.run(run())
    log = stored(anywhere)
    assert log[:4] == begun
    said = [message.text for message in log[4:]]
    assert sorted(said) == sorted(f"{name}-{number}" for name in "abc" for number in range(8))
    for name in "abc":
        assert [text for text in said if text.startswith(name)] == [f"{name}-{n}" for n in range(8)]


@pytest.mark.parametrize("same", [True, False], ids=["the same", "others"])
def test_a_writer_in_between_is_seen(same: bool) -> None:  # noqa: FBT001 (a parameter of the test)
    log = chat(2)
    inner = MemoryStore()
    store = Faulty(inner)
    theirs = log if same else [*log[:2], user("theirs")]
    asyncio.run(_ask(inner, log[:2]))

    def meanwhile() -> None:  # another process: in a thread, because this one runs a loop
        thread = threading.Thread(target=lambda: asyncio.run(_ask(inner, theirs)))
        thread.start()
        thread.join()

    store.before["append"] = meanwhile
    found = asyncio.run(_ask(store, log))
    assert found == (log if same else [*log[:2], user("theirs"), *log[2:]])


async def _ask(store: object, raw: Sequence[object]) -> list[Message]:
    return await TokenMemory(S, store).get_history(raw)


def test_a_writer_that_does_not_look_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sabotage of the two tests above: appending without saying what one believes to be the newest."""
    append = MemoryStore.append

    async def blindly(store: Any, scope: Any, conversation: str, entries: Any, **_: Any) -> Any:
        return await append(store, scope, conversation, entries)

    monkeypatch.setattr(MemoryStore, "append", blindly)
    with pytest.raises(AssertionError):
        test_a_writer_in_between_is_seen(same=True)


DIGESTS = st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=8)


@settings(deadline=None)
@given(DIGESTS, DIGESTS)
def test_a_history_passed_again_adds_nothing(log: list[bytes], new: list[bytes]) -> None:
    held = [*log, *new[count_known(log, new) :]]
    assert count_known(held, held) == len(held)
    longer = [*held, b"new"]
    assert count_known(held, longer) == len(held)
    assert count_known(held, held[: len(held) // 2]) == len(held) // 2


# ------------------------------------------------------------------------------------------ summaries


def scribe() -> ScriptedModel:
    """A model whose summary names everything it was told, before and now."""

    def answer(prompt: str) -> str:
        said = {int(number) for number in re.findall(r"<(\d+)>", prompt)}
        numbers = sorted({*said, *_spans(prompt)})
        starts = [n for n in numbers if n - 1 not in numbers]
        ends = [n for n in numbers if n + 1 not in numbers]
        runs = zip(starts, ends, strict=True)
        return "told " + " ".join(f"#{first}-{last}#" for first, last in runs)

    return ScriptedModel(answer)


def _spans(text: str) -> set[int]:
    runs = re.findall(r"#(\d+)-(\d+)#", text)
    return {number for first, last in runs for number in range(int(first), int(last) + 1)}


def remembered(messages: Sequence[Message]) -> set[int]:
    """The numbers of all messages that are shown or told of."""
    notices = [each.text for each in messages if each.role == "system" and "<summary " in each.text]
    return {*marks(messages), *_spans(" ".join(notices))}


def test_a_summary_outlives_its_process(address: str) -> None:
    log = chat(100)
    shown: list[Message] = []
    for stop in range(10, 201, 10):
        shown = summarised(address, scribe(), log[:stop])
        assert remembered(shown) == set(range(stop)), stop
        assert gaps(shown, log[:stop]) == []
    silent = scribe()
    assert summarised(address, silent) == shown
    assert silent.prompts == [], "nothing is summarised again after a restart"


def test_each_message_is_summarised_once_whatever_restarts_there_are(address: str) -> None:
    log = chat(60)
    heard: list[int] = []
    for stop in range(6, 121, 6):
        model = scribe()
        summarised(address, model, log[:stop])
        heard += told(model)
    assert heard == list(range(len(heard)))
    assert len(heard) > 40


@pytest.mark.parametrize("after", [False, True], ids=["refused", "reply lost"])
def test_whichever_step_a_process_dies_at_the_next_one_goes_on(*, after: bool) -> None:
    log = chat(40)
    for number in range(60):
        inner = MemoryStore()
        store = Faulty(inner)
        summarised(inner, scribe(), log[:40])
        store.fail_at(number, after=after)
        try:
            summarised(store, scribe(), log)
        except StoreUnavailable:
            shown = summarised(inner, scribe(), log)
            assert remembered(shown) == set(range(80)), number
            assert marks(_all(inner)) == list(range(80)), number
        else:
            assert number > 5, "every step was tried"
            return
    pytest.fail("more steps than expected")


def _all(store: MemoryStore) -> list[Message]:
    from turnfold.runtime import drive

    entries = drive(store.read(Scope("default"), S, limit=10_000))
    return [entry.message for entry in entries]


def test_of_two_who_fold_at_once_one_wins_and_nothing_is_lost(anywhere: str) -> None:
    log = chat(60)
    history(anywhere, log)

    async def fold(memory: SummaryTokenMemory) -> list[Message]:
        return await memory.get_history(log)

    async def run() -> list[list[Message]]:
        models = [ScriptedModel(scribe().answer, pause=0.01) for _ in range(3)]
        memories = [
            SummaryTokenMemory(
                S, model, storage=anywhere, max_tokens=1500, summary_reserve_tokens=200
            )
            for model in models
        ]
        found = await asyncio.gather(*(fold(memory) for memory in memories))
        found.append(await memories[0].get_history())
        for memory in memories:
            await memory.close()
        return found

    for shown in asyncio.run(run()):
        assert remembered(shown) == set(range(120))
    assert marks(stored(anywhere)) == list(range(120))


def test_a_summary_that_was_cleared_stays_cleared(address: str) -> None:
    log = chat(60)
    summarised(address, scribe(), log)

    memory = SummaryTokenMemory(S, scribe(), storage=address, max_tokens=1500)
    asyncio.run(memory.get_history())
    assert memory.current_summary
    memory.clear_summary()  # outside a loop: at once
    model = scribe()
    summarised(address, model)
    assert told(model)[0] == 0, "it begins at the beginning again"
    asyncio.run(memory.close())

    async def inside() -> None:
        async with SummaryTokenMemory(S, scribe(), storage=address, max_tokens=1500) as inner:
            await inner.get_history()
            inner.clear_summary()

    asyncio.run(inside())
    again = scribe()
    summarised(address, again)
    assert told(again)[0] == 0


def test_a_fold_under_way_does_not_bring_back_what_was_cleared(address: str) -> None:
    log = chat(60)
    summarised(address, scribe(), log)
    answer = scribe().answer
    assert callable(answer)

    def cleared_meanwhile(prompt: str) -> object:
        other = SummaryTokenMemory(S, scribe(), storage=address)
        thread = threading.Thread(target=other.clear_summary)
        thread.start()
        thread.join()
        return answer(prompt)

    summarised(address, ScriptedModel(cleared_meanwhile), [*log, *chat(120)[120:]])
    model = scribe()
    summarised(address, model)
    assert told(model)[0] == 0


def test_a_summary_that_stayed_in_the_process_is_found_out(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sabotage of the tests above: the document's own way."""

    async def forget(*_: object, **__: object) -> bool:
        return True

    monkeypatch.setattr("turnfold.memories.token_memory_history.StoredHistory.put_summary", forget)
    with pytest.raises(AssertionError):
        test_each_message_is_summarised_once_whatever_restarts_there_are(address)


def test_a_model_that_fails_is_asked_again_after_a_restart(address: str) -> None:
    log = chat(60)
    broken = ScriptedModel(RuntimeError("overloaded"))
    assert 119 in marks(summarised(address, broken, log))
    model = scribe()
    shown = summarised(address, model)
    assert remembered(shown) == set(range(120))
    assert told(model)[0] == 0


def test_a_summary_that_an_earlier_release_stored_goes_on() -> None:
    from turnfold.records import Document, NewEntry
    from turnfold.runtime import drive

    store = MemoryStore()
    log = chat(60)
    drive(store.append(Scope("default"), S, [NewEntry(message) for message in log]))
    body = '{"v":1,"summary":"told #0-99# 茶","upto":100}'.encode()
    drive(store.put_document(Scope("default"), S, Document("token-memory", "summary", body, 0)))
    model = scribe()
    assert remembered(summarised(store, model)) == set(range(120))
    assert model.prompts == []


def test_a_summary_of_another_shape_is_refused() -> None:
    from turnfold.errors import InvalidRecord
    from turnfold.records import Document
    from turnfold.runtime import drive

    store = MemoryStore()
    for body in (b"{}x", b'{"v": 2, "summary": "", "upto": 0}', b'{"v": 1, "other": 1}'):
        drive(store.put_document(Scope("default"), S, Document("token-memory", "summary", body, 0)))
        with pytest.raises(InvalidRecord, match="summary"):
            summarised(cast("Any", store), scribe(), chat(2))
