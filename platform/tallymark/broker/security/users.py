"""Users and their credentials, in the broker's memory. No I/O.

A credential is stored in Kafka's format:
``salt=...,stored_key=...,server_key=...,iterations=4096``, the bytes in base64.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Mapping
from typing import Final

from tallymark.net.sasl.credential_text import parse_credential
from tallymark.net.sasl.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from tallymark.net.sasl.scram import HASHES, MIN_ITERATIONS, ScramCredential

log: Final = logging.getLogger(__name__)

NUMBERS: Final = {SCRAM_SHA_256: 1, SCRAM_SHA_512: 2}
"""Mechanism -> its number in Describe- and AlterUserScramCredentials (KIP-554)."""
MECHANISM_OF: Final = {number: name for name, number in NUMBERS.items()}


class Users:
    """An immutable set of users. The salts for unknown users are made from the secret ``salt_key``:
    a client that tries such a name gets the same salt every time, as for a real user."""

    def __init__(self, configs: Mapping[str, Mapping[str, str]], salt_key: bytes) -> None:
        self._salt_key = salt_key
        self.credentials: dict[str, dict[str, ScramCredential]] = {}
        """User -> mechanism -> credential."""
        for name, values in configs.items():
            found = {m: _read(name, m, values[m]) for m in HASHES if m in values}
            held = {m: credential for m, credential in found.items() if credential is not None}
            if held:
                self.credentials[name] = held
        shapes = {
            (len(one.salt), one.iterations)
            for held in self.credentials.values()
            for one in held.values()
        }
        self._shapes = sorted(shapes) or [(32, MIN_ITERATIONS)]

    def credential(self, name: str, mechanism: str) -> ScramCredential:
        """The user's credential; for an unknown user a false one, which no password fits."""
        return self.credentials.get(name, {}).get(mechanism) or self._false(name, mechanism)

    def password_credential(self, name: str) -> ScramCredential | None:
        """A credential to check a password of the user with; None: there is no such user."""
        held = self.credentials.get(name, {})
        return held.get(SCRAM_SHA_512) or held.get(SCRAM_SHA_256)

    def fits(self, name: str, password: str) -> bool:
        """Whether the password is the user's. Takes milliseconds, also where there is no user."""
        held = self.password_credential(name)
        if held is None:
            self._false(name, SCRAM_SHA_512).fits(password)
        return held is not None and held.fits(password)

    def _false(self, name: str, mechanism: str) -> ScramCredential:
        def made(what: str) -> bytes:
            return hmac.digest(self._salt_key, f"{what}:{mechanism}:{name}".encode(), "sha512")

        size, iterations = self._shapes[made("shape")[0] % len(self._shapes)]
        salt = (made("salt") * (size // 64 + 1))[:size]
        length = len(hmac.digest(b"", b"", HASHES[mechanism]))
        keys = made("stored")[:length], made("server")[:length]
        return ScramCredential(mechanism, salt, iterations, *keys)


def _read(name: str, mechanism: str, text: str) -> ScramCredential | None:
    try:
        return parse_credential(mechanism, text)
    except ValueError as error:
        log.error("user %r cannot log in: %s", name, error)
        return None
