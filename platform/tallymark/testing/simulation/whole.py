"""What must be so at the end of every run, when all faults are over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from tallymark.testing.simulation.caller import Caller
from tallymark.testing.simulation.host import BrokerHost
from tallymark.testing.simulation.invariants import BrokenInvariantError

_PARKED_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.2


async def until_equal(caller: Caller, hosts: Sequence[BrokerHost], replicas: int) -> None:
    """Wait until every partition has its whole ISR, and all its logs end at the same offset."""
    while True:
        partitions = (await caller.look()).topics[0].partitions
        in_sync = all(len(each.isr_nodes) == replicas for each in partitions)
        if in_sync and all(
            _are_equal(_ends(hosts, caller.topic, each.partition_index), replicas)
            for each in partitions
        ):
            return
        await asyncio.sleep(_LOOK_SECONDS)


async def nothing_is_parked(hosts: Sequence[BrokerHost]) -> None:
    """But for fetches of followers, which wait for records, and not for long.
    BrokenInvariantError."""
    before = {host.name: _working(host) for host in hosts}
    if any(before.values()):
        await asyncio.sleep(_PARKED_SECONDS)
    for host in hosts:
        if before[host.name] & _working(host):
            raise BrokenInvariantError(
                "eventually_whole", f"{host.name} has requests that are not answered"
            )


def _are_equal(ends: Sequence[int], replicas: int) -> bool:
    return len(ends) == replicas and len(set(ends)) == 1


def _ends(hosts: Sequence[BrokerHost], topic: str, partition: int) -> list[int]:
    """Of the logs of a partition, on the brokers that have one."""
    ends: list[int] = []
    for host in hosts:
        state = host.broker.state if host.broker is not None else None
        held = state.partitions.held(topic, partition) if state is not None else None
        if held is not None:
            ends.append(held.log.end_offset)
    return ends


def _working(host: BrokerHost) -> set[asyncio.Future[Any]]:
    """The requests that it works for."""
    if host.broker is None:
        raise BrokenInvariantError("eventually_whole", f"{host.name} is down")
    servers = host.broker.listeners.servers.values()
    return {task for server in servers for task in server.working}
