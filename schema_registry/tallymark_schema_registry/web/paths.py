"""The path of a request: as it was sent, without the context that it may begin with."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from tallymark_schema_registry import errors
from tallymark_schema_registry.web.asgi import Message

CONTEXT: Final = "tallymark.context"
"""In the scope: the context of the path; not there where the path names none."""

_IN_CONTEXT: Final = re.compile(r"/contexts/([^/]+)(/.+)")


def path_of(scope: Message) -> str:
    """The path as sent, percent-encoding included, so that a subject ``a%2Fb`` is one segment;
    without a query (some servers leave it on) and without a slash at the end (Java clients send
    one and follow no redirect)."""
    raw = (scope.get("raw_path") or scope["path"].encode()).split(b"?", 1)[0].decode("latin-1")
    return raw.rstrip("/") or "/"


def split_context(path: str) -> tuple[str, str]:
    """(context, the rest) of ``/contexts/{context}/...``; ("", path) of any other path.

    A context is ``.name``; tools also write it as ``:.name:``. The 42208 error where it is
    neither."""
    match = _IN_CONTEXT.fullmatch(path)
    if match is None:
        return "", path
    return context_named(match.group(1)), match.group(2)


def context_named(segment: str) -> str:
    """The context that one segment of a path names, or the 42208 error."""
    text = unquote(segment, errors="replace")
    name = text.removeprefix(":").removesuffix(":")
    if not name.startswith(".") or ":" in name or not name.isprintable():
        raise errors.invalid_subject(text)
    return name
