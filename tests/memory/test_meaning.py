"""Recall by meaning: what shares no word with the question is found, and nothing depends on it."""

from __future__ import annotations

import logging
import math
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnfold import Budget, Memory, assistant, user
from turnfold.errors import InvalidOption, InvalidRecord, ModelFailed
from turnfold.memory import Session, vector_search
from turnfold.memory import embedding_index as index
from turnfold.models import LocalEmbedder
from turnfold.search import fuse, trust_in_words
from turnfold.window import Section

SMALL = Budget(max_tokens=1_200)
FACTS = {
    "en": ("My daughter was born in the spring.", "When did my child arrive?"),
    "zh": ("上周医生说血压偏高。", "我最近的健康状况怎么样"),
    "across": ("The cat hides under the sofa when it thunders.", "打雷的时候猫在哪里"),
}


@pytest.fixture(scope="module")
def encoder() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chat.db"


def opened(path: Path, embedder: object | None) -> Memory:
    return Memory(f"sqlite:///{path}", model="gpt-4o", budget=SMALL, embedder=embedder)  # type: ignore[arg-type]


def told(memory: Memory, *, entries: int = 128) -> Session:
    """A talk with a few facts far before its end, among much that is about something else."""
    session = memory.session("one")
    said = [text for text, _ in FACTS.values()]
    filler = [f"Invoice {n} over {n * 3} euros was sent; 发票 {n} 已寄出。" for n in range(entries)]
    texts = [*filler[:20], *said, *filler[20:]][:entries]
    session.add([user(t) if n % 2 else assistant(t) for n, t in enumerate(texts)])
    return session


def tail(session: Session, question: str) -> str:
    return "\n".join(m.text for m in session.context(question).section(Section.TAIL))


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory, encoder: LocalEmbedder) -> Path:
    """A file with the talk and its vectors, which take most of a second to make."""
    path = tmp_path_factory.mktemp("indexed") / "chat.db"
    with opened(path, encoder) as memory:
        told(memory).index_meaning()
    return path


@pytest.fixture
def session(indexed: Path, path: Path, encoder: LocalEmbedder) -> Iterator[Session]:
    shutil.copy(indexed, path)
    with opened(path, encoder) as memory:
        yield memory.session("one")


@pytest.mark.parametrize(("fact", "question"), FACTS.values(), ids=FACTS.keys())
def test_a_paraphrase_that_shares_no_word_is_found(
    session: Session, path: Path, fact: str, question: str
) -> None:
    assert fact in tail(session, question)
    assert fact in [found.message.text for found in session.recall(question, limit=3)]
    with opened(path, None) as words_alone:
        found = words_alone.session("one").recall(question, limit=3)
        assert fact not in [each.message.text for each in found]


@pytest.mark.parametrize(
    ("said", "asked", "chance"),
    [
        (
            "I nearly died once because somebody had put crushed peanuts in the sauce.",
            "Which snacks should I order for tonight's movie?",
            "In order of their dates, please.",
        ),
        ("我对海鲜过敏,吃一口虾就全身起疹子。", "晚上聚餐点龙虾和螃蟹行吗?", "晚上再寄一张。"),
    ],
    ids=["en", "zh"],
)
def test_what_matters_for_a_request_is_found_though_other_words_match_by_chance(
    path: Path, encoder: LocalEmbedder, said: str, asked: str, chance: str
) -> None:
    with opened(path, encoder) as memory:
        session = memory.session("two")
        filler = [f"Invoice {n} over {n * 3} euros was sent; 发票 {n} 已寄出。" for n in range(127)]
        filler[30::12] = [chance + f" {n}" for n in range(len(filler[30::12]))]
        session.add([user(text) for text in [*filler[:15], said, *filler[15:]]])
        session.index_meaning()
        assert said in {found.message.text for found in session.recall(asked, tokens=120)}
        session.user(asked)  # in the log itself it shares every word with the query
        assert said in {found.message.text for found in session.recall(asked, tokens=120)}


class Graded:
    """An embedder for which one text is a little nearer to every question than the others are, in another order."""

    name = "graded"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._vector(text) for text in texts]

    @staticmethod
    def _vector(text: str) -> list[float]:
        number = sum(map(ord, text)) % 97 / 97
        nearness = (
            1.0 if text.endswith("?") else 0.8 if text.startswith("Nearest") else 0.6 * number
        )
        return [nearness, math.sqrt(1 - nearness**2)]


