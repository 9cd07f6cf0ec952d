"""Events as bytes: server-sent events, compressed once for all readers.

A gzip stream is a header and blocks. Each event is compressed by itself and ended by a full flush
(RFC 1951: an empty stored block, after which nothing refers back), so the same bytes fit into every
connection after its own header. Such a stream has no end mark; it ends with its connection.

The events of a page::

    page    {"html", "title", "tone", "count", "digest"}; its id is the digest
    beat    {"age"}: what the page has is what the store said so many seconds ago
    stale   {"age", "reason"}: the store cannot be read; the page is so many seconds old
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from tallymark_dashboards.live.feeds import Beat, Event, Fragment, Shown, Stale

GZIP_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""What a compressed stream begins with (RFC 1952): deflate, no name, no time."""
RETRY_MS: Final = 2000
"""How long a browser waits until it connects again."""
_LEVEL: Final = 6


def packed(plain: bytes) -> bytes:
    """Blocks of a deflate stream that hold ``plain``, do not end it, and fit behind any others."""
    press = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return press.compress(plain) + press.flush(zlib.Z_FULL_FLUSH)


def event(name: str, data: Mapping[str, Any], event_id: str = "") -> bytes:
    """One event; ``data`` is JSON on one line."""
    head = f"id: {event_id}\n" if event_id else ""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return f"{head}event: {name}\ndata: {text}\n\n".encode("utf-8", "replace")


def fragment(digest: str, html: str, title: str, tone: str, count: int) -> Fragment:
    """A rendered fragment as the event ``page``."""
    said = {"html": html, "title": title, "tone": tone, "count": count, "digest": digest}
    plain = event("page", said, digest)
    return Fragment(digest, plain, packed(plain))


def beginning(compressed: bool) -> bytes:
    """What a stream begins with: so a browser sees at once that it is connected."""
    plain = f": live\nretry: {RETRY_MS}\n\n".encode()
    return GZIP_HEADER + packed(plain) if compressed else plain


def event_bytes(of: Event, compressed: bool) -> bytes:
    """What is written for an event."""
    if isinstance(of, Shown):
        return of.fragment.packed if compressed else of.fragment.plain
    plain = _beat(int(of.age_s)) if isinstance(of, Beat) else _stale(of)
    return _packed_small(plain) if compressed else plain


def takes_gzip(accept_encoding: str) -> bool:
    """Whether a client takes gzip, by its ``Accept-Encoding`` (RFC 9110, 12.5.3)."""
    shares: dict[str, float] = {}
    for part in accept_encoding.lower().split(","):
        name, _, rest = part.partition(";")
        shares[name.strip()] = _share(rest)
    return shares.get("gzip", shares.get("x-gzip", shares.get("*", 0.0))) > 0


def _share(parameter: str) -> float:
    name, _, value = parameter.strip().partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0


def _beat(age_s: int) -> bytes:
    return event("beat", {"age": age_s})


def _stale(of: Stale) -> bytes:
    return event("stale", {"age": int(of.age_s), "reason": of.reason[:300]})


@lru_cache(maxsize=64)
def _packed_small(plain: bytes) -> bytes:
    return packed(plain)
