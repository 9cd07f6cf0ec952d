"""Reading partitions from their leaders, with what can go wrong on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from tallymark.client.cluster import RETRY_BACKOFF, Cluster
from tallymark.client.fetch_request import FetchLimits, build_request, read_response
from tallymark.client.fetched import Fetched, FetchSpec
from tallymark.client.truncation import TruncationCheck
from tallymark.errors import CODES, ConnectError, KafkaError, TallymarkError
from tallymark.net import Address

Outcome: TypeAlias = Fetched | KafkaError

_LONGEST_BACKOFF: Final = 1.0


class Fetcher:
    """Fetches for one client. Lives in its event loop."""

    def __init__(self, cluster: Cluster, check_crcs: bool) -> None:
        self._cluster = cluster
        self._check_crcs = check_crcs
        self._truncation = TruncationCheck(cluster)

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
                if not self._cluster.metadata.brokers:  # never reached: the address may be wrong
                    raise
                outcomes = [_as_kafka(error, spec) for spec in specs]
            if not outcomes or not all(map(_may_pass, outcomes)):
                if any(map(_may_pass, outcomes)):
                    self._cluster.refresh_soon()
                return outcomes
            if asyncio.get_running_loop().time() + backoff > deadline:
                return outcomes
            await asyncio.sleep(backoff)
            backoff = min(_LONGEST_BACKOFF, backoff * 2)
            await asyncio.shield(self._cluster.refresh_soon())

    async def _attempt(self, specs: Sequence[FetchSpec], limits: FetchLimits) -> list[Outcome]:
        await self._learn(specs)
        outcomes: dict[int, Outcome] = {}
        by_leader: dict[Address, list[int]] = {}
        for index, spec in enumerate(specs):
            address = self._cluster.leader_address(spec.topic, spec.partition)
            if address is None:
                outcomes[index] = self._no_leader(spec)
            else:
                by_leader.setdefault(address, []).append(index)
        answers = await asyncio.gather(
            *(
                self._from_leader(address, [specs[index] for index in indices], limits)
                for address, indices in by_leader.items()
            )
        )
        for indices, found in zip(by_leader.values(), answers, strict=True):
            outcomes.update(zip(indices, found, strict=True))
        return [outcomes[index] for index in range(len(specs))]

    async def _learn(self, specs: Iterable[FetchSpec]) -> None:
        """Ask for topics and partitions whose leader nobody knows."""
        unknown = {
            spec.topic
            for spec in specs
            if self._cluster.leader_address(spec.topic, spec.partition) is None
        }
        if unknown:
            await self._cluster.refresh(unknown)
        self._cluster.refresh_if_old()

    def _no_leader(self, spec: FetchSpec) -> KafkaError:
        where = f"{spec.topic}-{spec.partition}"
        code = self._cluster.metadata.error(spec.topic)
        if not code:
            known = self._cluster.metadata.leader(spec.topic, spec.partition)
            name = "LEADER_NOT_AVAILABLE" if known else "UNKNOWN_TOPIC_OR_PARTITION"
            code = CODES[name]
        return KafkaError(code, where)

    async def _from_leader(
        self, address: Address, specs: Sequence[FetchSpec], limits: FetchLimits
    ) -> list[Outcome]:
        try:
            stream = await self._cluster.connections.get(address)
            connection = self._cluster.connections.generation(address)
            problems = await self._truncation.check(address, stream, connection, specs)
            good = [spec for spec in specs if (spec.topic, spec.partition) not in problems]
            fetched: dict[FetchSpec, Outcome] = {}
            # As they are now: what is learned while the request travels is not about its answer.
            epochs = {spec: self._truncation.leader_epoch(spec) for spec in good}
            if good:
                version, request = build_request(good, limits, stream, self._cluster.metadata)
                timeout = limits.max_wait_ms / 1000 + self._cluster.request_timeout
                response = await stream.request(request, version, timeout=timeout)
                fetched = read_response(good, response, self._cluster.metadata, self._check_crcs)
            for spec, outcome in fetched.items():
                if isinstance(outcome, Fetched):
                    self._truncation.trust(spec, outcome.next_offset, epochs[spec], connection)
            return [problems.get((spec.topic, spec.partition)) or fetched[spec] for spec in specs]
        except (ConnectError, KafkaError) as error:
            return [_as_kafka(error, spec) for spec in specs]


def _may_pass(outcome: Outcome) -> bool:
    """Whether the same request may succeed a little later, without anybody's doing. An unknown
    topic is not waited for, though brokers may yet hear of it: mostly it is a wrong name."""
    if not isinstance(outcome, KafkaError) or not outcome.retriable:
        return False
    return outcome.name not in ("UNKNOWN_TOPIC_OR_PARTITION", "CORRUPT_MESSAGE")


def _as_kafka(error: TallymarkError, spec: FetchSpec) -> KafkaError:
    if isinstance(error, KafkaError):
        return error
    problem = KafkaError(CODES["NETWORK_EXCEPTION"], f"{spec.topic}-{spec.partition}: {error}")
    problem.__cause__ = error
    return problem