def test_two_good_matches_by_words_are_before_one_that_is_merely_the_nearest(path: Path) -> None:
    best = "The blue kayak is in the boathouse at Saltburn, with both paddles."
    second = "Nobody may take paddles out of the boathouse in winter."
    with opened(path, Graded()) as memory:
        session = memory.session("two")
        filler = [f"Invoice {n} over {n * 3} euros was sent." for n in range(125)]
        filler[20:20], filler[60:60], filler[100:100] = [best], [second], ["Nearest of all."]
        session.add([user(text) for text in filler])
        session.index_meaning()
        found = session.recall("In which boathouse at Saltburn are paddles?", limit=3)
    assert [each.message.text for each in found] == [best, second, "Nearest of all."]


def test_a_name_is_still_found_by_its_letters(session: Session) -> None:
    assert session.recall("invoice 77", limit=1)[0].message.text.startswith("Invoice 77 ")


def test_it_is_made_block_by_block_and_says_how_far_it_is(
    path: Path, encoder: LocalEmbedder
) -> None:
    with opened(path, encoder) as memory:
        session = told(memory, entries=150)
        steps: list[tuple[int, int]] = []
        status = session.index_meaning(lambda done, whole: steps.append((done, whole)))
        assert steps == [(done, 144) for done in range(16, 145, 16)]
        assert (status.indexed, status.entries) == (144, 150)
        assert memory.meter.counts["meaning_entries"] == 144
        session.index_meaning()
        assert memory.meter.counts["meaning_entries"] == 144  # nothing is made twice


def test_the_first_recall_makes_it_in_the_background(path: Path, encoder: LocalEmbedder) -> None:
    with opened(path, encoder) as memory:
        told(memory).recall("When did my child arrive?")
    with opened(path, encoder) as memory:
        assert memory.session("one").index_meaning().indexed == 128
        assert memory.meter.counts["meaning_entries"] == 0  # closing waited for it


def test_two_processes_bring_back_the_same(session: Session, path: Path) -> None:
    with opened(path, LocalEmbedder()) as memory:
        for _, question in FACTS.values():
            assert memory.session("one").recall(question) == session.recall(question)


class Broken:
    """An embedder that does whatever it is told to."""

    name = "broken"

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        if isinstance(self._answer, Exception):
            raise self._answer
        if self._answer == "short":
            return [[1.0, 0.0]] * (len(texts) - 1)
        if self._answer == "nan":
            return [[float("nan"), 1.0]] * len(texts)
        return [[0.0, 0.0]] * len(texts)


@pytest.mark.parametrize("answer", [ValueError("secret text"), "short", "nan"])
def test_an_embedder_that_fails_costs_the_meaning_and_nothing_else(
    path: Path, answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), opened(path, Broken(answer)) as memory:
        session = told(memory)
        assert session.recall("invoice 77", limit=1)[0].message.text.startswith("Invoice 77 ")
        assert "Invoice 7" in tail(session, "invoice 7")
        with pytest.raises((ModelFailed, ValueError)):
            session.index_meaning()
    assert memory.meter.counts["meaning_failures"] >= 1
    assert "secret text" not in caplog.text


def test_vectors_that_say_nothing_change_nothing(path: Path) -> None:
    with opened(path, Broken("zeros")) as memory:
        session = told(memory)
        before = [found.message.text for found in session.recall("invoice 77")]
        session.index_meaning()
        assert [found.message.text for found in session.recall("invoice 77")] == before


def test_another_embedder_has_vectors_of_its_own(session: Session, path: Path) -> None:
    with opened(path, Broken("zeros")) as memory:
        assert memory.session("one").index_meaning().indexed == 128
    assert FACTS["en"][0] in tail(session, FACTS["en"][1])


def test_without_an_embedder_there_is_nothing_to_make(path: Path) -> None:
    with opened(path, None) as memory, pytest.raises(InvalidOption, match="LocalEmbedder"):
        memory.session("one").index_meaning()


def test_erasing_a_conversation_erases_its_vectors(
    session: Session, path: Path, encoder: LocalEmbedder
) -> None:
    assert b"meaning:" in path.read_bytes() + path.with_name("chat.db-wal").read_bytes()
    session.delete()
    assert b"meaning:" not in path.read_bytes()
    assert session.recall(FACTS["en"][1]) == []
    with opened(path, encoder) as memory:
        assert memory.session("one").index_meaning().indexed == 0


