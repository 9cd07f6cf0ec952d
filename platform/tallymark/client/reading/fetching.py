"""Reading partitions from their leaders, with what can go wrong on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Final, TypeAlias

from tallymark.client.core.cluster import RETRY_BACKOFF, Cluster
from tallymark.client.metrics import Metrics
from tallymark.client.reading.fetch_request import (
    FetchLimits,
    build_request,
    names_in,
    read_response,
)
from tallymark.client.reading.fetched import Fetched, FetchSpec
from tallymark.client.reading.nearer import NearReplicas
from tallymark.client.reading.truncation import TruncationCheck
from tallymark.errors import CODES, AuthenticationError, ConnectError, KafkaError, TallymarkError
from tallymark.net.addresses import Address
from tallymark.protocol.topic_partition import TopicPartition

Outcome: TypeAlias = Fetched | KafkaError

_Key: TypeAlias = tuple[Address, tuple[FetchSpec, ...], FetchLimits]

_LONGEST_BACKOFF: Final = 1.0
_FAIR_SECONDS: Final = 1.0
"""How much longer than the long poll a leader may take when another one has answered."""
_MOST_LATE: Final = 32
"""Requests that are late and were not asked for again."""


class Fetcher:
    """Fetches for one client. Lives in its event loop."""

    def __init__(self, cluster: Cluster, check_crcs: bool, rack: str = "") -> None:
        self._cluster = cluster
        self._rack = rack
        self._near = NearReplicas(monotonic)
        self._check_crcs = check_crcs
        self._truncation = TruncationCheck(cluster)
        self._late: dict[_Key, asyncio.Task[list[Outcome]]] = {}

    async def fetch(self, specs: Sequence[FetchSpec], limits: FetchLimits) -> list[Outcome]:
        """One outcome per spec, in their order.

        While no partition at all can be read because brokers are away, leaders move or metadata is
        old, it tries again for the request timeout; as soon as one has an outcome, the others'
        errors are given as they are.
        """
        deadline = asyncio.get_running_loop().time() + self._cluster.request_timeout
        backoff = RETRY_BACKOFF
        while True:
            outcomes: list[Outcome]
            try:
                outcomes = await self._attempt(specs, limits)
            except ConnectError as error:
                if isinstance(error, AuthenticationError):
                    raise
                if not self._cluster.metadata.brokers:  # never reached: the address may be wrong
                    raise
                outcomes = [_as_kafka(error, spec) for spec in specs]
            if not outcomes or not all(map(may_pass, outcomes)):
                if any(map(may_pass, outcomes)):
                    self._cluster.refresh_soon()
                return outcomes
            if asyncio.get_running_loop().time() + backoff > deadline:
                return outcomes
            await asyncio.sleep(backoff)
            backoff = min(_LONGEST_BACKOFF, backoff * 2)
            await asyncio.shield(self._cluster.refresh_soon())

    async def close(self) -> None:
        """End what is still under way."""
        late, self._late = list(self._late.values()), {}
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _attempt(self, specs: Sequence[FetchSpec], limits: FetchLimits) -> list[Outcome]:
        unknown = self.unknown(specs)
        if unknown:
            await self._cluster.refresh(unknown)
        self._cluster.refresh_if_old()
        outcomes, by_leader = self.divide(specs)
        calls = [
            self._call(address, [specs[index] for index in indices], limits)
            for address, indices in by_leader.items()
        ]
        try:
            await _fair_wait([task for _, task in calls], limits)
        except asyncio.CancelledError:
            for _, task in calls:
                task.cancel()
            raise
        for indices, (key, task) in zip(by_leader.values(), calls, strict=True):
            if task.done():
                outcomes.update(zip(indices, task.result(), strict=True))
                continue
            self._late[key] = task
            outcomes.update({index: _too_late(key[0], specs[index]) for index in indices})
        return [outcomes[index] for index in range(len(specs))]

    def unknown(self, specs: Iterable[FetchSpec]) -> set[str]:
        """The topics of partitions whose leader is not known."""
        return {
            spec.topic
            for spec in specs
            if self._cluster.leader_address(spec.topic, spec.partition) is None
        }

    def divide(
        self, specs: Sequence[FetchSpec]
    ) -> tuple[dict[int, Outcome], dict[Address, list[int]]]:
        """What is wrong with specs that have no leader, and which the others' leaders are; both by
        the numbers of the specs."""
        outcomes: dict[int, Outcome] = {}
        by_leader: dict[Address, list[int]] = {}
        for index, spec in enumerate(specs):
            address = self._address(spec)
            if address is None:
                outcomes[index] = self._no_leader(spec)
            else:
                by_leader.setdefault(address, []).append(index)
        return outcomes, by_leader

    def _call(
        self, address: Address, specs: Sequence[FetchSpec], limits: FetchLimits
    ) -> tuple[_Key, asyncio.Task[list[Outcome]]]:
        """Ask one leader; or go on waiting for it, when it was asked just that and was late."""
        key = (address, tuple(specs), limits)
        task = self._late.pop(key, None)
        while len(self._late) > _MOST_LATE:
            self._late.pop(next(iter(self._late))).cancel()
        if task is None or task.cancelled():
            task = asyncio.create_task(self.from_leader(address, specs, limits))
        return key, task

    def _no_leader(self, spec: FetchSpec) -> KafkaError:
        where = f"{spec.topic}-{spec.partition}"
        code = self._cluster.metadata.error(spec.topic)
        if not code:
            known = self._cluster.metadata.leader(spec.topic, spec.partition)
            name = "LEADER_NOT_AVAILABLE" if known else "UNKNOWN_TOPIC_OR_PARTITION"
            code = CODES[name]
        return KafkaError(code, where)

    def _address(self, spec: FetchSpec) -> Address | None:
        """Where to read: a follower that the leader has named, or the leader."""
        near = None
        if self._rack:
            near = self._near.address((spec.topic, spec.partition), self._cluster.metadata)
        return near or self._cluster.leader_address(spec.topic, spec.partition)

    async def from_leader(
        self, address: Address, specs: Sequence[FetchSpec], limits: FetchLimits
    ) -> list[Outcome]:
        """One request to one leader, or to a follower that it has named; one outcome per spec.
        Raises AuthenticationError."""
        if not self._rack:
            return (await self._from(address, specs, limits))[0]
        leads = [self._cluster.leader_address(one.topic, one.partition) == address for one in specs]
        outcomes, sent = await self._from(address, specs, limits, leads)
        for index, spec in enumerate(specs):
            if not leads[index] and isinstance(outcomes[index], KafkaError):
                self._near.forget((spec.topic, spec.partition))
                outcomes[index] = _of_follower(outcomes[index], spec)
        elsewhere: dict[Address, list[int]] = {}
        for index, spec in enumerate(specs):
            there = self._address(spec) if (spec.topic, spec.partition) in sent else None
            if there is not None and there != address:
                elsewhere.setdefault(there, []).append(index)
        for there, indices in elsewhere.items():
            found = await self.from_leader(there, [specs[i] for i in indices], limits)
            for index, outcome in zip(indices, found, strict=True):
                outcomes[index] = outcome
        return outcomes

    async def _from(
        self,
        address: Address,
        specs: Sequence[FetchSpec],
        limits: FetchLimits,
        leads: Sequence[bool] = (),
    ) -> tuple[list[Outcome], set[TopicPartition]]:
        """What the broker at ``address`` says, and which partitions it wants to be read elsewhere.
        ``leads``: for which specs it is the leader; () for all."""
        followed = {one for one, lead in zip(specs, leads, strict=False) if not lead}
        led = [one for one in specs if one not in followed] if followed else specs
        try:
            stream = await self._cluster.connections.get(address)
            connection = self._cluster.connections.generation(address)
            problems = await self._truncation.check(address, stream, connection, led)
            good = [spec for spec in specs if (spec.topic, spec.partition) not in problems]
            fetched: dict[FetchSpec, Outcome] = {}
            sent: set[TopicPartition] = set()
            # As they are now: what is learned while the request travels is not about its answer.
            epochs = {spec: self._truncation.leader_epoch(spec) for spec in good}
            if good:
                metadata = self._cluster.metadata
                version, request = build_request(good, limits, stream, metadata, self._rack)
                timeout = limits.max_wait_ms / 1000 + self._cluster.request_timeout
                response = await stream.request(request, version, timeout=timeout)
                fetched = read_response(good, response, metadata, self._check_crcs, str(address))
                if self._rack:
                    sent = self._near.take(response, names_in(good, metadata))
            for spec, outcome in fetched.items():
                if isinstance(outcome, Fetched):
                    if self._cluster.metrics is not None:
                        _measure(self._cluster.metrics, outcome)
                    if spec not in followed:
                        self._truncation.trust(spec, outcome.next_offset, epochs[spec], connection)
            found = [problems.get((spec.topic, spec.partition)) or fetched[spec] for spec in specs]
            return found, sent
        except AuthenticationError:
            raise
        except (ConnectError, KafkaError) as error:
            return [_as_kafka(error, spec) for spec in specs], set()


def _of_follower(outcome: Outcome, spec: FetchSpec) -> Outcome:
    """An offset that a follower does not have may be in the log all the same: the leader says."""
    if isinstance(outcome, KafkaError) and outcome.name == "OFFSET_OUT_OF_RANGE":
        at = spec.offset
        return Fetched(spec.topic, spec.partition, at, -1, -1, (), at, spec.last_epoch)
    return outcome


async def _fair_wait(tasks: Sequence[asyncio.Task[list[Outcome]]], limits: FetchLimits) -> None:
    """Until all leaders have answered; or one has, and the others had the time of a long poll and a
    little more. A leader that is slow or gone must not keep back what the others have."""
    if not tasks:
        return
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limits.max_wait_ms / 1000 + _FAIR_SECONDS
    _, late = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    if late:
        await asyncio.wait(late, timeout=max(0.0, deadline - loop.time()))


def _too_late(address: Address, spec: FetchSpec) -> KafkaError:
    return KafkaError(
        CODES["REQUEST_TIMED_OUT"],
        f"{spec.topic}-{spec.partition} at offset {spec.offset}: {address} has not answered yet, "
        "others have",
    )


def _measure(metrics: Metrics, fetched: Fetched) -> None:
    labels = {"topic": fetched.topic, "partition": str(fetched.partition)}
    headers = [batch.header for batch in fetched.batches]
    if headers:
        records = sum(header.record_count for header in headers if not header.is_control)
        metrics("records_fetched", records, labels)
        metrics("fetched_bytes", sum(header.size for header in headers), labels)
    metrics("lag", max(0, fetched.high_watermark - fetched.next_offset), labels)


def may_pass(outcome: Outcome) -> bool:
    """Whether the same request may succeed a little later, by itself. An unknown
    topic is not waited for, though brokers may yet learn of it: mostly it is a wrong name."""
    if not isinstance(outcome, KafkaError) or not outcome.retriable:
        return False
    return outcome.name not in ("UNKNOWN_TOPIC_OR_PARTITION", "CORRUPT_MESSAGE")


def _as_kafka(error: TallymarkError, spec: FetchSpec) -> KafkaError:
    if isinstance(error, KafkaError):
        return error
    problem = KafkaError(CODES["NETWORK_EXCEPTION"], f"{spec.topic}-{spec.partition}: {error}")
    problem.__cause__ = error
    return problem
