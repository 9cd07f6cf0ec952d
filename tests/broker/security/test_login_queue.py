"""Whose password is hashed next, and what a flood of wrong ones may cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tallymark.broker.security import login_queue, password_checks
from tallymark.broker.security.login_queue import LoginQueue, Purse
from tallymark.broker.security.password_checks import AT_LEAST_SECONDS, PasswordChecks
from tallymark.broker.security.users import Users
from tallymark.net.limits.failed_login_delay import FailedLoginDelay
from tallymark.net.sasl.credential_text import stored_text
from tallymark.net.sasl.mechanisms import SCRAM_SHA_512
from tallymark.net.sasl.scram import ScramCredential


def users(**passwords: str) -> Users:
    found = {
        name: {
            SCRAM_SHA_512: stored_text(
                ScramCredential.of_password(SCRAM_SHA_512, password, name.encode() * 4)
            )
        }
        for name, password in passwords.items()
    }
    return Users(found, b"key")


def test_who_floods_waits_behind_himself() -> None:
    """Somebody tried a thousand passwords of alice from one address: bob, at the same address, was
    behind them all, and so was alice herself at another one."""
    queue: LoginQueue[str] = LoginQueue()
    for n in range(200):
        assert queue.put("attacker", "alice", f"wrong-{n}") is None
    queue.put("attacker", "bob", "bob")
    queue.put("office", "alice", "alice")
    taken = [queue.take() for _ in range(3)]
    assert taken == ["wrong-0", "alice", "bob"]
    assert len(queue) == 199


def test_an_ipv6_network_is_one_address() -> None:
    """One machine has 2 to the 64 addresses: whoever took another one for each guess had most of
    the turns."""
    queue: LoginQueue[str] = LoginQueue()
    for n in range(100):
        queue.put(f"2001:db8::{n:x}", "alice", f"wrong-{n}")
    queue.put("2001:db8:0:1::1", "bob", "bob")
    assert [queue.take() for _ in range(2)] == ["wrong-0", "bob"]


@given(
    st.integers(1, 1_000),
    st.integers(1, 20),
    st.sampled_from([1, 2, 4]),
    st.floats(0, 0.01),
)
@example(396, 19, 4, 0.009170366793066638)
@example(766, 20, 4, 0.009396038521142078)
def test_names_that_are_there_are_refused_as_soon_as_others(
    many: int, names: int, price: int, apart: float
) -> None:
    """Somebody sent 400 wrong passwords of a user at once: they waited 4 s to be hashed, and those
    of a name that is not there 0.1 s for their answer. The hashes of one address end before its
    refusals are due, however many there are, whatever they cost. (With 0.1 s from a log-in to its
    refusal they did not where each hash cost four: up to 0.07 s were left to be seen.)"""
    queue: LoginQueue[float] = LoginQueue()
    purse = Purse(password_checks.WRONG_PER_SECOND, password_checks.WRONG_PER_SECOND / 2, 0.0)
    pace, now, left = FailedLoginDelay(), 0.0, many

    def come() -> None:
        nonlocal left
        left -= 1
        at = (many - left - 1) * apart
        queue.put("attacker", f"user-{left % names}", pace.come("attacker", at))

    come()
    while len(queue):
        now += purse.wait(now)
        while left and (many - left) * apart <= now:
            come()
        assert now <= queue.take() + AT_LEAST_SECONDS
        purse.pay(price, now)
        if not len(queue) and left:
            now = max(now, (many - left) * apart)
            come()


@given(
    st.lists(st.one_of(st.none(), st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")))),
)
def test_what_is_put_is_taken_once_or_returned(steps: list[tuple[str, str] | None]) -> None:
    queue: LoginQueue[int] = LoginQueue()
    waiting: set[int] = set()
    for number, step in enumerate(steps):
        if step is not None:
            dropped = queue.put(*step, number)
            waiting.add(number)
            waiting.discard(-1 if dropped is None else dropped)
        elif waiting:
            waiting.remove(queue.take())
        else:
            with pytest.raises(IndexError):
                queue.take()
        assert len(queue) == len(waiting)


def test_a_queue_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_queue, "_MAX_OF_ONE", 3)
    monkeypatch.setattr(login_queue, "MAX_WAITING", 4)
    queue: LoginQueue[int] = LoginQueue()
    assert [queue.put("h", "u", n) for n in range(5)] == [None, None, None, 0, 1]
    # The last of an address makes room from whoever has most there.
    assert queue.put("h", "v", 7) == 2
    assert queue.put("i", "u", 8) is None
    assert queue.put("i", "u", 9) == 9


def test_a_purse() -> None:
    purse = Purse(10, 5, 0.0)
    for _ in range(6):
        assert purse.wait(0.0) == 0
        purse.pay(1, 0.0)
    assert purse.wait(0.0) == pytest.approx(0.1)
    assert purse.wait(0.1) == 0
    assert Purse(10, 5, 0.0).wait(1000.0) == 0


def run(work: Callable[[PasswordChecks], Any], known: list[Users]) -> Any:
    async def inside() -> Any:
        checks = PasswordChecks(lambda: known[0])
        try:
            return await work(checks)
        finally:
            checks.close()

    return asyncio.run(inside())


def always() -> bool:
    return True


@pytest.mark.slow
def test_a_password_is_hashed_once_and_no_longer_good_when_it_is_changed() -> None:
    """A thousand clients of one user come back at once: one hash, not a thousand. When the password
    changes, what was proven before is worth nothing."""
    known = [users(alice="old", bob="old")]

    async def work(checks: PasswordChecks) -> None:
        many = await asyncio.gather(*(checks.fits("h", "alice", "old", always) for _ in range(50)))
        assert all(many)
        assert checks.hashed <= password_checks.THREADS
        before = checks.hashed
        assert not await checks.fits("h", "alice", "olD", always)
        assert checks.hashed == before + 1
        assert not await checks.fits("h", "mallory", "old", always)
        assert checks.hashed == before + 1
        known[0] = users(alice="new")
        assert not await checks.fits("h", "alice", "old", always)
        assert await checks.fits("h", "alice", "new", always)
        known[0] = users()
        assert not await checks.fits("h", "alice", "new", always)

    run(work, known)


def test_nobody_learns_from_the_time_whether_a_name_is_there() -> None:
    """A wrong password is said a fixed time after it came, with a hash or without."""
    known = [users(alice="right")]

    async def work(checks: PasswordChecks) -> None:
        loop = asyncio.get_running_loop()
        for name in ("alice", "nobody"):
            began = loop.time()
            assert not await checks.fits("h", name, "wrong", always)
            assert loop.time() - began >= AT_LEAST_SECONDS * 0.99

    run(work, known)


@pytest.mark.slow
def test_wrong_passwords_have_a_rate_and_right_ones_do_not_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Somebody sent 400 wrong passwords at once: a few are hashed, the rest waits for the purse;
    who has logged in before is let in without it, who has not is next."""
    monkeypatch.setattr(password_checks, "WRONG_PER_SECOND", 4)
    known = [users(alice="right", bob="right")]

    async def work(checks: PasswordChecks) -> None:
        assert await checks.fits("home", "alice", "right", always)
        flood = [
            asyncio.create_task(checks.fits("home", "alice", f"wrong-{n}", always))
            for n in range(400)
        ]
        await asyncio.sleep(0.2)
        hashed = checks.hashed
        assert hashed < 20
        assert await checks.fits("home", "alice", "right", always)
        assert checks.waiting > 200
        assert await checks.fits("home", "bob", "right", always)
        assert checks.hashed - hashed < 10
        assert checks.waiting > 200
        for task in flood:
            task.cancel()
        await asyncio.gather(*flood, return_exceptions=True)

    run(work, known)


def test_who_has_gone_is_not_looked_at() -> None:
    known = [users(alice="right")]

    async def work(checks: PasswordChecks) -> None:
        assert not await checks.fits("h", "alice", "right", lambda: False)
        assert checks.hashed == 0

    run(work, known)
