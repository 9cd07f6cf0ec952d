"""What is remembered of the registry, by many threads at once, and with hostile ids."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tallymark.serialization.asked_once import AskedOnce
from tallymark.serialization.errors import RegistryError


def length(text: str) -> str:
    return text


def refuse(status: int = 404) -> RegistryError:
    return RegistryError(status, 40403, "Schema 7 not found", "GET /schemas/ids/7 at http://x")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_who_wants_another_key_does_not_wait() -> None:
    """One lock was held during each request: a slow answer for one id stopped all threads."""
    once: AskedOnce[int, str] = AskedOnce(1000)
    asked, go_on = threading.Event(), threading.Event()

    def slow() -> str:
        asked.set()
        assert go_on.wait(20)
        return "slow"

    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(once.get, 1, slow, length)
        assert asked.wait(20)
        assert once.get(2, lambda: "quick", length) == "quick"
        go_on.set()
        assert pending.result(20) == "slow"


def test_many_that_want_the_same_ask_once() -> None:
    once: AskedOnce[int, str] = AskedOnce(1000)
    calls: list[int] = []
    barrier = threading.Barrier(8)

    def ask() -> str:
        calls.append(1)
        time.sleep(0.05)
        return "text"

    def want(_number: int) -> str:
        barrier.wait(20)
        return once.get(1, ask, length)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(want, range(8))) == {"text"}
    assert len(calls) == 1


@pytest.mark.parametrize("error", [ValueError("x"), refuse()])
def test_who_waits_gets_the_error_too(error: Exception) -> None:
    once: AskedOnce[int, str] = AskedOnce(1000)
    asked, go_on = threading.Event(), threading.Event()

    def fail() -> str:
        asked.set()
        assert go_on.wait(20)
        raise error

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(once.get, 1, fail, length)
        assert asked.wait(20)
        second = pool.submit(once.get, 1, fail, length)
        time.sleep(0.05)
        go_on.set()
        for one in (first, second):
            with pytest.raises(type(error), match=str(error)[:1]):
                one.result(20)


def test_an_interrupt_is_for_one_thread_only() -> None:
    once: AskedOnce[int, str] = AskedOnce(1000)
    asked, go_on = threading.Event(), threading.Event()

    def interrupted() -> str:
        asked.set()
        assert go_on.wait(20)
        raise KeyboardInterrupt

    def first() -> bool:
        with pytest.raises(KeyboardInterrupt):
            once.get(1, interrupted, length)
        return True

    with ThreadPoolExecutor(2) as pool:
        pending = pool.submit(first)
        assert asked.wait(20)
        waiting = pool.submit(once.get, 1, lambda: "text", length)
        time.sleep(0.05)
        go_on.set()
        assert pending.result(20)
        assert waiting.result(20) == "text"


def test_a_refused_key_is_asked_for_less_and_less() -> None:
    """A hostile topic: every message has an id that the registry does not know."""
    clock = Clock()
    once: AskedOnce[int, str] = AskedOnce(1000, clock)
    calls: list[float] = []

    def ask() -> str:
        calls.append(clock.now)
        raise refuse()

    for tick in range(6000):  # ten minutes, ten messages a second
        clock.now = tick / 10
        with pytest.raises(RegistryError, match="Schema 7 not found") as told:
            once.get(7, ask, length)
        assert told.value.status == 404
    assert 20 <= len(calls) <= 40
    pauses = [after - before for before, after in itertools.pairwise(calls)]
    assert max(pauses) <= 37
    clock.now += 40
    assert once.get(7, lambda: "there now", length) == "there now"
    assert once.get(7, ask, length) == "there now"


def test_a_new_id_is_found_soon_after_it_was_not() -> None:
    """A consumer may see a message before its server of the registry knows the schema."""
    clock = Clock()
    once: AskedOnce[int, str] = AskedOnce(1000, clock)
    with pytest.raises(RegistryError):
        once.get(7, _raise, length)
    clock.now += 0.15
    assert once.get(7, lambda: "text", length) == "text"


@pytest.mark.parametrize("error", [refuse(500), refuse(429), ValueError("x")])
def test_trouble_is_no_refusal(error: Exception) -> None:
    once: AskedOnce[int, str] = AskedOnce(1000, Clock())

    def fail() -> str:
        raise error

    with pytest.raises(type(error)):
        once.get(7, fail, length)
    assert once.get(7, lambda: "text", length) == "text"


def test_many_different_wrong_keys_are_no_storm() -> None:
    once: AskedOnce[int, str] = AskedOnce(1000)
    started = time.monotonic()
    for key in range(130):
        with pytest.raises(RegistryError):
            once.get(key, _raise, length)
    assert time.monotonic() - started >= 0.2
    assert len(once._refusals._of) == 130


def test_what_is_remembered_is_bounded() -> None:
    once: AskedOnce[int, str] = AskedOnce(100, Clock())
    for key in range(1000):
        assert once.get(key, lambda: "x" * 10, length) == "x" * 10
    assert len(once._known) == len(once._sizes) == 10
    assert once._size == 100
    assert once.get(999, _raise, length) == "x" * 10
    with pytest.raises(RegistryError):
        once.get(0, _raise, length)
    assert once.get(5000, lambda: "x" * 1000, length) == "x" * 1000
    assert once.get(5001, lambda: "y", length) == "y"
    assert once._size == 1


def test_what_was_on_its_way_when_all_was_forgotten_is_not_kept() -> None:
    """Its answer may be from before the change."""
    once: AskedOnce[int, str] = AskedOnce(1000)

    def ask() -> str:
        once.forget()
        return "old"

    assert once.get(1, ask, length) == "old"
    assert once.get(1, lambda: "new", length) == "new"


def _raise() -> str:
    raise refuse()
