"""Logging in by HTTP Basic: who gets in, and what strangers can make it cost."""

from __future__ import annotations

import asyncio
import base64
import os
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from eventually import eventually

from tallymark.cli.admin.users import command as users_command
from tallymark.errors import UserError
from tallymark.net.limits.failed_login_delay import PER_SECOND
from tallymark.net.web.access import WebAccess, check_exposed
from tallymark.net.web.login import (
    AT_LEAST_SECONDS,
    MAX_WAITING_OF_ONE,
    MAX_WRONG,
    Attempt,
    BasicLogin,
)
from tallymark.net.web.remembered import REMEMBERED_SECONDS, Remembered
from tallymark.net.web.users import WebUsers


def basic(name: str, password: str) -> bytes:
    return b"Basic " + base64.b64encode(f"{name}:{password}".encode())


class Users:
    """One user, alice; how often a password was hashed is counted."""

    def __init__(self) -> None:
        self.version: object = 1
        self.hashed = 0
        self.password = "right"
        self.go_on = threading.Event()
        self.go_on.set()

    def knows(self, name: str) -> bool:
        return name == "alice"

    def fits(self, name: str, password: str) -> bool:
        self.hashed += 1
        assert self.go_on.wait(60)
        return (name, password) == ("alice", self.password)


async def at_once(_seconds: float) -> None:
    """In place of asyncio.sleep."""


def test_who_gets_in() -> None:
    async def main() -> None:
        login = BasicLogin(Users(), sleep=at_once)
        assert await login.check(basic("alice", "right"), "h") == Attempt(200, "alice")
        for wrong in (
            b"",
            b"Basic",
            b"Basic ???",
            b"Bearer abc",
            basic("", "right"),
            basic("alice", "wrong"),
            basic("bob", "right"),
            b"Basic " + base64.b64encode(b"alice"),
            b"Basic " + base64.b64encode(b"\xff:\xff"),
            b"Basic " + b"a" * 10_000,
        ):
            assert (await login.check(wrong, "h")).status == 401

    asyncio.run(main())


def test_a_right_password_is_hashed_once_and_again_when_users_change() -> None:
    async def main() -> None:
        users = Users()
        login = BasicLogin(users)
        for _ in range(20):
            assert (await login.check(basic("alice", "right"), "h")).status == 200
        assert users.hashed == 1
        users.password, users.version = "new", 2
        assert (await login.check(basic("alice", "right"), "h")).status == 401

    asyncio.run(main())


def test_credentials_that_nobody_uses_are_forgotten() -> None:
    async def main() -> None:
        now = [0.0]
        users = Users()
        login = BasicLogin(users, lambda: now[0], at_once)
        right = basic("alice", "right")
        assert login.remembered(right) is None
        assert (await login.check(right, "h")).status == 200
        for _ in range(3):
            now[0] += REMEMBERED_SECONDS - 1
            assert login.remembered(right) == "alice"
            assert login.remembered(basic("alice", "wrong")) is None
        now[0] += REMEMBERED_SECONDS
        assert login.remembered(right) is None
        assert (await login.check(right, "h")).status == 200
        assert users.hashed == 2

    asyncio.run(main())


def test_what_has_an_end_is_not_remembered_beyond_it() -> None:
    now = [0.0]
    memory: Remembered[str] = Remembered(lambda: now[0], seconds=10)
    memory.put(b"token", "alice", at_most=12)
    now[0] = 9
    assert memory.get(b"token") == "alice"
    now[0] = 12
    assert memory.get(b"token") is None


def test_a_client_that_starts_with_many_connections_costs_one_hash() -> None:
    """A service with a pool of connections sent its first requests all at once: each hashed the
    same password, and all but four were answered 429."""

    async def main() -> None:
        users = Users()
        users.go_on.clear()
        login = BasicLogin(users, sleep=at_once)
        pool = [
            asyncio.create_task(login.check(basic("alice", "right"), "h"))
            for _ in range(5 * MAX_WAITING_OF_ONE)
        ]
        await asyncio.sleep(0)
        pool.pop().cancel()
        users.go_on.set()
        assert {one.status for one in await asyncio.gather(*pool)} == {200}
        assert users.hashed == 1

    asyncio.run(main())


def test_credentials_are_hashed_or_known_at_every_moment() -> None:
    """A request that came between the end of the hash and its result going into the memory was one
    too many: 429."""

    async def main() -> None:
        users = Users()
        login = BasicLogin(users, sleep=at_once)
        right = basic("alice", "right")
        pool = [asyncio.create_task(login.check(right, "h")) for _ in range(2 * MAX_WAITING_OF_ONE)]
        while login.remembered(right) is None:
            assert not pool[0].done()
            late = asyncio.create_task(login.check(right, "h"))
            pool.append(late)
            await asyncio.sleep(0)
        assert {one.status for one in await asyncio.gather(*pool)} == {200}
        assert users.hashed == 1

    asyncio.run(main())


def test_a_password_that_is_changed_while_it_is_hashed_is_not_remembered() -> None:
    """The old password was found right, then the users changed, and what had been found was put
    into the memory of the new ones: the old password was good for as long as it was used."""

    async def main() -> None:
        users = Users()
        users.go_on.clear()
        login = BasicLogin(users, sleep=at_once)
        old = asyncio.create_task(login.check(basic("alice", "right"), "h"))
        await asyncio.sleep(0)
        users.version = 2
        assert login.remembered(basic("bob", "b")) is None  # as any other request does meanwhile
        users.go_on.set()
        assert (await old).status == 200
        users.password = "new"
        assert (await login.check(basic("alice", "right"), "h")).status == 401

    asyncio.run(main())


