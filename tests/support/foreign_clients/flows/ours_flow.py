"""Our own producer, and our consumer in a group of the brokers."""

from __future__ import annotations

from collections.abc import Callable

from foreign_clients.flows.flow import PAUSE, SESSION_MS, SETTLE_SECONDS, ThreadedFlow
from tallymark.client import Producer
from tallymark.client.connector.connector import ConsumerConnector
from tallymark.client.producing.delivery import RecordMetadata
from tallymark.errors import TallymarkError


class Ours(ThreadedFlow):
    def write(self) -> None:
        with Producer(bootstrap_servers=self.servers, audit=False) as producer:
            while not self.enough.wait(PAUSE):
                value = self.journal.next_value()
                producer.send(
                    self.journal.topic,
                    value.encode(),
                    partition=0,
                    on_delivery=self._settled(value),
                )
            producer.flush(SETTLE_SECONDS)

    def _settled(self, value: str) -> Callable[[Exception | None, RecordMetadata | None], None]:
        def done(error: Exception | None, metadata: RecordMetadata | None) -> None:
            self.journal.settled(value, metadata.offset if metadata else None, error)

        return done

    def read(self) -> None:
        connector = ConsumerConnector(
            bootstrap_servers=self.servers,
            group=self.group,
            auto_offset_reset="smallest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            before_release=self._released,
        )
        (stream,) = connector.create_message_streams({self.journal.topic: 1})[self.journal.topic]
        journal = self.journal
        try:
            while not self.is_over():
                found = stream.poll(0.1)
                journal.polled((one.offset, (one.value or b"").decode()) for one in found)
                if found:
                    self._commit(connector, found[-1].offset + 1)
            for _ in range(20):
                if self._commit(connector, None):
                    break
        finally:
            connector.shutdown()

    def _released(self) -> dict[tuple[str, int], int]:
        """Positions are stored after each poll."""
        self.journal.assigned()
        return {}

    def _commit(self, connector: ConsumerConnector, position: int | None) -> bool:
        """False where the coordinator is away."""
        try:
            connector.commit_offsets()
        except TallymarkError:
            return False
        if position is not None:
            self.journal.committed(position)
        return True
