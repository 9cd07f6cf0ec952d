"""SCRAM and PLAIN, both sides against each other, and against bytes that are none of them."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.net.sasl.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512, SaslCredentials, SaslError
from tallymark.net.sasl.plain import PlainClient, PlainServer
from tallymark.net.sasl.scram import ScramClient, ScramCredential, ScramServer
from tallymark.net.sasl.server_session import SaslSession

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
MECHANISMS = st.sampled_from([SCRAM_SHA_256, SCRAM_SHA_512])
NONCES = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=40)


def server_of(credential: ScramCredential, nonce: str = "server") -> ScramServer:
    return ScramServer(credential.mechanism, lambda name: credential, nonce)


def run(client: ScramClient, server: ScramServer) -> None:
    token = client.respond(server.respond(client.first()))
    assert token is not None
    assert client.respond(server.respond(token)) is None


def test_the_exchange_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = ScramCredential.of_password(SCRAM_SHA_256, "pencil", salt, 4096)
    client = ScramClient(SCRAM_SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    server = server_of(credential, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    first = server.respond(client.first())
    assert first == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = client.respond(first)
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert server.respond(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.user == "user"


@settings(max_examples=12, deadline=None)
@given(MECHANISMS, NAMES, NAMES, st.binary(min_size=1, max_size=64), NONCES, NONCES)
def test_client_and_server_agree(
    mechanism: str, name: str, password: str, salt: bytes, ours: str, theirs: str
) -> None:
    server = server_of(ScramCredential.of_password(mechanism, password, salt), theirs)
    run(ScramClient(mechanism, name, password, ours), server)
    assert server.user == name


@settings(max_examples=8, deadline=None)
@given(MECHANISMS, NAMES, NAMES)
def test_another_password_does_not_do(mechanism: str, password: str, other: str) -> None:
    if password.encode() == other.encode():
        return
    server = server_of(ScramCredential.of_password(mechanism, password, b"salt"))
    client = ScramClient(mechanism, "alice", other, "nonce")
    token = client.respond(server.respond(client.first()))
    assert token is not None
    with pytest.raises(SaslError, match="wrong name or password: 'alice'"):
        server.respond(token)
    assert server.user is None


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    client = ScramClient(SCRAM_SHA_256, "alice", "secret", "nonce")
    client.first()
    salt = base64.b64encode(b"salt").decode()
    assert client.respond(f"r=noncemore,s={salt},i=4096".encode()) is not None
    with pytest.raises(SaslError, match="not who it says"):
        client.respond(b"v=" + base64.b64encode(bytes(32)))


@pytest.mark.parametrize(
    "answer",
    [
        "r=nonce,s=c2FsdA==,i=4096",
        "r=other,s=c2FsdA==,i=4096",
        "r=nonceX,s=c2FsdA==,i=1",
        "r=nonceX,s=c2FsdA==,i=99999999",
        "r=nonceX,s=!,i=4096",
        "v=AAAA",
        "",
    ],
)
def test_a_client_refuses_what_a_server_may_not_say(answer: str) -> None:
    client = ScramClient(SCRAM_SHA_256, "alice", "secret", "nonce")
    client.first()
    with pytest.raises(SaslError):
        client.respond(answer.encode())


@pytest.mark.parametrize(
    "first",
    [
        b"p=tls-unique,,n=alice,r=x",
        b"n,a=bob,n=alice,r=x",
        b"n,,n=al=ice,r=x",
        b"n,,n=,r=x",
        b"n,,m=1,n=alice,r=x",
        b"n,,n=alice,r=",
        b"n,,n=alice,r=x" + b"y" * 5000,
        b"\xff",
        b"",
    ],
)
def test_a_server_refuses_first_messages_that_are_none(first: bytes) -> None:
    server = server_of(ScramCredential.of_password(SCRAM_SHA_256, "secret", b"salt"))
    with pytest.raises(SaslError):
        server.respond(first)


def test_commas_and_equals_signs_in_names() -> None:
    server = server_of(ScramCredential.of_password(SCRAM_SHA_512, "a=b,c", b"salt"))
    run(ScramClient(SCRAM_SHA_512, "CN=alice,O=x", "a=b,c", "nonce"), server)
    assert server.user == "CN=alice,O=x"


CREDENTIAL = ScramCredential.of_password(SCRAM_SHA_256, "secret", b"salt")


@settings(max_examples=80)
@given(st.lists(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), max_size=4))
def test_bad_bytes_never_crash_a_server(tokens: list[bytes]) -> None:
    for server in (server_of(CREDENTIAL), PlainServer(lambda user, password: False)):
        for token in tokens:
            try:
                server.respond(token)
            except SaslError:
                break
        assert server.user is None


@settings(max_examples=100)
@given(st.integers(0, 200), st.binary(min_size=1, max_size=3))
def test_a_changed_proof_is_never_taken(place: int, noise: bytes) -> None:
    server = server_of(CREDENTIAL)
    client = ScramClient(SCRAM_SHA_256, "alice", "secret", "nonce")
    token = client.respond(server.respond(client.first()))
    assert token is not None
    place %= len(token)
    changed = token[:place] + noise + token[place + len(noise) :]
    if changed == token:
        return
    with pytest.raises(SaslError):
        server.respond(changed)


def test_plain() -> None:
    server = PlainServer(lambda user, password: (user, password) == ("alice", "s,=é"))
    assert server.respond(PlainClient("alice", "s,=é").first()) == b""
    assert server.user == "alice"
    for token in (
        b"alice\0alice\0x",
        b"bob\0alice\0s",
        b"\0alice",
        b"\0\0x",
        b"\0alice\0",
        b"\xff",
    ):
        refusing = PlainServer(lambda user, password: password == "s")
        with pytest.raises(SaslError):
            refusing.respond(token)


def test_the_steps_of_a_session() -> None:
    session = SaslSession({"PLAIN": lambda: PlainServer(lambda user, password: True)})
    with pytest.raises(SaslError):
        session.begin_token()
    assert not session.handshake("GSSAPI")
    assert session.handshake("PLAIN")
    with pytest.raises(SaslError):
        session.handshake("PLAIN")
    exchange = session.begin_token()
    with pytest.raises(SaslError):
        session.begin_token()  # a second token while the first is being checked
    exchange.respond(b"\0alice\0pw")
    assert session.user is None
    session.ended(failed=False)
    assert session.user == "alice"
    with pytest.raises(SaslError):
        session.handshake("PLAIN")


def test_secrets_do_not_show() -> None:
    assert "secret" not in repr(CREDENTIAL)
    assert repr(CREDENTIAL.stored_key) not in repr(CREDENTIAL)
    assert "secret" not in repr(SaslCredentials("alice", "secret"))
