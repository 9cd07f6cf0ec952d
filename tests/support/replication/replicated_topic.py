"""A topic of a real broker with several replicas: its leader is the broker, its followers are
played by the test on the wire, and its state node is in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from uuid import UUID

from memory_states import MemoryStates

from tallymark.broker.partitions.partition import Partition
from tallymark.broker.replicas.lead import ReplicatedLead
from tallymark.broker.replicas.leading import Leads
from tallymark.broker.state import BrokerState
from tallymark.clock import monotonic_ms
from tallymark.protocol import messages as m
from tallymark.protocol.messages.k01_fetch import FetchRequestReplicaState
from tallymark.protocol.records.batch import encode_batch
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.model import Assignment, BrokerView, PartitionState, PartitionView
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

T = TypeVar("T")
FETCH_VERSION = 16
EPOCHS = {0: 10, 1: 11, 2: 12}
"""Broker epochs; the leader is broker 0."""


class ReplicatedTopic:
    """Partition 0 of the topic ``name``, made with ``records`` records before it gets its replicas;
    ``known`` of them are known to be committed."""

    def __init__(
        self,
        broker: BrokerThread,
        name: str,
        *,
        isr: tuple[int, ...] = (0, 1, 2),
        min_insync: int = 2,
        records: int = 0,
        known: int | None = None,
        configs: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self.key: TopicPartition = (name, 0)
        self._broker = broker
        with WireClient(broker.bootstrap_servers) as client:
            made = m.CreateTopicsRequestTopic(
                name=name,
                num_partitions=1,
                replication_factor=1,
                configs=[
                    m.CreateTopicsRequestConfig(name=key, value=value)
                    for key, value in (configs or {}).items()
                ],
            )
            client.ask(m.CreateTopicsRequest(topics=[made], timeout_ms=5000), 5)
            for number in range(records):
                client.ask(self.produce(acks=1, timestamp=number), 9)
        self.states, self.leads = self.on_loop(lambda: self._begin(isr, min_insync, known))

    @property
    def partition(self) -> Partition:
        """The broker's; other threads may look at its numbers."""
        return self.broker_state.partitions.find(*self.key)

    @property
    def topic_id(self) -> UUID:
        return self.partition.topic_id

    @property
    def broker_state(self) -> BrokerState:
        assert self._broker.broker is not None
        state = self._broker.broker.state
        assert state is not None
        return state

    @property
    def lead(self) -> ReplicatedLead:
        found = self.leads.get(self.key)
        assert found is not None
        return found

    @property
    def waiting(self) -> int:
        """Requests with acks=all that wait."""
        return len(self.partition._commit_waits)

    def tasks(self) -> int:
        """Tasks on the broker's loop."""
        return self.on_loop(lambda: len(asyncio.all_tasks()))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` on the broker's loop."""
        return self._broker.call(work)

    def on_loop(self, work: Callable[[], T]) -> T:
        """Call ``work`` on the broker's loop."""

        async def run() -> T:
            return work()

        return self._broker.call(run())

    def look_over(self) -> None:
        """The leader looks at time and brokers."""
        self._broker.call(self.leads.look_over())

    def produce(
        self, *, acks: int = -1, timeout_ms: int = 10_000, timestamp: int = 1, value: bytes = b"x"
    ) -> m.ProduceRequest:
        """A request with one record."""
        part = m.ProduceRequestPartition(
            index=0, records=encode_batch([(None, value, (), timestamp)])
        )
        topic = m.ProduceRequestTopic(name=self.name, partition_data=[part])
        return m.ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])

    def fetch(
        self,
        broker: int,
        offset: int,
        *,
        last_epoch: int | None = None,
        epoch: int | None = None,
        leader_epoch: int = 0,
        max_wait_ms: int = 0,
        log_start: int = 0,
        **fields: Any,
    ) -> m.FetchRequest:
        """A request of a follower whose log ends at ``offset``."""
        part = m.FetchRequestPartition(
            partition=0,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            last_fetched_epoch=(0 if offset else -1) if last_epoch is None else last_epoch,
            log_start_offset=log_start,
            partition_max_bytes=1 << 20,
        )
        state = FetchRequestReplicaState(
            replica_id=broker, replica_epoch=EPOCHS.get(broker, 0) if epoch is None else epoch
        )
        fixed: dict[str, Any] = {
            "session_epoch": -1,
            "topics": [m.FetchRequestTopic(topic_id=self.topic_id, partitions=[part])],
        }
        return m.FetchRequest(
            replica_state=state,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            **(fixed | fields),
        )

    def consume(self, offset: int, *, max_wait_ms: int = 0, isolation: int = 0) -> m.FetchRequest:
        """A request of a consumer."""
        part = m.FetchRequestPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=1 << 20
        )
        return m.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=isolation,
            session_epoch=-1,
            topics=[m.FetchRequestTopic(topic_id=self.topic_id, partitions=[part])],
        )

    def copied(self, client: WireClient, offset: int, brokers: tuple[int, ...] = (1, 2)) -> None:
        """These followers have all before ``offset``."""
        for broker in brokers:
            part = one(client.ask(self.fetch(broker, offset), FETCH_VERSION))
            assert part.error_code == 0

    def _begin(
        self, isr: tuple[int, ...], min_insync: int, known: int | None
    ) -> tuple[MemoryStates, Leads]:
        partition = self.partition
        state = PartitionState(0, partition.leader_epoch, isr, version=1)
        states = MemoryStates({self.key: state}, EPOCHS)
        metrics = self.broker_state.metrics.replication
        leads = Leads(0, states, monotonic_ms, metrics=metrics)
        leads.brokers_changed({one: BrokerView(one, epoch) for one, epoch in EPOCHS.items()})
        if known is not None:
            partition.begin_replicated(known)
        leads.begin(partition, PartitionView(Assignment((0, 1, 2)), state, min_insync))
        return states, leads


def one(response: m.FetchResponse) -> m.FetchResponsePartition:
    """The one partition of an answer."""
    assert response.error_code == 0, response.error_code
    ((part,),) = (topic.partitions for topic in response.responses)
    return part
