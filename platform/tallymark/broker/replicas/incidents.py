"""Incidents of replication, as lines of a file and records of a topic: what no count can show.

::

    {"at": 1767225600000, "kind": "unclean-election", "broker": 2, "leader_epoch": 7,
     "topic": "orders", "partition": 0, "topic_id": "<uuid>", "from_offset": 6, "to_offset": -1,
     "high_watermark": 6, "epochs": [[1, 0], [4, 3]], "folder": "", "why": ""}

==================  ================================================================================
unclean-election    ``broker`` leads from ``leader_epoch`` on, and may lack committed records: its
                    log ended at ``from_offset``; ``epochs``: (epoch, first offset) of its log
given-up            ``broker`` has cut the offsets from..to (excluded) off its log for the leader of
                    ``leader_epoch``; ``epochs`` are theirs. They are saved in ``folder``, or, where
                    that is empty, not at all, as ``why`` says
==================  ================================================================================

The audit reads the topic, and makes incidents of its records. The file has them as well, since the
topic may have no leader just when such things happen.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from tallymark.broker.partitions.partition import Partition
from tallymark.broker.replicas.cutting import GivenUp

INCIDENTS: Final = "incidents of replication"
INCIDENTS_FILE: Final = "replication-incidents.jsonl"
UNCLEAN_ELECTION: Final = "unclean-election"
GIVEN_UP: Final = "given-up"


@dataclass(frozen=True, slots=True)
class ReplicationIncident:
    """One line; see the module. ``at`` in ms."""

    at: int
    kind: str
    broker: int
    topic: str
    partition: int
    topic_id: UUID
    leader_epoch: int
    from_offset: int
    to_offset: int
    high_watermark: int
    epochs: tuple[tuple[int, int], ...]
    folder: str = ""
    why: str = ""

    def line(self) -> bytes:
        """With its newline."""
        document = asdict(self) | {"topic_id": str(self.topic_id)}
        return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def unclean_election(broker: int, partition: Partition, at: int) -> ReplicationIncident:
    """This broker has begun to lead, and nothing was appended yet."""
    return ReplicationIncident(
        at,
        UNCLEAN_ELECTION,
        broker,
        partition.topic,
        partition.index,
        partition.topic_id,
        partition.leader_epoch,
        partition.log.end_offset,
        -1,
        partition.high_watermark,
        tuple(partition.log.epochs),
    )


def given_up(found: GivenUp) -> ReplicationIncident:
    """A cut took committed records."""
    tail = found.tail
    return ReplicationIncident(
        tail.saved_at,
        GIVEN_UP,
        tail.broker,
        tail.topic,
        tail.partition,
        tail.topic_id,
        tail.leader_epoch,
        tail.from_offset,
        tail.to_offset,
        tail.high_watermark,
        tail.epochs,
        str(Path(found.folder).absolute()) if found.folder else "",
        found.why,
    )
