"""Passwords and tokens as a file holds them: hashed, so that a copy of the file is no log-in.

A password is chosen by people, so its hash is slow (scrypt, RFC 7914), in the text form that other
tools use::

    $scrypt$ln=14,r=8,p=5$SALT$HASH         2**ln steps, base64 without padding

A token is 32 random bytes. It cannot be guessed, so one SHA-256 is enough, and checking it costs a
microsecond.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import Final

COST: Final = 14
"""Binary logarithm of the steps, and so of the memory: 16 MiB. With 5 passes a hash takes some
0.2 s; these are the least values that OWASP recommends."""
BLOCKS: Final = 8
PASSES: Final = 5
TOKEN_START: Final = "tmr_"
"""What tokens begin with, so that people know them, and programs that look for leaked secrets."""

_LEAST_COST: Final = 10
_MOST_MEMORY: Final = 256 << 20
_LONGEST_PASSWORD: Final = 1_024
_TEXT: Final = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{16,128})\$([A-Za-z0-9+/]{43})"
)


@dataclass(frozen=True, slots=True)
class PasswordHash:
    """A password, hashed by scrypt. Its ``repr`` shows neither."""

    cost: int
    blocks: int
    passes: int
    salt: bytes = field(repr=False)
    hashed: bytes = field(repr=False)

    @classmethod
    def of(cls, password: str, cost: int = COST, passes: int = PASSES) -> PasswordHash:
        """The hash under a new salt. Takes long on purpose."""
        salt = secrets.token_bytes(16)
        return cls(cost, BLOCKS, passes, salt, _scrypt(password, salt, cost, BLOCKS, passes))

    @classmethod
    def parse(cls, text: str) -> PasswordHash:
        """The inverse of ``str()``. ValueError where it is none, is unsafe, or would take more than
        256 MiB to check."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError("it is no $scrypt$ hash")
        cost, blocks, passes = (int(found[number]) for number in (1, 2, 3))
        if cost < _LEAST_COST or not blocks or not passes:
            raise ValueError("its cost is too low to protect a password")
        if passes * blocks << (cost + 7) > _MOST_MEMORY:
            raise ValueError("its cost is too high")
        return cls(cost, blocks, passes, _unpacked(found[4]), _unpacked(found[5]))

    def fits(self, password: str) -> bool:
        """Whether it is the hash of ``password``. Takes long on purpose."""
        if len(password) > _LONGEST_PASSWORD:
            return False
        again = _scrypt(password, self.salt, self.cost, self.blocks, self.passes)
        return hmac.compare_digest(again, self.hashed)

    def __str__(self) -> str:
        cost = f"ln={self.cost},r={self.blocks},p={self.passes}"
        return f"$scrypt${cost}${_packed(self.salt)}${_packed(self.hashed)}"


def new_token() -> str:
    """A new token."""
    return TOKEN_START + secrets.token_urlsafe(32)


def token_digest(token: str | bytes) -> str:
    """The hash of a token, in hexadecimal."""
    return hashlib.sha256(token.encode() if isinstance(token, str) else token).hexdigest()


def _scrypt(password: str, salt: bytes, cost: int, blocks: int, passes: int) -> bytes:
    return hashlib.scrypt(
        password.encode("utf-8", "surrogatepass"),
        salt=salt,
        n=1 << cost,
        r=blocks,
        p=passes,
        maxmem=2 * _MOST_MEMORY,
        dklen=32,
    )


def _packed(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def _unpacked(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError("it is no base64") from error
