"""What really is in the logs, read record by record without any of the audit's code."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.protocol.records.batch import Record

Message = tuple[bytes, int, int]
"""(instance, origin partition, sequence): the identity of a message within its topic."""


@dataclass
class Contents:
    """One topic of one cluster: copies of each message by window, and every value."""

    by_window: dict[int, Counter[Message]] = field(default_factory=dict[int, Counter[Message]])
    values: set[bytes] = field(default_factory=set[bytes])


def read(bootstrap: str, topic: str, window_ms: int) -> Contents:
    """All of the topic that is there now."""
    contents = Contents()
    for record in _records(bootstrap, topic):
        stamp = stamp_of(record.headers)
        assert isinstance(stamp, Stamp), record
        window = record.timestamp - record.timestamp % window_ms
        identity = (stamp.instance, stamp.partition, stamp.sequence)
        contents.by_window.setdefault(window, Counter())[identity] += 1
        assert record.value is not None
        contents.values.add(bytes(record.value))
    return contents


def _records(bootstrap: str, topic: str) -> Iterator[Record]:
    with SimpleConsumer(bootstrap_servers=bootstrap) as consumer:
        starts, ends = consumer.start_offsets(topic), consumer.end_offsets(topic)
        for partition, end in ends.items():
            offset = starts[partition]
            while offset < end:
                fetched = consumer.fetch(topic, partition, offset, max_bytes=4 << 20)
                yield from (one for one in fetched.records() if one.offset >= offset)
                assert fetched.next_offset > offset
                offset = fetched.next_offset
