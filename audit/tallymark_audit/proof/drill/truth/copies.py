"""Where the copies of a message lie, and which batch each is in: so that a verdict of DUPLICATION
explains itself. A copy with another producer id was sent by another identity; one with the same id
and sequence was taken twice by a broker; the leader epochs say which leaders took them.

The brokers are asked again for the few batches concerned, while they still run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.errors import TallymarkError
from tallymark.protocol.records.batch import BatchHeader
from tallymark_audit.proof.drill.truth.books_and_logs import Log, Seen, SenderRun
from tallymark_audit.proof.drill.truth.expected import Finding

HeaderAt = Callable[[str, str, int, int], BatchHeader | None]
"""Cluster, topic, partition, offset -> the header of the batch there; None: it cannot be read."""
_GROUP: Final = "group:"


class Copies:
    """``logs``: by cluster, as in :class:`.whole_truth.Truth`, and by the name ``group:NAME`` what
    a group was given."""

    def __init__(self, logs: Mapping[str, Log], header_at: HeaderAt) -> None:
        self._logs = logs
        self._header_at = header_at

    def describe(self, item: Finding) -> str:
        """The message, and of each of its copies downstream the offset and the batch."""
        source, _, target = item.cell.edge.partition("-to-")
        cell = item.cell
        origin = SenderRun(cell.topic, cell.partition, cell.server, cell.instance)
        found = self._logs.get(target, {}).get(origin, {}).get(item.number, [])
        # A group is given what lies in the log of the cluster that it reads.
        cluster = source if target.startswith(_GROUP) else target
        places = "; ".join(self._place(cluster, cell.topic, one) for one in found)
        return (
            f"{item.kind} {cell.edge} {cell.topic}-{cell.partition} of {cell.server} "
            f"(instance {cell.instance}) sequence {item.number}: {places or 'not in the log'}"
        )

    def _place(self, cluster: str, topic: str, one: Seen) -> str:
        where = f"offset {one.offset} of {cluster}'s {topic}-{one.partition}"
        header = self._header_at(cluster, topic, one.partition, one.offset)
        if header is None:
            return f"{where} (its batch cannot be read)"
        sequence = header.base_sequence
        if header.producer_id >= 0:
            sequence += one.offset - header.base_offset
        return (
            f"{where} (leader epoch {header.partition_leader_epoch}, producer "
            f"{header.producer_id} epoch {header.producer_epoch} sequence {sequence}, "
            f"batch {header.base_offset} to {header.last_offset})"
        )


def header_reader(bootstrap_of: Callable[[str], str]) -> HeaderAt:
    """Reads headers from the brokers of a cluster, whose addresses ``bootstrap_of`` returns."""

    def header_at(cluster: str, topic: str, partition: int, offset: int) -> BatchHeader | None:
        try:
            with SimpleConsumer(
                bootstrap_servers=bootstrap_of(cluster), client_id="drill-copies"
            ) as consumer:
                batches = consumer.fetch(topic, partition, offset, max_bytes=1 << 20).batches
        except TallymarkError:
            return None
        return next((one.header for one in batches if one.header.next_offset > offset), None)

    return header_at
