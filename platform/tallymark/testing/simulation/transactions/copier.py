"""Consume, transform, produce on simulated brokers: what is committed in one partition is copied
into another, and the position goes with each transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final

from tallymark.client.producing.transactions.machine import Place
from tallymark.errors import KafkaError, TallymarkError
from tallymark.protocol.messages import FindCoordinatorRequest, OffsetFetchRequest
from tallymark.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from tallymark.testing.simulation.consumer import SimulatedConsumer
from tallymark.testing.simulation.history import History
from tallymark.testing.simulation.transactions.cluster import SimulatedCluster
from tallymark.testing.simulation.transactions.producer import Numbers, TransactionalProducer

GROUP: Final = "copiers"


class Copier(TransactionalProducer):
    """Copies ``source`` to ``target``: a value ``<12:7>`` becomes ``<transaction:n><12:7>``."""

    def __init__(
        self,
        name: str,
        cluster: SimulatedCluster,
        places: tuple[Place, Place],
        chance: Random,
        history: History,
        numbers: Numbers,
    ) -> None:
        source, target = places
        super().__init__(name, cluster, (target,), chance, history, numbers)
        self._source, self._target = source, target
        self._position: int | None = None
        self._following = 0

    async def work(self, number: int) -> None:
        if self._position is None:
            self._position = await position_of(self.cluster, self._source)
        values = await self._read(self._position)
        copies = [f"<{number}:{self._numbers.next()}>{value}" for value in values]
        if copies:
            await self.write(number, self._target, copies)
        if self._following > self._position:
            await self.send_offset(self._source, self._following, GROUP)

    def over(self, *, committed: bool) -> None:
        self._position = self._following if committed else None

    async def _read(self, position: int) -> Sequence[str]:
        seen = History(lambda: 0.0)
        reader = SimulatedConsumer("copier", self.cluster.caller, 1, self.chance, seen)
        reader.committed_only = True
        reader.positions = {self._source[1]: position}
        await reader.poll(self._source[1])
        self._following = max(position, reader.positions[self._source[1]])
        return [str(event.facts[3]) for event in seen.of("read committed")]


async def position_of(cluster: SimulatedCluster, place: Place) -> int:
    """Where the group of copiers stands, when that is decided."""
    topic = OffsetFetchRequestTopic(name=place[0], partition_indexes=(place[1],))
    request = OffsetFetchRequest(
        groups=(OffsetFetchRequestGroup(group_id=GROUP, topics=(topic,)),), require_stable=True
    )
    while True:
        try:
            found = await cluster.ask_any(
                FindCoordinatorRequest(key_type=0, coordinator_keys=(GROUP,))
            )
            link = await cluster.link(found.coordinators[0].node_id)
            version = link.version_of(OffsetFetchRequest, 9)  # names, not ids, of topics
            answer = await link.request(request, version, timeout=cluster.request_timeout)
            (group,) = answer.groups
            if not group.error_code and not group.topics[0].partitions[0].error_code:
                return max(group.topics[0].partitions[0].committed_offset, 0)
        except (TallymarkError, KafkaError, KeyError):
            pass
        await asyncio.sleep(0.1)
