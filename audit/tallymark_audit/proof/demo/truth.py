"""What was really lost, kept apart from everything that judges until the verdict is in.

The cut bytes are sealed in a file. :func:`open_seal` decodes them by themselves: the identities of
every record that stood there. Some of them may be back: records that the broker had appended but
not yet acknowledged are sent again by the mirrors, as they must be. So what is lost is what was
cut and is not in the log any more, which :func:`still_missing` finds by reading the log again.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.protocol.records.batch import split_batches
from tallymark_audit.proof.harness.power_failure import Cut


class Identity(NamedTuple):
    """A message, wherever it is: run of the producer (hex), origin topic and partition, number."""

    topic: str
    partition: int
    instance: str
    sequence: int
    server: str


def seal(cut: Cut, path: Path) -> None:
    """Put the cut bytes away."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(cut.taken)


def open_seal(path: Path, topic: str) -> set[Identity]:
    """The identities of all records that were cut off."""
    found: set[Identity] = set()
    for batch in split_batches(path.read_bytes()):
        for record in batch.records():
            stamp = stamp_of(record.headers)
            if isinstance(stamp, Stamp):
                found.add(_identity(topic, stamp))
    return found


def still_missing(cut: set[Identity], bootstrap: str, topic: str, partition: int) -> set[Identity]:
    """Those of the cut records that the partition does not hold now."""
    missing = set(cut)
    with SimpleConsumer(bootstrap_servers=bootstrap, client_id="demo-truth") as consumer:
        offset = consumer.get_offsets_before(topic, partition, -2)[0]
        end = consumer.get_offsets_before(topic, partition, -1)[0]
        while offset < end:
            fetched = consumer.fetch(topic, partition, offset, max_bytes=4 << 20)
            for record in fetched.records():
                stamp = stamp_of(record.headers)
                if isinstance(stamp, Stamp):
                    missing.discard(_identity(topic, stamp))
            offset = max(fetched.next_offset, offset + 1)
    return missing


def _identity(topic: str, stamp: Stamp) -> Identity:
    return Identity(topic, stamp.partition, stamp.instance.hex(), stamp.sequence, stamp.server)
