"""What a schema consists of, and the hash that identifies it.

Two registrations are the same schema if their hash is the same::

    MD5( canonical text
         for each reference: name, subject, version      (only where there are references)
         1, the texts of the metadata                    (only where there is metadata)
         1, the texts of the rule set )                  (only where there is a rule set)

For a schema without references, metadata and rules it is the MD5 of the canonical text. The same
16 bytes, written as a UUID, are the schema's guid. Confluent's servers compute the same one.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

AVRO: Final = "AVRO"
OTHER_KINDS: Final = ("JSON", "PROTOBUF")
"""Types of schemas that other registries have. Imported ones can be read."""
RULE_LISTS: Final = ("migrationRules", "domainRules", "encodingRules")


class Reference(NamedTuple):
    """The named type ``name`` is defined by ``version`` of ``subject``. The subject is as the
    client wrote it: without a context it means the context of the schema that refers to it."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Content:
    """``text`` is the canonical text. ``metadata`` and ``rule_set``: see :mod:`.contracts`; "" for
    none. A schema of another ``kind`` than AVRO was imported: it can be read, and
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
        if self.metadata:
            digest.update(b"\x01" + "".join(_metadata_parts(self.metadata)).encode())
        if self.rule_set:
            digest.update(b"\x01" + "".join(_rule_set_parts(self.rule_set)).encode())
        return digest.hexdigest()


def guid_of(md5: str) -> str:
    """The guid of a schema: its identity as a UUID."""
    return str(uuid.UUID(hex=md5))


def sorted_json(value: Any) -> str:
    """A JSON text that is the same for equal values; "" for None."""
    if value is None:
        return ""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def is_unicode(*texts: str) -> bool:
    """False where one has half of a surrogate pair: it can be written in JSON, but not hashed, sent
    or stored."""
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _metadata_parts(metadata: str) -> Iterator[str]:
    # In the order in which Confluent's servers hash them.
    tree = json.loads(metadata)
    for path in _in_order(tree.get("tags", {})):
        yield path
        yield from tree["tags"][path]
    yield from _pairs(tree.get("properties", {}))
    yield from tree.get("sensitive", ())


def _rule_set_parts(rule_set: str) -> Iterator[str]:
    tree = json.loads(rule_set)
    for key in RULE_LISTS:
        for rule in tree.get(key, ()):
            for name in ("name", "doc", "kind", "mode", "type"):
                yield rule.get(name, "")
            yield from rule.get("tags", ())
            yield from _pairs(rule.get("params", {}))
            for name in ("expr", "onSuccess", "onFailure"):
                yield rule.get(name, "")
            if rule.get("disabled"):
                yield "\x01"
    yield tree.get("enableOnlyAt", "")


def _pairs(texts: dict[str, str]) -> Iterator[str]:
    for key in _in_order(texts):
        yield key
        yield texts[key]


def _in_order(keys: dict[str, Any]) -> list[str]:
    return sorted(keys, key=java_order)


def java_order(text: str) -> bytes:
    """Java compares texts by units of UTF-16, not by code points."""
    return text.encode("utf-16-be", "surrogatepass")
