"""Requests that two HTTP parsers may read differently, which are refused.

A proxy before us and our parser must agree where each request ends; where they do not, a client can
hide a request in another one's body ("request smuggling"), and the proxy's rules do not see it. RFC
9112 lets servers be lenient in places; here a request is served only if there is one way to read
it::

    one Host (HTTP/1.1), one Content-Length or Transfer-Encoding: chunked, never both
    HTTP/1.0 or 1.1, a method of HTTP, a target of printable ASCII
    names and values of headers without control characters, no header in two lines
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"))
"""CONNECT is not one: it would make the connection a tunnel."""
_TARGET: Final = re.compile(rb"[\x21-\x7e]+")
_NAME: Final = re.compile(rb"[-!#$%&'*+.^_`|~0-9a-z]+")
_VALUE: Final = re.compile(rb"[\x20-\x7e\x80-\xff\t]*")
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")


def fault(
    method: str, target: bytes, version: str, headers: Sequence[tuple[bytes, bytes]]
) -> str | None:
    """What is wrong with the head of a request; None if there is one way to read it. ``headers``
    have names in lower case."""
    if method not in METHODS:
        return "the method"
    if version not in ("1.0", "1.1"):
        return "the version"
    if _TARGET.fullmatch(target) is None:
        return "the target"
    for name, value in headers:
        if _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
            return "a header"
    return _fault_of_framing(version, headers)


def _fault_of_framing(version: str, headers: Sequence[tuple[bytes, bytes]]) -> str | None:
    hosts = sum(name == b"host" for name, _ in headers)
    if hosts > 1 or (not hosts and version == "1.1"):
        return "the hosts"
    lengths = [value for name, value in headers if name == b"content-length"]
    if len(lengths) > 1 or any(_LENGTH.fullmatch(length) is None for length in lengths):
        return "the content length"
    encodings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    if not encodings:
        return None
    if encodings != [b"chunked"] or lengths or version == "1.0":
        return "the transfer encoding"
    return None
