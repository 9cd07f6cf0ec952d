"""Logging in again on an open connection, step by step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tallymark.errors import CODES, ConnectError, KafkaError
from tallymark.net.client import reauthentication as log_in_again
from tallymark.net.client.reauthentication import Reauthentication
from tallymark.net.sasl.mechanisms import OAUTHBEARER, SaslCredentials
from tallymark.protocol.messages import SaslAuthenticateResponse, SaslHandshakeResponse


class Connection:
    """Notes what it is told; ``answer`` is the broker's to the token."""

    def __init__(self, answer: SaslAuthenticateResponse) -> None:
        self.said: list[str] = []
        self.timeouts: list[float] = []
        self._answer = answer

    def hold(self) -> None:
        self.said.append("hold")

    def release(self) -> None:
        self.said.append("release")

    def give_up(self, why: str, cause: BaseException) -> None:
        self.said.append(f"give up: {why}")

    def submit_now(self, message: Any, timeout: float, /) -> Awaitable[Any]:
        name = type(message).__name__
        self.said.append(name)
        self.timeouts.append(timeout)
        answer: Any = self._answer
        if name == "SaslHandshakeRequest":
            answer = SaslHandshakeResponse(mechanisms=(OAUTHBEARER,))
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_result(answer)
        return future


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_in_again, "NOT_BEFORE", 0.0)


def run(
    answer: SaslAuthenticateResponse,
    token: Callable[[], Awaitable[str]],
    lifetime: float,
    until: Callable[[Connection, Reauthentication], bool],
) -> Connection:
    async def inside() -> Connection:
        connection = Connection(answer)
        again = Reauthentication(connection, SaslCredentials("", "", OAUTHBEARER, token))
        again.holds_for(lifetime)
        async with asyncio.timeout(30):
            while not until(connection, again):
                await asyncio.sleep(0.01)
        again.cancel()
        return connection

    return asyncio.run(inside())


async def good() -> str:
    return "a.b.c"


def test_a_session_is_renewed_again_and_again() -> None:
    answer = SaslAuthenticateResponse(session_lifetime_ms=50)
    found = run(answer, good, 0.05, lambda connection, again: again.times == 3)
    once = ["hold", "SaslHandshakeRequest", "SaslAuthenticateRequest", "release"]
    assert found.said[:12] == once * 3
    assert set(found.timeouts) == {log_in_again.SECONDS}


@pytest.mark.slow
def test_nobody_logs_in_again_before_the_broker_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token was old when it was shown: the session held for half a second, the new log-in came
    too
    soon for the broker, which refused it. The session ends instead."""
    monkeypatch.setattr(log_in_again, "NOT_BEFORE", 0.6)

    async def inside() -> None:
        connection = Connection(SaslAuthenticateResponse())
        again = Reauthentication(connection, SaslCredentials("", "", OAUTHBEARER, good))
        again.holds_for(0.5)
        await asyncio.sleep(0.7)
        assert connection.said == []

    asyncio.run(inside())


@pytest.mark.slow
def test_nothing_is_held_while_there_is_no_token() -> None:
    """The token endpoint was away for a minute: everything went on, and the log-in came later."""
    tries: list[int] = []

    async def late() -> str:
        tries.append(1)
        if len(tries) < 2:
            raise ConnectError("idp", "token", "away")
        return "a.b.c"

    answer = SaslAuthenticateResponse(session_lifetime_ms=0)
    found = run(answer, late, 0.05, lambda connection, again: again.times == 1)
    assert len(tries) == 2
    assert found.said[-1] == "release"
    assert found.said.count("hold") == 1


def test_who_is_refused_closes_the_connection() -> None:
    code = CODES["SASL_AUTHENTICATION_FAILED"]
    answer = SaslAuthenticateResponse(error_code=code, error_message="no")
    found = run(answer, good, 0.05, lambda connection, again: len(connection.said) > 3)
    assert found.said[-1].startswith("give up: logging in again failed")
    assert KafkaError(code, "").name in found.said[-1]


def test_answers_that_take_long_are_waited_for_while_the_session_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A member's join waited for five minutes on the connection, and the answer to the log-in is
    behind it: after 20 s the connection was given up, and with it the join."""
    monkeypatch.setattr(log_in_again, "EARLIEST", 0.0)
    monkeypatch.setattr(log_in_again, "LATEST", 0.00001)
    answer = SaslAuthenticateResponse(session_lifetime_ms=0)
    found = run(answer, good, 3600.0, lambda connection, again: again.times == 1)
    assert set(found.timeouts) == {3600.0}
