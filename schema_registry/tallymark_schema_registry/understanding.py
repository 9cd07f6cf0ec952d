"""From a schema's text to its identity in the registry: canonical text and MD5."""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from tallymark_schema_registry import errors
from tallymark_schema_registry.bounded_cache import BoundedCache
from tallymark_schema_registry.schemas import (
    Budget,
    InvalidSchemaError,
    Schema,
    canonical_text,
    parse_schema,
)


class Understood(NamedTuple):
    """``text`` is the canonical text, ``md5`` the hash of that: the schema's identity."""

    schema: Schema
    text: str
    md5: str


# Clients register the same few schemas at every start. A parsed schema takes some 30 times its
# text, so this is a bound of about 100 MB.
_remembered: Final[BoundedCache[str, Understood]] = BoundedCache(4 << 20, largest=1 << 16)


def understand(text: str, budget: Budget | None = None) -> Understood:
    """The schema, parsed or from the cache. Raises the 42201 error, or TooLargeError when
    ``budget`` is spent."""
    found = _remembered.get(text)
    if found is None:
        found = _understand(text, budget)
        _remembered.put(text, found, text)
    return found


def _understand(text: str, budget: Budget | None) -> Understood:
    if not text.strip():
        raise errors.invalid_schema("it is empty")
    try:
        schema = parse_schema(text, budget)
        canonical = canonical_text(schema)
    except InvalidSchemaError as error:
        raise errors.invalid_schema(str(error)) from error
    except RecursionError:
        raise errors.invalid_schema("it is nested too deeply") from None
    md5 = hashlib.md5(canonical.encode(), usedforsecurity=False).hexdigest()
    return Understood(schema, canonical, md5)
