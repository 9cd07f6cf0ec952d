"""A real producer with a real broker: what flush() leaves on the audit topic, without a close."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eventually import eventually

from tallymark.client import Producer, SimpleConsumer
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.events.claim_book import ClaimBook, fold
from tallymark_audit.events.event_codec import decode_event
from tallymark_audit.model.contents import blocks_of
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.sides import Claim
from tallymark_audit.reporters.producer.interceptor import AuditInterceptor

pytestmark = pytest.mark.process
VALUES = [b"value %d" % number for number in range(3000)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path) as running:
        yield running


def told(broker: BrokerThread) -> ClaimBook:
    """What the audit topic says."""
    with SimpleConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        if AUDIT_TOPIC not in consumer.topics():
            return ClaimBook()
        offset, end = 0, consumer.get_offsets_before(AUDIT_TOPIC, 0, -1)[0]
        values: list[Any] = []
        while offset < end:
            fetched = consumer.fetch(AUDIT_TOPIC, 0, offset)
            values += [record.value for batch in fetched.batches for record in batch.records()]
            offset = fetched.next_offset
        return fold(decode_event(value) for value in values)


def total(book: ClaimBook) -> Claim | None:
    """Of the one partition, whatever windows it took."""
    whole: Claim | None = None
    for key, claim in book.claims().items():
        assert (key.topic, key.partition, key.server) == ("t", 0, "web")
        whole = claim if whole is None else whole.merge(claim)
    return whole


def test_flush_tells_what_was_acknowledged_and_what_it_held(
    broker: BrokerThread, tmp_path: Path
) -> None:
    """Reports are due at the beginning, and then once an hour: the rest was told by the flush."""
    audit = AuditInterceptor(
        60_000, tmp_path / "j", report_interval_ms=3_600_000, content_check=True
    )
    with Producer(
        bootstrap_servers=broker.bootstrap_servers, server="web", interceptors=[audit]
    ) as producer:
        producer.send("t", VALUES[0], partition=0).result(30)
        eventually(lambda: told(broker).reporters, what="the first report is told")
        producer.send_many("t", VALUES[1:], partition=0).result(30)
        producer.flush(30)
        eventually(lambda: acknowledged(broker) == "0-2999", what="the claims are told")
        claim = total(told(broker))
        assert claim is not None
        assert claim.blocks == blocks_of(0, None, VALUES)
        assert sum(claim.latency[1::2]) == len(VALUES)
        (reporter,) = told(broker).reporters.values()
        assert not reporter.closed
    (reporter,) = told(broker).reporters.values()
    assert reporter.closed


def acknowledged(broker: BrokerThread) -> str:
    claim = total(told(broker))
    return str(claim.acknowledged) if claim else ""
