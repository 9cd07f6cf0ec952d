"""What a schema consists of, and the hash that identifies it.

Two registrations are the same schema if their hash is the same::

    MD5( canonical text
         for each reference: name, subject, version      (only where there are references)
         1, metadata                                     (only where there is metadata)
         1, rule set                                     (only where there is a rule set) )

For a schema without references, metadata and rules it is the MD5 of the canonical text. The same
16 bytes, written as a UUID, are the schema's guid.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

AVRO: Final = "AVRO"


class Reference(NamedTuple):
    """The named type ``name`` is defined by ``version`` of ``subject`` (qualified)."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Content:
    """``text`` is the canonical text. ``metadata`` and ``rule_set`` are JSON texts with sorted
    keys, "" for none: they are stored, returned and part of the identity; serializers run them,
    the registry does not. A schema of another ``kind`` than AVRO was imported: it can be read, and
    nothing can be registered beside it."""

    text: str
    kind: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: str = ""
    rule_set: str = ""

    def md5(self) -> str:
        """The identity, 32 hexadecimal digits."""
        digest = hashlib.md5(self.text.encode(), usedforsecurity=False)
        for reference in self.references:
            digest.update(reference.name.encode())
            digest.update(reference.subject.encode())
            digest.update(reference.version.to_bytes(4, "big"))
        for part in (self.metadata, self.rule_set):
            if part:
                digest.update(b"\x01" + part.encode())
        return digest.hexdigest()


def guid_of(md5: str) -> str:
    """The guid of a schema: its identity as a UUID."""
    return str(uuid.UUID(hex=md5))


def sorted_json(value: Any) -> str:
    """A JSON text that is the same for equal values; "" for None and for {}."""
    if value is None or value == {}:
        return ""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