KILLED = """
import os, sys
from turnfold import Memory
from turnfold.models import LocalEmbedder
class Mortal(LocalEmbedder):
    asked = 0
    def embed(self, texts):
        Mortal.asked += 1
        if Mortal.asked == 2:
            os.kill(os.getpid(), 9)
        return super().embed(texts)
with Memory(sys.argv[1], model="gpt-4o", embedder=Mortal()) as memory:
    memory.session("one").index_meaning()
"""


def test_a_process_that_is_killed_leaves_whole_blocks(path: Path, encoder: LocalEmbedder) -> None:
    with opened(path, None) as memory:
        told(memory)
    finished = subprocess.run(
        [sys.executable, "-c", KILLED, f"sqlite:///{path}"], check=False, capture_output=True
    )
    assert finished.returncode == -9
    with opened(path, encoder) as memory:
        session = memory.session("one")
        steps: list[int] = []
        session.index_meaning(lambda done, _whole: steps.append(done))
        assert steps == list(
            range(32, 129, 16)
        )  # the first block was kept, the others are made now
        assert FACTS["en"][0] in tail(session, FACTS["en"][1])


def test_two_at_once_store_each_block_once(path: Path, encoder: LocalEmbedder) -> None:
    with opened(path, encoder) as one, opened(path, encoder) as two:
        told(one)
        jobs = [
            threading.Thread(target=memory.session("one").index_meaning) for memory in (one, two)
        ]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()
        assert one.session("one").index_meaning().indexed == 128
        made = one.meter.counts["meaning_entries"] + two.meter.counts["meaning_entries"]
        assert made == 128


def test_only_the_newest_are_held(
    path: Path, encoder: LocalEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_MAX_ROWS", 64)
    with opened(path, encoder) as memory:
        session = told(memory, entries=192)
        assert session.index_meaning().indexed == 192
        found = session.recall("最近寄出的发票", limit=5)
        assert found
        assert FACTS["en"][0] not in [each.message.text for each in session.recall(FACTS["en"][1])]


def packed(rows: Sequence[Sequence[float]]) -> bytes:
    """The stored form of entries with one vector each."""
    return vector_search.pack([vector_search.unit([row], 1) for row in rows])


@pytest.mark.parametrize(("beside", "nearest", "found"), [(0.5, 1.626, True), (0.0, 1.767, False)])
def test_a_reply_is_near_because_of_what_it_replies_to(
    monkeypatch: pytest.MonkeyPatch,
    beside: float,
    nearest: float,
    found: bool,  # noqa: FBT001
) -> None:
    monkeypatch.setattr(vector_search, "_NEIGHBOUR_WEIGHT", beside)
    question, reply, other = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
    held = vector_search.Vectors()
    held.add(
        packed([other] * 9 + [question, reply] + [other] * 9),
        20,
    )
    near = held.nearest(vector_search.unit([question], 1)[0], (), first=0, stop=20, most=20)
    closeness = {each.place: each.closeness for each in near}
    assert (near[0].place, closeness[9]) == (9, pytest.approx(nearest, abs=1e-3))
    assert (closeness.get(10, 0.0) > 0.2) is found


def test_an_entry_by_itself_counts_as_much_as_with_its_neighbours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    question, similar, other = [1.0, 0.0, 0.0], [0.78, 0.626, 0.0], [0.0, 0.0, 1.0]
    held = vector_search.Vectors()
    rows = [other] * 5 + [question] + [other] * 5 + [similar] * 2 + [other] * 5
    held.add(packed(rows), 18)

    def nearest() -> int:
        return held.nearest(vector_search.unit([question], 1)[0], (), first=0, stop=18, most=9)[0][
            0
        ]

    assert nearest() == 5
    among_only = vector_search._closeness
    monkeypatch.setattr(
        vector_search, "_closeness", lambda products: among_only(products) * (products.max() < 0.99)
    )
    assert nearest() in {11, 12}


# ------------------------------------------------------------------------------------------------ pure

SEQS = st.integers(1, 20)
WORDS = st.sampled_from([0.0, -0.0, 5e-324, 1e-9, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 4.0, 9.0])
NEAR = st.sampled_from([-1.0, -0.5, -1e-9, 0.0, 5e-324, 0.1, 0.35, 0.5, 0.7, 0.99, 1.0, 2.0])
"""Few values, quickly drawn: equal scores and the edges are what a random number hardly ever is."""


@given(st.lists(st.tuples(SEQS, WORDS), max_size=12), st.lists(st.tuples(SEQS, NEAR), max_size=12))
def test_every_place_is_there_once_and_the_order_is_that_of_the_scores(
    words: list[tuple[int, float]], meaning: list[tuple[int, float]]
) -> None:
    words = list(dict(words).items())
    meaning = list(dict(meaning).items())
    fused = fuse(words, meaning, entries=20)
    assert fused == sorted(fused, key=lambda place: (-place[1], -place[0]))
    found = [seq for seq, _ in fused]
    assert len(found) == len(set(found))
    by_words, near = dict(words), dict(meaning)
    assert set(found) == by_words.keys() | near.keys()
    for seq, score in fused:
        closeness = max(near.get(seq, 0.0), 0.0)
        expected = by_words.get(seq, 0.0) / math.log(21) + closeness**2
        assert score == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("best", "share", "closeness", "trust"),
    [
        (
            0.1,
            0.5,
            0.7,
            1.0,
        ),  # half of the query's terms in one entry, which is near in meaning too
        (14.0, 0.0, 0.0, 1.0),  # a score that is no chance among 1,000 entries
        (11.1, 0.5, 0.0, 1.0),
        (6.9, 0.25, 0.7, 0.125),  # as chance has it
        (6.9, 1.0, 0.35, 0.125),  # every term, but another meaning
        (9.0, 1.0, 0.35, 0.354),  # less likely by chance: half as much doubt
        (6.9, 1.0, 0.0, 0.0),
        (0.0, 0.0, 0.0, 0.0),
    ],
)
def test_words_that_match_by_chance_are_not_trusted(
    best: float, share: float, closeness: float, trust: float
) -> None:
    found = trust_in_words(best, share=share, closeness=closeness, entries=1_000)
    assert found == pytest.approx(trust, abs=0.005)


