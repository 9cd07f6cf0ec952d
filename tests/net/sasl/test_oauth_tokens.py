"""Tokens that are taken, and those that are not: what attackers try with JSON Web Tokens."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc.jwk import RSAKey
from token_world import AUDIENCE, ISSUER, Issuer, unsigned

from tallymark.net.sasl import oauth_keys
from tallymark.net.sasl.mechanisms import SaslError
from tallymark.net.sasl.oauth_keys import AGAIN_SECONDS, OAuthKeys, read_jwks
from tallymark.net.sasl.oauth_tokens import MAX_KEYS, KeySet, TokenRules
from tallymark.net.sasl.oauthbearer import MAX_TOKEN, Bearer, OAuthClient, OAuthServer, bearer_of

RULES = TokenRules(audiences=(AUDIENCE,), issuer=ISSUER, skew=30)


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def keys(issuer: Issuer) -> KeySet:
    return KeySet.parse(issuer.key_set())


def whose(token: str, keys: KeySet, rules: TokenRules = RULES) -> str:
    return rules.bearer(token, keys, time.time()).user


def refused(token: str, keys: KeySet, rules: TokenRules = RULES) -> str:
    with pytest.raises(SaslError) as raised:
        rules.bearer(token, keys, time.time())
    return str(raised.value)


def test_a_token_says_who_it_is_and_until_when(issuer: Issuer, keys: KeySet) -> None:
    ends = time.time() + 60
    found = RULES.bearer(issuer.token("alice", exp=ends), keys, time.time())
    assert (found.user, round(found.expires - ends)) == ("alice", 0)
    assert whose(issuer.token(aud=["x", AUDIENCE]), keys) == "alice"
    by_mail = TokenRules(user_claim="email", required_scope="kafka")
    assert whose(issuer.token(email="a@b.example"), keys, by_mail) == "a@b.example"


def test_keys_of_each_kind(issuer: Issuer) -> None:
    """An issuer that goes over to another kind of key is still understood, with and without kid."""
    other = Issuer("two")
    other.rotate("ec")
    found = KeySet.parse(other.key_set())
    assert whose(other.token(), found) == "alice"
    assert whose(other.token(header={"kid": "two"}, key=other.public[0]), found) == "alice"
    assert whose(other.token(header={"kid": None}, key=other.public[0]), found) == "alice"
    assert "not that of" in refused(issuer.token(header={"kid": "two"}), found)


def test_without_a_signature_nobody_gets_in(issuer: Issuer, keys: KeySet) -> None:
    """Somebody wrote {"alg":"none"} and left the signature out: some libraries took that for signed
    (RFC 8725, section 2.1)."""
    claims = json.loads(json.dumps({"sub": "admin", "exp": time.time() + 60, "aud": AUDIENCE}))
    for name in ("none", "None", "NONE", "", None, 7, ["RS256"]):
        assert "is signed by" in refused(unsigned({"alg": name, "kid": "one"}, claims), keys)


def test_the_public_key_is_no_shared_secret(issuer: Issuer, keys: KeySet) -> None:
    """Somebody took the issuer's public key, which everybody may know, as the secret of HS256:
    libraries that only look at "alg" verified the token with it (RFC 8725, section 2.1)."""
    assert isinstance(issuer.key, RSAKey)
    pem = issuer.key.as_pem(private=False)
    claims = {"sub": "admin", "exp": time.time() + 60, "aud": AUDIENCE, "iss": ISSUER}
    for secret in (pem, issuer.key_set()):
        said = unsigned({"alg": "HS256", "kid": "one"}, claims).rpartition(".")[0]
        proof = hmac.digest(secret, said.encode(), "sha256")
        token = f"{said}.{base64.urlsafe_b64encode(proof).rstrip(b'=').decode()}"
        assert "is signed by 'HS256'" in refused(token, keys)


def test_keys_that_the_token_brings_along_do_not_count(issuer: Issuer, keys: KeySet) -> None:
    """Somebody signed with a key of his own and put it (jwk), or its address (jku), into the
    header."""
    mine = RSAKey.generate_key(2048, {"kid": "mine"})
    brought: dict[str, Any] = {"jwk": mine.as_dict(private=False), "jku": "http://127.0.0.1:1/"}
    for name, value in brought.items():
        token = issuer.token("admin", header={"kid": "mine", name: value}, key=mine)
        assert "key that is not known: 'mine'" in refused(token, keys)
        token = issuer.token("admin", header={name: value}, key=mine)
        assert "signature is not that of 'one'" in refused(token, keys)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"exp": None}, "never expires"),
        ({"exp": "2099-01-01"}, "exp is no number"),
        ({"exp": True}, "exp is no number"),
        ({"exp": float("inf")}, "exp is no time"),
        ({"exp": 10**300}, "exp is no time"),
        ({"exp": 1000}, "expired"),
        ({"nbf": 4_000_000_000}, "nbf"),
        ({"iat": 4_000_000_000}, "iat"),
        ({"iss": "https://elsewhere.example"}, "of the issuer"),
        ({"iss": None}, "of the issuer"),
        ({"aud": "another"}, "for the audience"),
        ({"aud": None}, "for the audience"),
        ({"aud": {AUDIENCE: 1}}, "for the audience"),
        ({"aud": AUDIENCE + "x"}, "for the audience"),
        ({"sub": None}, "names no user"),
        ({"sub": ""}, "names no user"),
        ({"sub": ["alice"]}, "names no user"),
        ({"sub": "x" * 256}, "names no user"),
        ({"sub": "ali\nce"}, "not printable"),
        ({"scope": "kafkaesque"}, "without the scope"),
        ({"scope": {"kafka": 1}}, "without the scope"),
    ],
)
def test_claims_that_are_not_taken(
    issuer: Issuer, keys: KeySet, changed: dict[str, Any], said: str
) -> None:
    rules = TokenRules(audiences=(AUDIENCE,), issuer=ISSUER, required_scope="kafka", skew=30)
    assert whose(issuer.token(), keys, rules) == "alice"
    assert said in refused(issuer.token(**changed), keys, rules)


def test_a_clock_that_is_a_little_off_is_forgiven(issuer: Issuer, keys: KeySet) -> None:
    assert whose(issuer.token(exp=time.time() - 20, iat=time.time() + 20), keys) == "alice"
    assert "expired" in refused(issuer.token(exp=time.time() - 40), keys)


def test_a_token_that_was_changed_is_refused(issuer: Issuer, keys: KeySet) -> None:
    head, claims, signature = issuer.token().split(".")
    other = issuer.token("admin").split(".")[1]
    assert "signature" in refused(f"{head}.{other}.{signature}", keys)
    assert "signature" in refused(f"{head}.{claims}.{signature[:-8]}AAAAAAAA", keys)


def test_tokens_that_would_cost_much_are_refused_before_they_do(
    issuer: Issuer, keys: KeySet
) -> None:
    """A token of megabytes, one nested a hundred thousand deep, one that asks for extensions: each
    is one line in the log, and no memory."""
    server = OAuthServer(lambda token: Bearer("never", 0))
    with pytest.raises(SaslError, match="bytes"):
        server.respond(b"n,,\x01auth=Bearer " + b"a" * MAX_TOKEN + b"\x01\x01")
    deep = b"[" * 9_000
    assert "no JWT" in refused(unsigned(deep, {}), keys)
    assert "no JWT" in refused(unsigned({"alg": "RS256", "kid": {"a": 1}}, {}), keys)
    long = issuer.token(header={"typ": "x" * 5_000})
    assert "signature is not that of" in refused(long, keys)
    assert refused(unsigned({"alg": "RS256", "kid": "one", "crit": ["x"], "x": 1}, {}), keys)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=60), st.binary(max_size=60))
def test_whatever_comes_is_refused_by_a_reason(head: bytes, claims: bytes, rest: bytes) -> None:
    keys = KeySet()
    for token in (unsigned(head, claims, rest), head.decode("latin-1")):
        assert refused(token, keys)
    for message in (head, b"n,,\x01auth=Bearer " + head + b"\x01\x01"):
        server = OAuthServer(lambda token: RULES.bearer(token, keys, 0.0))
        try:
            assert server.respond(message) == b'{"status":"invalid_token"}'
        except SaslError:
            continue
        with pytest.raises(SaslError):
            server.respond(b"\x01")


def test_both_sides_of_the_mechanism() -> None:
    server = OAuthServer(lambda token: Bearer("alice", 5.0) if token == "a.b.c" else 1 / 0)  # type: ignore[arg-type, return-value]
    client = OAuthClient("a.b.c")
    assert bearer_of(client.first()) == "a.b.c"
    assert client.respond(server.respond(client.first())) is None
    assert (server.user, server.expires) == ("alice", 5.0)
    # Java sends extensions and an authorization id (RFC 7628, KIP-342).
    server = OAuthServer(lambda token: Bearer("alice", 5.0))
    server.respond(b"n,a=alice,\x01auth=Bearer a.b\x01traceId=7\x01\x01")
    assert server.user == "alice"
    server = OAuthServer(lambda token: Bearer("alice", 5.0))
    assert server.respond(b"n,a=admin,\x01auth=Bearer a.b\x01\x01") == b'{"status":"invalid_token"}'
    with pytest.raises(SaslError, match="may not act as another user"):
        server.respond(b"\x01")
    assert server.user is None
    with pytest.raises(SaslError):
        OAuthClient("a\x01b")


def test_key_sets_that_hold_more_than_public_keys(issuer: Issuer) -> None:
    """An issuer published its set with a shared secret in it, and with keys for encryption: neither
    makes a signature that counts. One that cannot be read at all is left out; too many as well."""
    document = json.loads(issuer.key_set())
    strange = [
        {"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0", "kid": "one"},
        RSAKey.generate_key(2048, {"kid": "enc", "use": "enc"}).as_dict(private=False),
        {"kty": "RSA", "n": "!", "e": "AQAB"},
        {"kty": "XYZ"},
        7,
    ]
    both = KeySet.parse(json.dumps({"keys": strange + document["keys"]}).encode())
    assert len(both) == 1
    assert whose(issuer.token(), both) == "alice"
    many = {"keys": [{"kty": "oct"}] * MAX_KEYS + document["keys"]}
    for wrong in (b"", b"[]", b"{}", b'{"keys":7}', b"[" * 100_000, json.dumps(many).encode()):
        with pytest.raises(ValueError, match=r"it is no|it holds no"):
            KeySet.parse(wrong)


def test_unknown_keys_ask_the_issuer_once_in_a_while(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody sent tokens of a thousand keys that there are not: each would have been a request to
    the issuer, and a log-in that waits for it. A key that is new is there at the first question."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        monkeypatch.setattr(loop, "time", lambda: now)
        served = issuer.key_set()

        async def read(url: str) -> bytes:
            await asyncio.sleep(0)
            return served

        kept = OAuthKeys("file:///x", 3600, read)
        await kept.ready("one")
        assert (len(kept.keys), kept.readings) == (1, 1)
        await asyncio.gather(*(kept.ready(f"none-{n}") for n in range(1000)))
        assert kept.readings == 1
        now += AGAIN_SECONDS
        newer = Issuer("one")
        newer.rotate("two")
        served = newer.key_set()
        await asyncio.gather(*(kept.ready(f"none-{n}") for n in range(1000)), kept.ready("two"))
        assert kept.readings == 2
        assert kept.keys.has("two")
        now += AGAIN_SECONDS
        served = b"<html>"
        await kept.ready("three")
        assert kept.keys.has("two")
        await kept.stop()

    asyncio.run(run())


@pytest.mark.parametrize(("sent", "why"), [("endless", "bytes"), ("slow", "^$"), ("moved", "302")])
def test_an_issuer_that_does_not_end_is_given_up(
    sent: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the address of the keys somebody answers for ever, a byte a time, or with another
    address: the broker holds no more than MAX_BYTES, and for no longer than READ_SECONDS."""
    monkeypatch.setattr(oauth_keys, "READ_SECONDS", 0.3 if sent == "slow" else 30.0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            if sent == "moved":
                writer.write(b"HTTP/1.1 302 x\r\nlocation: file:///etc/passwd\r\n\r\n")
                return
            writer.write(b"HTTP/1.1 200 x\r\n\r\n")
            while True:
                writer.write(b"x" * (100_000 if sent == "endless" else 1))
                await writer.drain()
                await asyncio.sleep(0 if sent == "endless" else 0.05)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises((ValueError, TimeoutError), match=why):
            await read_jwks(f"http://127.0.0.1:{port}/keys")
        server.close()
        await server.wait_closed()

    asyncio.run(run())