def test_memory_is_bounded_and_what_is_used_stays() -> None:
    memory: Remembered[int] = Remembered(lambda: 0.0, most=3)
    for number in range(3):
        memory.put(memory.digest(b"%d" % number), number)
    assert memory.get(memory.digest(b"0")) == 0
    memory.put(memory.digest(b"3"), 3)
    assert len(memory) == 3
    assert memory.get(memory.digest(b"1")) is None
    assert memory.get(memory.digest(b"0")) == 0
    assert Remembered[int]().digest(b"0") != memory.digest(b"0")
    memory.clear()
    assert len(memory) == 0


def test_guessing_is_rated_and_costs_others_nothing() -> None:
    """Each guess is milliseconds of a core: a flood of them was a core."""

    async def main() -> None:
        now = [0.0]
        users = Users()
        login = BasicLogin(users, lambda: now[0], at_once)
        assert (await login.check(basic("alice", "right"), "guesser")).status == 200
        found = [
            (await login.check(basic("alice", f"guess {n}"), "guesser")).status for n in range(50)
        ]
        assert found == [401] * MAX_WRONG + [429] * (50 - MAX_WRONG)
        assert users.hashed == 1 + MAX_WRONG
        # Who is logged in stays so, at the same address, and others get in.
        assert (await login.check(basic("alice", "right"), "guesser")).status == 200
        assert (await login.check(basic("alice", "right"), "other")).status == 200
        now[0] += 10
        assert (await login.check(basic("alice", "again"), "guesser")).status == 401

    asyncio.run(main())


def test_one_address_cannot_keep_all_threads() -> None:
    async def main() -> None:
        users = Users()
        users.go_on.clear()
        login = BasicLogin(users, sleep=at_once)
        held = [
            asyncio.create_task(login.check(basic("alice", f"{n}"), "flood"))
            for n in range(MAX_WAITING_OF_ONE)
        ]
        await asyncio.sleep(0)
        assert (await login.check(basic("alice", "more"), "flood")).status == 429
        good = asyncio.create_task(login.check(basic("alice", "right"), "other"))
        await asyncio.sleep(0)
        users.go_on.set()
        assert (await good).status == 200
        assert {one.status for one in await asyncio.gather(*held)} == {401}

    asyncio.run(main())


def test_who_guesses_shuts_nobody_out_at_the_same_address() -> None:
    """Behind one address (a proxy, an office) somebody guessed by many names: after ten of them
    nobody there could log in for the first time, the right password was answered 429. And whoever
    was answered at once asked again as often as the server could answer."""

    async def main() -> None:
        now, waited = [0.0], list[float]()

        async def sleep(seconds: float) -> None:
            waited.append(seconds)

        users = Users()
        login = BasicLogin(users, lambda: now[0], sleep)
        for n in range(100):
            assert (await login.check(basic(f"nobody-{n}", "x"), "proxy")).status == 401
        for n in range(20):
            await login.check(basic("alicia", f"{n}"), "proxy")
        assert users.hashed == 0
        assert (await login.check(basic("alice", "right"), "proxy")).status == 200
        assert len(waited) == 120
        assert waited == pytest.approx([max(AT_LEAST_SECONDS, n / PER_SECOND) for n in range(120)])

    asyncio.run(main())


def test_a_name_that_is_there_is_refused_like_one_that_is_not() -> None:
    """By status and by time, however often it is tried."""

    async def tried(name: str) -> list[tuple[int, float]]:
        found: list[tuple[int, float]] = []

        async def sleep(seconds: float) -> None:
            found.append((0, seconds))

        login = BasicLogin(Users(), lambda: 0.0, sleep)
        for n in range(2 * MAX_WRONG):
            status = (await login.check(basic(name, f"wrong {n}"), "h")).status
            found[-1] = status, found[-1][1]
        return found

    assert asyncio.run(tried("alice")) == asyncio.run(tried("nobody"))


def add_user(folder: Path, name: str, password: str) -> None:
    arguments = ["add", name, "--data", str(folder), "--password-file", "-"]
    done = CliRunner().invoke(users_command, arguments, input=password + "\n")
    assert done.exit_code == 0, done.output


@pytest.mark.slow
def test_users_are_those_of_the_command_and_are_read_again(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="tallymark users add"):
        WebUsers(tmp_path / "security.json")
    add_user(tmp_path, "alice", "first")
    users = WebUsers(tmp_path / "security.json")
    assert users.fits("alice", "first")
    assert not users.fits("alice", "second")
    assert not users.fits("bob", "first")
    before = users.version
    add_user(tmp_path, "alice", "second")
    eventually(lambda: users.fits("alice", "second"))
    assert users.version != before
    assert not users.fits("alice", "first")
    # A file that is broken takes nobody's log-in away.
    (tmp_path / "security.json").write_text("{")
    os.utime(tmp_path / "security.json", (1, 1))
    eventually(lambda: users.version is not None)
    assert users.fits("alice", "second")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.3.2.1"])
def test_on_loopback_nothing_is_asked_for(host: str) -> None:
    check_exposed("the registry", host, WebAccess(), allowed=False, setting="x")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.7", "registry.example"])
def test_off_loopback_it_has_to_be_said(host: str) -> None:
    """``host = "0.0.0.0"`` was enough to show the audit and the schemas to everybody."""
    with pytest.raises(UserError, match="without TLS and log-in") as refused:
        check_exposed("the registry", host, WebAccess(), False, "registry.allow_plaintext = true")
    assert "registry.allow_plaintext = true" in str(refused.value)
    half = WebAccess(login=BasicLogin(Users()))
    with pytest.raises(UserError, match="without TLS;"):
        check_exposed("the registry", host, half, False, "x")
    check_exposed("the registry", host, WebAccess(), True, "x")