def test_a_match_by_meaning_is_before_words_that_are_not_trusted() -> None:
    words, meaning = [(1, 4.0), (2, 3.9)], [(3, 1.0), (1, 0.2)]
    assert [seq for seq, _ in fuse(words, meaning, entries=20)] == [1, 2, 3]
    assert [seq for seq, _ in fuse(words, meaning, entries=20, trust=0.1)] == [3, 1, 2]


@pytest.mark.parametrize("entries", [20, 1_000, 100_000])
def test_a_word_and_a_vector_that_match_by_chance_count_the_same(entries: int) -> None:
    rare_word = math.log(entries + 1)
    assert fuse([(1, rare_word)], [(2, 1.0)], entries=entries) == [(2, 1.0), (1, 1.0)]


def test_the_nearest_of_unrelated_vectors_is_about_as_near_as_chance_gives() -> None:
    dice = random.Random(1)  # noqa: S311 (the same vectors each time)
    for many in (50, 400, 2_000):
        rows = vector_search.unit(
            [[dice.gauss(0, 1) for _ in range(32)] for _ in range(many)], many
        )
        held = vector_search.Vectors()
        held.add(packed(rows.tolist()), many)
        query = vector_search.unit([[dice.gauss(0, 1) for _ in range(32)]], 1)[0]
        near = held.nearest(query, (), first=0, stop=many, most=1)
        assert 0.5 < near[0].closeness < 1.3


def test_words_alone_keep_their_order() -> None:
    fused = fuse([(1, 4.0), (2, 2.0)], [], entries=20)
    assert fused == [(1, round(4 / math.log(21), 9)), (2, round(2 / math.log(21), 9))]


def test_bytes_that_are_no_vectors_are_refused() -> None:
    held = vector_search.Vectors()
    with pytest.raises(InvalidRecord, match="does not hold the vectors"):
        held.add(b"123", 2)
    held.add(packed([[1.0, 0.0], [0.0, 1.0]]), 2)
    with pytest.raises(InvalidRecord):
        held.add(packed([[1.0, 0.0, 0.0]]), 1)
    with pytest.raises(InvalidRecord, match="use the same embedder"):
        held.nearest(vector_search.unit([[1.0]], 1)[0], (), first=0, stop=2, most=2)


