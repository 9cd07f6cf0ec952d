"""The addresses of a registry's servers, and the log-in there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

from tallymark.errors import UserError

Token = str | Callable[[], str]
"""A bearer token, or what gives the one that is valid now; it is called for every request."""

_OWN: Final = frozenset(("127.0.0.1", "localhost", "::1"))


@dataclass(frozen=True, slots=True)
class Address:
    """``url`` without a slash at its end, and without user and password: it may be shown.
    ``login`` is what stood in it."""

    url: str
    login: tuple[str, str] | None

    @property
    def secure(self) -> bool:
        return self.url.startswith("https:")

    @property
    def local(self) -> bool:
        """On this machine itself."""
        return urlsplit(self.url).hostname in _OWN

    def __repr__(self) -> str:  # without the password
        return f"Address({self.url!r})"


def parse_addresses(url: str | Sequence[str]) -> tuple[Address, ...]:
    """One address or several: a list, or a text with commas between them.

    Raises UserError where one is no ``http://HOST:PORT`` (a path may follow)."""
    texts = url.split(",") if isinstance(url, str) else url
    found = tuple(_parse(text.strip()) for text in texts)
    if not found:
        raise _wrong("")
    return tuple(dict.fromkeys(found))


def _parse(text: str) -> Address:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:  # a port that is no number, brackets that do not match
        raise _wrong(text) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _wrong(text)
    if parts.query or parts.fragment:
        raise _wrong(text)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = host if port is None else f"{host}:{port}"
    login = None
    if parts.username is not None:
        login = unquote(parts.username), unquote(parts.password or "")
    return Address(urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", "")), login)


def _wrong(text: str) -> UserError:
    shown = text.rpartition("@")[2]  # what stands before it is a user and a password
    return UserError(
        f"{shown!r} is not the address of a schema registry",
        "write http://HOST:PORT, several separated by commas",
    )


class Credentials:
    """A user with a password, or a token; as the header ``authorization`` of each request.

    Raises UserError where both are given."""

    def __init__(self, login: tuple[str, str] | None, token: Token) -> None:
        if login and token:
            raise UserError(
                "the registry client has a user and a token", "give one of the two, not both"
            )
        self.login = login
        self._token = token
        if isinstance(token, str) and token:
            _check_token(token)

    def headers(self) -> dict[str, str]:
        """For one request. Raises UserError where the token cannot be sent."""
        token = self._token() if callable(self._token) else self._token
        if not token:
            return {}
        _check_token(token)
        return {"authorization": f"Bearer {token}"}


def _check_token(token: object) -> None:
    """An error of the HTTP library would show the token."""
    if not isinstance(token, str) or not all("!" <= char <= "~" for char in token):
        raise UserError(
            "the token for the schema registry is not one line of printable ASCII characters",
            "look for a line break or a space at its end",
        )
