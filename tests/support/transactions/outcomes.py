"""A topic with committed, aborted and plain messages: what our own producer leaves in a log."""

from __future__ import annotations

from typing import Final

from tallymark.client import Producer

VALUES: Final = (
    ("plain", b"plain"),
    ("committed", b"kept-1"),
    ("aborted", b"dropped-1"),
    ("aborted", b"dropped-2"),
    ("committed", b"kept-2"),
)
COMMITTED: Final = [value for outcome, value in VALUES if outcome != "aborted"]
ALL: Final = [value for _, value in VALUES]


def write_outcomes(servers: str, topic: str) -> None:
    """:data:`VALUES` in partition 0, each in a transaction of its own, and its marker."""
    with (
        Producer(bootstrap_servers=servers, audit=False) as plain,
        Producer(bootstrap_servers=servers, audit=False, transactional_id=topic) as producer,
    ):
        producer.init_transactions()
        for outcome, value in VALUES:
            if outcome == "plain":
                plain.send(topic, value, partition=0).result(30)
                continue
            producer.begin_transaction()
            producer.send(topic, value, partition=0)
            if outcome == "committed":
                producer.commit_transaction()
            else:
                producer.flush()
                producer.abort_transaction()
