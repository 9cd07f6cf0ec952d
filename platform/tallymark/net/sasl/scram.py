"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), both sides, without I/O or randomness.

::

    client  n,,n=user,r=C                        the user, the client's nonce C
    server  r=CS,s=salt,i=iterations             both nonces, and how the password is salted
    client  c=biws,r=CS,p=proof                  proof = ClientKey XOR HMAC(StoredKey, all of this)
    server  v=signature                          HMAC(ServerKey, all of this): it is the server

    Salted = PBKDF2(password, salt, iterations)
    ClientKey = HMAC(Salted, "Client Key")       StoredKey = H(ClientKey)
    ServerKey = HMAC(Salted, "Server Key")

A server keeps salt, iterations, StoredKey and ServerKey: with these alone a client cannot log in.
There is no channel binding. Names and passwords are used as UTF-8 without SASLprep, as in Apache
Kafka and in the clients of its protocol.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tallymark.net.sasl.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512, SaslError

HASHES: Final = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
"""Mechanism -> name of its hash function."""
MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""Apache Kafka's bounds. The upper one keeps a hostile peer from causing long computations."""

_CLIENT_FIRST: Final = re.compile(
    r"(?P<gs2>[ny],(?:a=(?P<authzid>[^,]+))?,)(?P<bare>n=(?P<name>[^,]+),r=(?P<nonce>[!-+\--~]+)"
    r"(?P<extensions>(?:,[A-Za-z]=[^,]*)*))"
)
_SERVER_FIRST: Final = re.compile(
    r"r=(?P<nonce>[!-+\--~]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[1-9][0-9]{0,8})(?:,.*)?"
)
_CLIENT_FINAL: Final = re.compile(
    r"(?P<unproven>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[!-+\--~]+)(?:,[A-Za-z]=[^,]*)*)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_MAX_TOKEN: Final = 4096


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server stores for one password. Its ``repr`` does not show the keys."""

    mechanism: str
    salt: bytes
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @classmethod
    def of_password(
        cls, mechanism: str, password: str, salt: bytes, iterations: int = MIN_ITERATIONS
    ) -> ScramCredential:
        """The credential of a password: takes milliseconds on purpose. ``salt`` should be
        random."""
        salted = salted_password(mechanism, password, salt, iterations)
        return cls.of_salted(mechanism, salted, salt, iterations)

    @classmethod
    def of_salted(
        cls, mechanism: str, salted: bytes, salt: bytes, iterations: int
    ) -> ScramCredential:
        """The credential of a salted password, as in AlterUserScramCredentials (KIP-554)."""
        client_key = _hmac(mechanism, salted, b"Client Key")
        server_key = _hmac(mechanism, salted, b"Server Key")
        stored_key = hashlib.new(HASHES[mechanism], client_key).digest()
        return cls(mechanism, salt, iterations, stored_key, server_key)

    def fits(self, password: str) -> bool:
        """Whether the credential is that of ``password``; compares in constant time, and takes
        milliseconds."""
        other = self.of_password(self.mechanism, password, self.salt, self.iterations)
        return hmac.compare_digest(other.stored_key, self.stored_key)


class ScramServer:
    """One exchange on the server. ``lookup`` returns the credential of a name. For an unknown name
    it returns a false one that no password fits, so that both fail alike. ``nonce`` is random,
    printable and without commas."""

    expires = None
    slow = False

    def __init__(
        self, mechanism: str, lookup: Callable[[str], ScramCredential], nonce: str
    ) -> None:
        self._mechanism = mechanism
        self._lookup = lookup
        self._own_nonce = nonce
        self._name = ""
        self._user: str | None = None
        self._credential: ScramCredential | None = None
        self._gs2 = self._nonce = self._said = ""

    @property
    def user(self) -> str | None:
        """See :class:`~tallymark.net.sasl.mechanisms.ServerExchange`."""
        return self._user

    def respond(self, token: bytes) -> bytes:
        """See :class:`~tallymark.net.sasl.mechanisms.ServerExchange`."""
        if self._user is not None:
            raise SaslError("a token came after the last one")
        if self._credential is None:
            return self._begin(_text(token)).encode()
        return self._prove(_text(token)).encode()

    def _begin(self, text: str) -> str:
        found = _CLIENT_FIRST.fullmatch(text)
        if found is None:
            raise SaslError("the client's first SCRAM message is malformed")
        name = _unescape(found["name"])
        authzid = found["authzid"]
        if authzid is not None and _unescape(authzid) != name:
            raise SaslError(f"{name!r} may not act as another user")
        credential = self._lookup(name)
        self._name, self._credential = name, credential
        self._gs2 = found["gs2"]
        self._nonce = found["nonce"] + self._own_nonce
        salt = base64.b64encode(credential.salt).decode()
        reply = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._said = f"{found['bare']},{reply}"
        return reply

    def _prove(self, text: str) -> str:
        assert self._credential is not None
        found = _CLIENT_FINAL.fullmatch(text)
        if found is None:
            raise SaslError("the client's final SCRAM message is malformed")
        if found["nonce"] != self._nonce or _decoded(found["binding"]) != self._gs2.encode():
            raise SaslError(f"nonce or channel binding of {self._name!r} does not fit")
        said = f"{self._said},{found['unproven']}".encode()
        if not _proves(self._credential, said, _decoded(found["proof"])):
            raise SaslError(f"wrong name or password: {self._name!r}")
        self._user = self._name
        signature = _hmac(self._mechanism, self._credential.server_key, said)
        return "v=" + base64.b64encode(signature).decode()


class ScramClient:
    """One exchange on the client; ``nonce`` as at :class:`ScramServer`."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._bare = f"n={_escape(username)},r={nonce}"
        self._signature: bytes | None = None

    def first(self) -> bytes:
        """See :class:`~tallymark.net.sasl.mechanisms.ClientExchange`."""
        return f"n,,{self._bare}".encode()

    def respond(self, token: bytes) -> bytes | None:
        """See :class:`~tallymark.net.sasl.mechanisms.ClientExchange`."""
        text = _text(token)
        if self._signature is None:
            return self._prove(text).encode()
        if not text.startswith("v="):
            raise SaslError("the server refused the proof")
        if not hmac.compare_digest(_decoded(text[2:].partition(",")[0]), self._signature):
            raise SaslError("the server does not know the password either: it is not who it says")
        return None

    def _prove(self, text: str) -> str:
        found = _SERVER_FIRST.fullmatch(text)
        if found is None or not found["nonce"].startswith(self._nonce):
            raise SaslError("the server's first SCRAM message is malformed")
        if found["nonce"] == self._nonce:
            raise SaslError("the server added nothing to our nonce")
        iterations = int(found["iterations"])
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise SaslError(f"the server asks for {iterations} iterations")
        salt = _decoded(found["salt"])
        salted = salted_password(self._mechanism, self._password, salt, iterations)
        unproven = f"c=biws,r={found['nonce']}"
        said = f"{self._bare},{text},{unproven}".encode()
        client_key = _hmac(self._mechanism, salted, b"Client Key")
        stored_key = hashlib.new(HASHES[self._mechanism], client_key).digest()
        proof = _xor(client_key, _hmac(self._mechanism, stored_key, said))
        server_key = _hmac(self._mechanism, salted, b"Server Key")
        self._signature = _hmac(self._mechanism, server_key, said)
        return f"{unproven},p={base64.b64encode(proof).decode()}"


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """RFC 5802's ``Hi``: the slow step."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def _proves(credential: ScramCredential, said: bytes, proof: bytes) -> bool:
    signature = _hmac(credential.mechanism, credential.stored_key, said)
    if len(proof) != len(signature):
        return False
    client_key = _xor(proof, signature)
    stored_key = hashlib.new(HASHES[credential.mechanism], client_key).digest()
    return hmac.compare_digest(stored_key, credential.stored_key)


def _hmac(mechanism: str, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, HASHES[mechanism])


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _text(token: bytes) -> str:
    if len(token) > _MAX_TOKEN:
        raise SaslError(f"a SCRAM message of {len(token)} bytes")
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise SaslError("a SCRAM message that is not UTF-8") from None


def _decoded(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    # Unused bits must be zero, so that there is only one text for the same bytes.
    if base64.b64encode(data).decode() != text:
        raise SaslError("a part of a SCRAM message is not base64")
    return data


def _escape(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescape(text: str) -> str:
    """RFC 5802 saslname: ``=2C`` is a comma, ``=3D`` an equals sign, nothing else is escaped."""
    if re.search("=(?!2C|3D)", text):
        raise SaslError("a name in a SCRAM message is badly escaped")
    return text.replace("=2C", ",").replace("=3D", "=")
