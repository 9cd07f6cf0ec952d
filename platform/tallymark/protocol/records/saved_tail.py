"""The folder in which a broker saves records before it cuts them off a log, and its description.

::

    orders-0.<32 hex digits>-truncated/
        00000000000000000006.log     the batches, as they were in the log: the name is the offset
        00000000000001204411.log     that the file begins at; a new file each 1 GiB
        tail.json                    last, durably: a folder without it is of a crash, and of no use

        {"version": 1, "cluster_id": "...", "broker": 1, "saved_at": 1767225600000,
         "topic": "orders", "partition": 0, "topic_id": "<uuid>", "leader_epoch": 7,
         "from_offset": 6, "to_offset": 20, "high_watermark": 12, "bytes": 1180,
         "epochs": [[1, 6], [4, 10]]}

``leader_epoch`` is that of the leader for which the log was cut; ``epochs`` are (epoch, first
offset) of the records; ``to_offset`` is excluded. The files are Kafka's segments without indexes:
its ``kafka-dump-log`` reads them.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass
from typing import Final

TRUNCATED: Final = "-truncated"
"""How the folder's name ends."""
DESCRIPTION: Final = "tail.json"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Tail:
    """What ``tail.json`` says; see the module."""

    cluster_id: str
    broker: int
    saved_at: int
    topic: str
    partition: int
    topic_id: uuid.UUID
    leader_epoch: int
    from_offset: int
    to_offset: int
    high_watermark: int
    bytes: int
    epochs: tuple[tuple[int, int], ...]


def encode_tail(tail: Tail) -> bytes:
    """The content of ``tail.json``."""
    document = {"version": _VERSION, **asdict(tail), "topic_id": str(tail.topic_id)}
    return json.dumps(document, indent=1).encode()


def decode_tail(data: bytes) -> Tail | None:
    """The inverse of :func:`encode_tail`; None where it is no description, or one of a release that
    this one does not know."""
    try:
        raw = json.loads(data)
        if raw.pop("version") != _VERSION:
            return None
        raw["topic_id"] = uuid.UUID(raw["topic_id"])
        raw["epochs"] = tuple((int(epoch), int(offset)) for epoch, offset in raw["epochs"])
        return Tail(**raw)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
