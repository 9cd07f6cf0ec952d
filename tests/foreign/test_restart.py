"""Other people's clients while the broker dies and comes back on the same port."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from foreign_clients.confluent import Member
from foreign_clients.rows import SECONDS

from tallymark.client.admin.admin import Admin
from tallymark.testing.broker_thread import BrokerThread

pytestmark = pytest.mark.process


class Stream:
    """librdkafka's idempotent producer, sending numbers in a thread until it is ended."""

    def __init__(self, servers: str, topic: str) -> None:
        config = {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 2}
        self._producer, self._topic = Producer(config), topic
        self.sent = 0
        self.failed: list[Any] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._producer.produce(
                self._topic,
                b"%d" % self.sent,
                partition=0,
                on_delivery=lambda error, _: self.failed.append(error) if error else None,
            )
            self.sent += 1
            self._producer.poll(0.001)

    def end(self) -> None:
        """Everything it has sent is delivered, or the test fails."""
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(SECONDS) == 0
        assert self.failed == []


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_producer_and_a_group_go_on(tmp_path: Path, how: str) -> None:
    """Every number is written once and in order, and the group goes on where it committed."""
    with BrokerThread(tmp_path, group_initial_rebalance_delay_ms=0) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("t")
        stream = Stream(broker.bootstrap_servers, "t")
        member = Member(broker.bootstrap_servers, "t")
        seen: list[bytes] = []
        try:
            for _ in range(2):
                before, deadline = len(seen), time.monotonic() + SECONDS
                while len(seen) < before + 200:
                    assert time.monotonic() < deadline, (before, len(seen), stream.sent)
                    seen += member.poll()
                member.commit()
                member.close()  # its successor begins where it committed
                getattr(broker, how)()
                broker.start()
                member = Member(broker.bootstrap_servers, "t")
            stream.end()
            deadline = time.monotonic() + SECONDS
            while len(seen) < stream.sent and time.monotonic() < deadline:
                seen += member.poll()
        finally:
            stream.end()
            member.close()
    assert seen == [b"%d" % n for n in range(stream.sent)]
