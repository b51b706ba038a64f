"""Counts are remembered by content, the least recently used forgotten first, from any thread."""

from __future__ import annotations

import random
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnfold.errors import InvalidOption
from turnfold.records import Message, user
from turnfold.tokens import CacheStats, CountCache

MESSAGES = [user(f"message {number}") for number in range(20)]


def test_an_equal_message_is_found() -> None:
    cache = CountCache(2)
    cache.put(user("你好"), 7)
    assert cache.get(user("你好")) == 7
    assert cache.get(user("你好", name="dana")) is None
    assert cache.stats() == CacheStats(hits=1, misses=1, evictions=0, size=1, max_size=2)


def test_a_count_of_zero_is_a_count() -> None:
    cache = CountCache(1)
    cache.put(MESSAGES[0], 0)
    assert cache.get(MESSAGES[0]) == 0
    assert cache.stats().hits == 1


def test_the_least_recently_used_makes_room() -> None:
    cache = CountCache(2)
    cache.put(MESSAGES[0], 0)
    cache.put(MESSAGES[1], 1)
    assert cache.get(MESSAGES[0]) == 0
    cache.put(MESSAGES[2], 2)
    assert [cache.get(message) for message in MESSAGES[:3]] == [0, None, 2]
    cache.put(MESSAGES[0], 5)  # counted again: as fresh as if it had been read
    cache.put(MESSAGES[3], 3)
    assert [cache.get(message) for message in (MESSAGES[0], MESSAGES[2], MESSAGES[3])] == [
        5,
        None,
        3,
    ]
    assert cache.stats().evictions == 2


def test_clearing_starts_anew() -> None:
    cache = CountCache(1)
    for message in MESSAGES[:3]:
        cache.put(message, 1)
        cache.get(message)
    assert cache.stats() == CacheStats(hits=3, misses=0, evictions=2, size=1, max_size=1)
    cache.clear()
    assert cache.stats() == CacheStats(hits=0, misses=0, evictions=0, size=0, max_size=1)
    assert cache.get(MESSAGES[2]) is None


def test_the_hit_rate_is_a_share() -> None:
    assert CacheStats(0, 0, 0, 0, 1).hit_rate == 0.0
    assert CacheStats(3, 1, 0, 0, 1).hit_rate == 0.75


@pytest.mark.parametrize("size", [0, -1])
def test_a_cache_without_room_is_refused(size: int) -> None:
    with pytest.raises(InvalidOption, match=f"cache size={size} must be at least 1"):
        CountCache(size)


@settings(deadline=None)
@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=60),
)
def test_it_behaves_like_a_list_of_what_was_used_last(
    size: int, steps: list[tuple[bool, int]]
) -> None:
    cache = CountCache(size)
    used: list[int] = []
    for puts, number in steps:
        if puts:
            cache.put(MESSAGES[number], number)
        else:
            assert cache.get(MESSAGES[number]) == (number if number in used else None)
        if puts or number in used:
            used = [other for other in used if other != number][-(size - 1) :] if size > 1 else []
            used.append(number)
    assert cache.stats().size == len(used)


def test_threads_share_it_without_losing_a_count() -> None:
    cache, asked = CountCache(8), 3000
    wrong: list[tuple[Message, int]] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)  # noqa: S311 - reproducible
        for _ in range(asked):
            number = chance.randrange(len(MESSAGES))
            known = cache.get(MESSAGES[number])
            if known is None:
                cache.put(MESSAGES[number], number)
            elif known != number:
                wrong.append((MESSAGES[number], known))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = cache.stats()
    assert wrong == []
    assert stats.hits + stats.misses == 6 * asked
    assert stats.size == 8
    assert stats.evictions <= stats.misses - stats.size


def test_many_looks_at_once_are_counted_and_keep_what_they_found() -> None:
    cache = CountCache(2)
    first, second, third = user("first"), user("second"), user("third")
    cache.put(first, 1)
    cache.put(second, 2)
    assert cache.get_many([first, third, first]) == [1, None, 1]
    assert cache.stats()[:2] == (2, 1)
    cache.put(third, 3)  # the second was looked at longest ago
    assert cache.get_many([first, second, third]) == [1, None, 3]
