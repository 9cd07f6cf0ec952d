"""Checks the URLs of tokens, and of the keys that verify them."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


def check_oauth_url(url: str) -> str:
    """Return the URL itself. ValueError for one whose responses an attacker could read or change on
    the way: with changed keys the attacker can log in as any user, with a token as its owner."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as error:
        raise ValueError(f"{url!r} is no URL: {error}") from None
    if file_of(url) is not None or (parts.scheme == "https" and host):
        return url
    if parts.scheme == "http" and host in LOOPBACK:
        return url
    raise ValueError("give https://... or file:///... (http:// leads no further than 127.0.0.1)")


def file_of(url: str) -> Path | None:
    """The path in ``file:///...``; None for other URLs."""
    parts = urlsplit(url)
    if (
        parts.scheme != "file"
        or not parts.path.startswith("/")
        or parts.netloc not in ("", "localhost")
    ):
        return None
    return Path(unquote(parts.path))
