"""Valid requests of every API a broker serves, made at random but likely to get far: names that
exist, small numbers, whole record batches. The same seed makes the same requests.

What would take minutes or gigabytes by design (topics of thousands of partitions, waiting for an
hour) is asked for with ``validate_only`` or small numbers; a mutation may still turn that around.

A *nasty* request is well-formed, too, but what stands in it is not what anybody would ask for: the
ends of number ranges, empty and strange names, the same element twice, damaged batches.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from tallymark.protocol import frames
from tallymark.protocol.api import ADVERTISED, ApiKey
from tallymark.protocol.messages import REQUEST_CLASSES
from tallymark.protocol.records.batch import encode_batch
from tallymark.protocol.records.compression import CODECS
from tallymark.protocol.schema import (
    Array,
    Bool,
    Fixed,
    Float64,
    Records,
    String,
    Struct,
    Uuid,
    WireField,
    wire_fields,
)

TOPICS: Final = ("fuzz-a", "fuzz-b", "fuzz-c")
_GROUPS: Final = ("fuzz-group-1", "fuzz-group-2")
_SMALL: Final = (0, 0, 0, 1, 2, -1, 7)
_TIMES: Final = (0, 1, 5, 20)

_CHOICES: Final[dict[str, Sequence[Any]]] = {
    "validate_only": (True,),
    "num_partitions": (1, 2, -1),
    "count": (1, 2, 3),
    "replication_factor": (1, -1),
    "replica_id": (-1,),
    "acks": (-1, 0, 1),
    "max_bytes": (1000, 1 << 20),
    "partition_max_bytes": (1000, 1 << 20),
    "timestamp": (-1, -2, -3, 0),
    "session_timeout_ms": (6000,),
    "rebalance_timeout_ms": (1, 100),
    "session_epoch": (-1, 0, 1),
    "protocol_type": ("consumer",),
    "protocol_name": ("range", None),
    "key_type": (0, 1),
    "resource_type": (2, 3, 4),
    "config_operation": (0, 1, 2, 3),
    "mechanism": ("PLAIN", "SCRAM-SHA-256"),
    "client_software_name": ("fuzz",),
    "client_software_version": ("1.0",),
    "transactional_id": (None,),
    "group_instance_id": (None, "static"),
    "current_leader_epoch": (-1, 0),
}
"""Values of fields by their name."""


_EXTREMES: Final = {"b": 2**7, "h": 2**15, "i": 2**31, "q": 2**63}
_STRANGE: Final = (
    "",
    ".",
    "..",
    "a/b",
    "\0",
    "x" * 249,
    "y" * 5000,
    "é€𝄞",
    "__consumer_offsets",
    " ",
)


class NastyRandom(Random):
    """Its requests are nasty now and then."""

    def strikes(self) -> bool:
        return self.random() < 0.15


def random_frame(random: Random, *, nasty: bool = False) -> bytes:
    """One frame, size included, of an API and version that are served."""
    key = random.choice(tuple(ADVERTISED))
    low, high = ADVERTISED[key]
    version = random.randint(low, high)
    request = random_request(key, version, NastyRandom(random.random()) if nasty else random)
    return frames.encode_request(request, version, random.getrandbits(31), "fuzz")


def random_request(key: ApiKey, version: int, random: Random) -> Any:
    """One request."""
    return _struct(REQUEST_CLASSES[key], version, random)


def _struct(cls: type[Struct], version: int, random: Random) -> Any:
    return cls(
        **{
            field.name: _value(field, version, random)
            for field in wire_fields(cls)
            if field.present(version) and (field.tag is None or random.random() < 0.3)
        }
    )


def _value(field: WireField, version: int, random: Random) -> Any:
    nullable = field.nullable(version)
    if nullable and random.random() < 0.1:
        return None
    if isinstance(random, NastyRandom) and field.name != "validate_only" and random.strikes():
        return _nasty(field.kind, version, random)
    if (choices := _CHOICES.get(field.name)) is not None:
        value = random.choice(choices)
        if value is None:
            return None if nullable else ""
        if isinstance(value, str) == (field.kind is String):  # two APIs may mean different things
            return value
    if field.kind is String:
        return _text(field.name, random)
    if field.name.endswith("_ms"):
        return random.choice(_TIMES)
    return _of_kind(field.kind, version, random)


def _nasty(kind: Any, version: int, random: NastyRandom) -> Any:
    if kind is String:
        return random.choice(_STRANGE)
    if kind is Records:
        batch = bytearray(_batch(random))
        batch[random.randrange(len(batch))] ^= 1 << random.randrange(8)
        return random.choice((bytes(batch), bytes(batch[:-3]), bytes(batch) * 2, b"", None))
    if isinstance(kind, Array):
        one = _of_kind(kind.element, version, random)
        return (one,) * random.choice((2, 2, 2, 60))
    if isinstance(kind, Fixed) and kind.code in _EXTREMES:
        top = _EXTREMES[kind.code]
        return random.choice((top - 1, -top, -1, -2, top - 2, 0, 1))
    return _of_kind(kind, version, random)


def _text(name: str, random: Random) -> str:
    if "group" in name:
        return random.choice(_GROUPS)
    if "topic" in name or name in ("name", "resource_name"):
        return random.choice(TOPICS)
    return random.choice(("", "x", "consumer", "member-1", "é€"))


def _of_kind(kind: Any, version: int, random: Random) -> Any:
    if kind is String:
        return random.choice((*TOPICS, *_GROUPS))
    if kind is Records:
        return _batch(random)
    if isinstance(kind, Array):
        count = random.choice((0, 1, 1, 2, 3))
        return tuple(_of_kind(kind.element, version, random) for _ in range(count))
    if isinstance(kind, type):
        return _struct(kind, version, random)
    for known, make in _MAKERS:
        if kind is known:
            return make(random)
    if isinstance(kind, Fixed):
        return random.choice(_SMALL)
    return random.randbytes(random.choice((0, 1, 20, 100)))


_MAKERS: Final[tuple[tuple[Any, Callable[[Random], Any]], ...]] = (
    (Bool, lambda random: random.random() < 0.5),
    (Float64, lambda random: random.random()),
    (Uuid, lambda random: uuid.UUID(int=random.choice((0, random.getrandbits(128))))),
)


def _batch(random: Random) -> bytes:
    idempotent = random.random() < 0.3
    return encode_batch(
        [
            (b"k%d" % random.randrange(5), random.randbytes(random.choice((0, 10, 200))), (), 1)
            for _ in range(random.randint(1, 4))
        ],
        compression=random.choice(CODECS),
        producer_id=random.randrange(3) if idempotent else -1,
        producer_epoch=0 if idempotent else -1,
        base_sequence=random.randrange(4) if idempotent else -1,
    )