def test_a_long_text_is_as_near_as_the_nearest_of_its_parts() -> None:
    question, other = [1.0, 0.0], [0.0, 1.0]
    long, short = (
        vector_search.unit([other, other, question], 3),
        vector_search.unit([[0.6, 0.8]], 1),
    )
    nothing = vector_search.unit([other], 1)
    held = vector_search.Vectors()
    held.add(vector_search.pack([nothing, nothing, long, nothing, nothing, short, nothing]), 7)
    assert (len(held), held.rows) == (7, 9)
    options = {"first": 0, "stop": 7, "most": 7}
    near = held.nearest(vector_search.unit([question], 1)[0], (), **options)
    assert (near[0].place, near[0].part) == (2, 2)
    held = vector_search.Vectors()
    held.add(vector_search.pack([nothing, nothing]), 2)
    newest = [long, nothing, nothing, short, nothing]
    later = held.nearest(vector_search.unit([question], 1)[0], newest, **options)
    assert [(each.place, each.part) for each in later] == [(each.place, each.part) for each in near]


@pytest.mark.parametrize("character", ["字", "a"])
@given(length=st.integers(0, 20_000))
def test_the_parts_of_a_text_are_few_and_reach_from_its_beginning_to_its_end(
    character: str, length: int
) -> None:
    text = character * length
    places = index.parts_of(text)
    assert 1 <= len(places) <= 16
    assert places[0].start == 0
    assert places[-1].stop >= length
    size = 500 // len(character.encode())
    assert all(len(text[place]) == min(size, length) for place in places)
    if len(places) < 16:
        assert all(one.stop - two.start >= size // 5 - 1 for one, two in pairwise(places))


LONG = {
    "en": (
        "The parcel was packed and weighed again. ",
        "Our cat hides under the sofa when it thunders. She trembles until the storm is over, then wants fish. ",
        "What does my pet do in bad weather?",
    ),
    "zh": (
        "包裹又称了一遍，贴好了单子。",
        "我家的猫一打雷就躲到沙发底下发抖，雨停了才肯出来，出来就要吃鱼，谁叫都不理。",
        "暴风雨时小动物怕不怕？",
    ),
}


@pytest.mark.parametrize(("filler", "fact", "question"), LONG.values(), ids=LONG.keys())
def test_a_fact_far_inside_a_long_message_is_found_by_meaning(
    path: Path, encoder: LocalEmbedder, filler: str, fact: str, question: str
) -> None:
    before, after = (filler * (many // len(filler.encode())) for many in (1_800, 600))
    with opened(path, encoder) as memory:
        session = memory.session("two")
        said = [f"Invoice {n} was sent; 发票 {n} 已寄出。" for n in range(31)]
        session.add([user(text) for text in [*said[:9], before + fact + after, *said[9:]]])
        session.index_meaning()
        assert any(fact in found.message.text for found in session.recall(question, limit=3))


@given(st.integers(2, 19), st.integers(0, 5))
def test_the_newest_count_as_if_they_were_in_a_block(held_back: int, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 (the same vectors each time)
    rows = vector_search.unit([[dice.gauss(0, 1) for _ in range(4)] for _ in range(21)], 21)
    whole, part = vector_search.Vectors(), vector_search.Vectors()
    rows = vector_search.unit(rows.astype("<f2").tolist(), 21)
    whole.add(packed(rows.tolist()), 21)
    part.add(packed(rows[:held_back].tolist()), held_back)
    exact = whole.nearest(rows[3], (), first=0, stop=21, most=21)
    split = part.nearest(
        rows[3], [row[None] for row in rows[held_back:]], first=0, stop=21, most=21
    )
    expected = {each.place: each.closeness for each in exact}
    assert {each.place: each.closeness for each in split} == pytest.approx(expected, abs=2e-3)


def test_what_was_said_just_now_is_found_too(session: Session) -> None:
    session.user("My sister moved to Lyon last autumn.")
    question = "Where does my sibling live these days?"
    assert session.recall(question, limit=3)[0].message.text.startswith("My sister")
    session.user("Thanks.")
    assert session.recall(question, limit=3)[0].message.text.startswith("My sister")


@pytest.mark.parametrize(
    ("vectors", "many", "told"),
    [
        ([["a"]], 1, "must return a vector"),
        ([1.0, 2.0], 2, "array of shape (2,)"),
        ([[1.0], [2.0]], 3, "a list of 2 when given a list of 3"),
        ([[1.0], [math.nan], [math.inf]], 3, "NaN or infinity in the vector of text 2 of 3"),
    ],
)
def test_an_embedder_is_told_what_its_vectors_lack(
    vectors: Sequence[Sequence[float]], many: int, told: str
) -> None:
    with pytest.raises(ModelFailed) as caught:
        vector_search.unit(vectors, many)
    assert told in str(caught.value)
