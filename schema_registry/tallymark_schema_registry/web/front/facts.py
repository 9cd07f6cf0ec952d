"""What is known of a header block: all that the ordinary way would find out from it.

A client sends the same header block with every request, apart from the length of the body. Its
facts are made once, by the functions that the ordinary way uses, and are the same for all requests
that have these bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from tallymark.net.web.access_log import client_field, user_of
from tallymark_schema_registry.web.negotiate import answer_type, body_type_is_fine

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
Kind: TypeAlias = tuple[object, ...]
"""Requests of one kind with the same line and body get the same answer."""

_HARMLESS: Final = frozenset(
    b"host user-agent referer accept-encoding accept-language connection content-length accept"
    b" content-type authorization".split()
)
"""Their meaning is in the facts, or the answer does not depend on them. What another header says is
part of the kind."""
_UNUSUAL: Final = (b"transfer-encoding", b"expect", b"upgrade", b"te", b"trailer", b"origin")
_UNUSUAL_BEGINNINGS: Final = (b"sec-fetch-", b"x-forwarded-", b"forwarded")
"""A browser's, or a proxy's: they change more than the answer, and whether there is one depends on
the method."""


@dataclass(frozen=True, slots=True)
class Facts:
    """``length``: of the body. ``authorization``: credentials, as they were received. ``user``
    and ``logged`` are for the access log, the latter the end of a line."""

    kind: Kind
    length: int
    authorization: bytes
    user: str
    logged: str


def facts_of(headers: Headers) -> Facts | None:
    """The facts of a header block with which a request was served; None where the ordinary way has
    to see such requests each time. ``headers`` have names in lower case."""
    given = dict(headers)
    if len(given) != len(headers) or any(_is_unusual(name) for name in given):
        return None
    if given.get(b"connection", b"keep-alive").lower() != b"keep-alive":
        return None
    kind = (
        answer_type(given.get(b"accept", b"").decode("latin-1")),
        body_type_is_fine(given.get(b"content-type", b"").decode("latin-1")),
        tuple(sorted((name, value) for name, value in headers if name not in _HARMLESS)),
    )
    return Facts(
        kind,
        int(given.get(b"content-length", b"0")),
        given.get(b"authorization", b""),
        user_of(given),
        client_field(given),
    )


def _is_unusual(name: bytes) -> bool:
    return name in _UNUSUAL or name.startswith(_UNUSUAL_BEGINNINGS)
