"""Log-ins that fail, many at a time, at a broker."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from eventually import eventually
from security_world import PASSWORD, add_users, log_in

from tallymark.broker.security.sasl_logins import Logins
from tallymark.net.limits.failed_login_delay import LONGEST_SECONDS, PER_SECOND
from tallymark.net.sasl.mechanisms import MECHANISMS
from tallymark.net.sasl.scram import ScramClient
from tallymark.protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    add_users(tmp_path / "broker", "alice")
    with BrokerThread(
        tmp_path,
        listeners="SASL_PLAINTEXT://127.0.0.1:0",
        sasl_enabled_mechanisms=",".join(MECHANISMS),
        connection_failed_authentication_delay_ms=0,
    ) as running:
        yield running


def logins(broker: BrokerThread) -> Logins:
    assert broker.broker is not None
    state = broker.broker.state
    assert state is not None
    assert state.logins is not None
    return state.logins


def guess(client: WireClient, mechanism: str, user: str) -> None:
    """Send a wrong log-in, whose answer is to come."""
    assert client.ask(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
    token = f"\0{user}\0wrong".encode()
    if mechanism != "PLAIN":
        scram = ScramClient(mechanism, user, "wrong", "nonce")
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=scram.first()), 2)
        found = scram.respond(bytes(answer.auth_bytes))
        assert found is not None
        token = found
    client.send(SaslAuthenticateRequest(auth_bytes=token), 2)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_who_guesses_on_many_connections_is_refused_by_and_by(
    broker: BrokerThread, mechanism: str
) -> None:
    """Two hundred connections guessed names and passwords: refused after 0.1 s each, they came back
    1,700 times a second, and a good log-in took up to 0.3 s in the broker's event loop. Refusals of
    an address stand in a line; who is right does not stand in it."""
    many = 40
    with ExitStack() as stack:
        guessing = [
            stack.enter_context(WireClient(broker.bootstrap_servers, 60)) for _ in range(many)
        ]
        began = time.monotonic()
        for number, client in enumerate(guessing):
            guess(client, mechanism, ("alice", f"nobody-{number}")[number % 2])
        with WireClient(broker.bootstrap_servers, 60) as good:
            assert log_in(good, "alice", PASSWORD) == 0
        for client in guessing:
            client.frame()
        # The good log-in has had its place in the line while it was looked at.
        assert time.monotonic() - began > (many - 2) / PER_SECOND
        for client in guessing:
            assert client.closed_by_peer()
    assert logins(broker).counts == {"failed": many, "succeeded": 1}


def test_who_guesses_and_does_not_wait_leaves_nothing_but_a_line(
    broker: BrokerThread, caplog: pytest.LogCaptureFixture
) -> None:
    """A right password is answered at once, so whoever guesses need not wait for the refusal: each
    connection that was closed left a task behind for as long as the refusal was held back, and
    nothing of it was counted."""
    caplog.set_level(logging.WARNING, "tallymark.logins")
    assert broker.broker is not None
    server = broker.broker.listeners.servers["SASL_PLAINTEXT"]
    # So many that the last refusals are due only when eventually() below has given up.
    many = int(LONGEST_SECONDS * PER_SECOND)
    for number in range(many):
        with WireClient(broker.bootstrap_servers, 60) as client:
            guess(client, "PLAIN", f"nobody-{number}")
    eventually(lambda: not server.connections and not server.working, seconds=LONGEST_SECONDS / 2)
    assert logins(broker).counts == {"failed": many}
    assert "did not wait" in caplog.text
    assert len(caplog.records) <= 3
