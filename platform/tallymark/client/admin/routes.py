"""Which broker an administrator's request goes to, and when it is sent again.

The controller answers for topics, the partition leader for records and offsets in its log, the
coordinator for a group, each broker for its disks and settings. All of these roles move.
:func:`settle` is the one loop that sends requests again: only for the keys whose error may pass,
after a metadata refresh where the metadata was old, until all have a result or the time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from tallymark.client.admin.results import K, Outcomes, V, refusal, unanswered
from tallymark.client.core.cluster import RETRY_BACKOFF, Cluster
from tallymark.errors import (
    CODES,
    AuthenticationError,
    ConnectError,
    KafkaError,
    TallymarkError,
    TimedOutError,
)
from tallymark.net.addresses import Address
from tallymark.protocol import messages
from tallymark.protocol.coordinator_partition import GROUP
from tallymark.protocol.schema import Message, Request
from tallymark.protocol.topic_partition import TopicPartition

R = TypeVar("R", bound=Message)

_UNKNOWN: Final = frozenset({CODES["UNKNOWN_TOPIC_OR_PARTITION"], CODES["UNKNOWN_TOPIC_ID"]})
_PATIENCE: Final = 1.0
"""Seconds that brokers may need to learn of a new topic; an unknown topic is a wrong name after
that."""
_LONGEST_BACKOFF: Final = 1.0
_MANY: Final = 500
"""Keys in one request."""

Attempt: TypeAlias = Callable[[list[K]], Awaitable[Outcomes[K, V]]]
AskMany: TypeAlias = Callable[[Address, list[K]], Awaitable[Outcomes[K, V]]]
"""Asks one broker about the keys that it answers for."""


async def settle(
    cluster: Cluster,
    keys: Iterable[K],
    attempt: Attempt[K, V],
    timeout: float,
    *,
    patient: bool = False,
) -> Outcomes[K, V]:
    """Repeat ``attempt(keys)`` until each key has a value or an error that will not pass. When
    ``timeout`` seconds are over, the rest get a TimedOutError with the last reason. The outcomes
    are in the order of ``keys``.

    Unless ``patient``, a cluster that has never been reached is not waited for, as the address may
    be wrong."""
    order = list(dict.fromkeys(keys))
    loop = asyncio.get_running_loop()
    begun = loop.time()
    settled: Outcomes[K, V] = {}
    pending, backoff = order, RETRY_BACKOFF
    while pending:
        outcomes = await _attempted(attempt, pending)
        waited = loop.time() - begun
        met = patient or bool(cluster.metadata.brokers)
        for key in pending:
            settled[key] = outcomes.get(key, unanswered(str(key)))
        pending = [key for key in pending if _may_pass(settled[key], waited, met)]
        if waited + backoff > timeout:
            break
        if pending:
            await asyncio.sleep(backoff)
            backoff = min(_LONGEST_BACKOFF, backoff * 2)
        if any(_is_stale(settled[key]) for key in pending):
            await _look_again(cluster)
    late = {key: _timed_out(settled[key], timeout) for key in pending}
    return {key: late.get(key, settled[key]) for key in order}


async def from_controller(
    cluster: Cluster, request: Request[R], keys: Iterable[K], read: Callable[[R], Outcomes[K, V]]
) -> Outcomes[K, V]:
    """One request to the controller about ``keys``."""
    try:
        return read(await cluster.ask_controller(request))
    except (ConnectError, KafkaError) as error:
        return dict.fromkeys(keys, error)


async def from_leaders(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    ask: AskMany[TopicPartition, V],
) -> Outcomes[TopicPartition, V]:
    """``ask(leader's address, its partitions)`` for every leader, all at the same time."""
    wanted = list(partitions)
    unknown = {topic for topic, part in wanted if cluster.leader_address(topic, part) is None}
    if unknown:
        await cluster.refresh(unknown)
    outcomes: Outcomes[TopicPartition, V] = {}
    led: dict[Address, list[TopicPartition]] = {}
    for topic, partition in wanted:
        address = cluster.leader_address(topic, partition)
        if address is None:
            outcomes[topic, partition] = _no_leader(cluster, topic, partition)
        else:
            led.setdefault(address, []).append((topic, partition))
    for found in await asyncio.gather(*(_asked(ask, where, led[where]) for where in led)):
        outcomes |= found
    return outcomes


async def from_coordinators(
    cluster: Cluster,
    keys: Iterable[str],
    ask: AskMany[str, V],
    kind: int = GROUP,
) -> Outcomes[str, V]:
    """``ask(coordinator's address, its groups)`` for every coordinator, all at the same time; with
    ``kind`` TRANSACTION, its transactional ids."""
    found = await find_coordinators(cluster, keys, kind)
    outcomes: Outcomes[str, V] = {}
    looked_after: dict[Address, list[str]] = {}
    for key, where in found.items():
        if isinstance(where, TallymarkError):
            outcomes[key] = where
        else:
            looked_after.setdefault(where[1], []).append(key)
    for answers in await asyncio.gather(
        *(_asked(ask, address, names) for address, names in looked_after.items())
    ):
        outcomes |= answers
    return outcomes


async def find_coordinators(
    cluster: Cluster, keys: Iterable[str], kind: int = GROUP
) -> Outcomes[str, tuple[int, Address]]:
    """Group, or transactional id -> (broker id, address) of its coordinator. Many are one request,
    where brokers serve that (KIP-699)."""
    found: Outcomes[str, tuple[int, Address]] = {}
    names = list(dict.fromkeys(keys))
    for first in range(0, len(names), _MANY):
        found |= await _find_many(cluster, names[first : first + _MANY], kind)
    return found


async def _find_many(
    cluster: Cluster, names: Sequence[str], kind: int
) -> Outcomes[str, tuple[int, Address]]:
    found: Outcomes[str, tuple[int, Address]] = {}
    left = list(names)
    while left:
        try:
            # In both forms: one key up to v3, many from v4.
            answer = await cluster.ask_any(
                messages.FindCoordinatorRequest(
                    key=left[0], key_type=kind, coordinator_keys=tuple(left)
                )
            )
        except (ConnectError, KafkaError) as error:
            return found | dict.fromkeys(left, error)
        if answer.coordinators:
            return found | {one.key: _place(one.key, kind, one) for one in answer.coordinators}
        found[left[0]] = _place(left[0], kind, answer)
        left = left[1:]
    return found


def _place(
    key: str,
    kind: int,
    one: messages.FindCoordinatorResponse | messages.FindCoordinatorResponseCoordinator,
) -> tuple[int, Address] | KafkaError:
    if one.error_code:
        what = "group" if kind == GROUP else "transactional id"
        return refusal(one.error_code, f"{what} {key}", one.error_message)
    return one.node_id, Address(one.host, one.port)


async def from_brokers(
    cluster: Cluster, brokers: Iterable[int], ask: Callable[[Address], Awaitable[V]]
) -> Outcomes[int, V]:
    """``ask(address)`` for the brokers with these ids, all at the same time."""
    await cluster.refresh([])
    known = cluster.metadata.brokers

    async def one(broker: int) -> V | TallymarkError:
        if broker not in known:
            return KafkaError(CODES["BROKER_NOT_AVAILABLE"], f"there is no broker {broker}")
        try:
            return await ask(known[broker])
        except (ConnectError, KafkaError) as error:
            return error

    ids = list(dict.fromkeys(brokers))
    return dict(zip(ids, await asyncio.gather(*map(one, ids)), strict=True))


async def ask_at_most(cluster: Cluster, address: Address, request: Request[R], version: int) -> R:
    """One request in ``version`` or lower: newer ones name topics by their ids."""
    stream = await cluster.connections.get(address)
    return await stream.request(
        request, stream.version_of(type(request), version), timeout=cluster.request_timeout
    )


async def _attempted(attempt: Attempt[K, V], keys: list[K]) -> Mapping[K, V | TallymarkError]:
    try:
        return await attempt(keys)
    except (ConnectError, KafkaError) as error:
        return dict.fromkeys(keys, error)


async def _asked(ask: AskMany[K, V], address: Address, keys: list[K]) -> Outcomes[K, V]:
    try:
        return await ask(address, keys)
    except (ConnectError, KafkaError) as error:
        return dict.fromkeys(keys, error)


async def _look_again(cluster: Cluster) -> None:
    try:
        await cluster.refresh(cluster.metadata.known)
    except (ConnectError, KafkaError):
        return  # the next attempt meets it, and reports it


def _timed_out(last: object, timeout: float) -> TimedOutError:
    error = TimedOutError(f"not done within {timeout:g} s: {last}")
    error.__cause__ = last if isinstance(last, BaseException) else None
    return error


def _may_pass(error: object, waited: float, met: bool) -> bool:
    if isinstance(error, KafkaError):
        return error.retriable and (error.code not in _UNKNOWN or waited < _PATIENCE)
    if isinstance(error, AuthenticationError):
        return False
    return isinstance(error, ConnectError) and (met or error.stage != "bootstrap")


def _is_stale(outcome: Any) -> bool:
    if isinstance(outcome, KafkaError):
        return outcome.stale_metadata
    return isinstance(outcome, ConnectError)


def _no_leader(cluster: Cluster, topic: str, partition: int) -> KafkaError:
    code = cluster.metadata.error(topic)
    if not code:
        known = cluster.metadata.leader(topic, partition)
        code = CODES["LEADER_NOT_AVAILABLE" if known else "UNKNOWN_TOPIC_OR_PARTITION"]
    return KafkaError(code, f"{topic}-{partition}")
