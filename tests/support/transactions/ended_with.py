"""With which protocol transactions were ended, as the log of their coordinators says."""

from __future__ import annotations

from collections.abc import Iterator

from tallymark import SimpleConsumer
from tallymark.protocol.records.batch import Record
from tallymark.protocol.topic_partition import TRANSACTIONS_TOPIC
from tallymark.transactions.records import decode_key, decode_value
from tallymark.transactions.transaction import COMPLETE


def protocols(servers: str) -> set[int]:
    """The ``transaction.version`` with which each id's last transaction was ended, where
    ``__transaction_state`` has one partition."""
    last: dict[str, int] = {}
    with SimpleConsumer(bootstrap_servers=servers) as consumer:
        for record in everything(consumer, TRANSACTIONS_TOPIC):
            name = decode_key(record.key or b"")
            if name is not None and record.value is not None:
                state = decode_value(name, record.value)
                if state.state in COMPLETE:
                    last[name] = state.version
    return set(last.values())


def everything(consumer: SimpleConsumer, topic: str) -> Iterator[Record]:
    """All records of its partition 0 until now."""
    position, end = 0, consumer.end_offsets(topic)[0]
    while position < end:
        fetched = consumer.fetch(topic, 0, position)
        yield from fetched.records()
        position = fetched.next_offset
