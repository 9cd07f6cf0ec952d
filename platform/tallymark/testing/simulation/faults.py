"""Carries out the faults of a plan, and heals them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tallymark.testing.simulation.host import BrokerHost
from tallymark.testing.simulation.plan import Fault, FaultKind
from tallymark.testing.simulation.zookeeper import HOST as ZOOKEEPER

if TYPE_CHECKING:
    from tallymark.testing.simulation.run import World

_DEATHS = (
    FaultKind.KILL,
    FaultKind.KILL_AT_WRITE,
    FaultKind.POWER,
    FaultKind.POWER_AT_WRITE,
    FaultKind.STOP,
)


async def inject(fault: Fault, world: World) -> None:
    """Wait for the time of a fault, do it, and undo it when it is over."""
    await asyncio.sleep(fault.at)
    host = world.hosts[fault.broker - 1]
    world.history.add(host.name, "fault", fault.kind.value, fault.size)
    undo = await _begin(fault, host, world)
    await asyncio.sleep(fault.seconds)
    undo()
    world.history.add(host.name, "fault is over", fault.kind.value)


async def heal(faults: Iterable[asyncio.Task[None]], world: World) -> None:
    """Undo everything, whatever is under way."""
    for task in faults:
        task.cancel()
    await asyncio.gather(*faults, return_exceptions=True)
    network, zookeeper = world.network, world.zookeeper
    network.delay_factor = 1.0
    zookeeper.lose_answers = zookeeper.lose_commands = 0.0
    for source, target in list(network.cuts):
        network.heal(source, target)
    for host in world.hosts:
        host.disk.calm()
        await host.stopped()
        if host.process is not None:
            host.process.slowness = 1.0
            if host.is_offline:
                await host.stop()  # as an operator does after the disk is mended
        host.start()


async def _begin(fault: Fault, host: BrokerHost, world: World) -> Callable[[], None]:
    """Begin a fault; returns what ends it."""
    if fault.kind in _DEATHS:
        return await _die(fault, host)
    if (links := _links(fault.kind, host, world)) is not None:
        for source, target in links:
            world.network.cut(source, target)

        def mend() -> None:
            for source, target in links:
                world.network.heal(source, target)

        return mend
    match fault.kind:
        case FaultKind.RESETS:
            _reset(host, world)
        case FaultKind.SLOW_THREADS:
            process = host.process
            if process is not None:
                process.slowness = float(fault.size)
                return lambda: setattr(process, "slowness", 1.0)
        case FaultKind.DELAYS:
            world.network.delay_factor = float(fault.size)
            return lambda: setattr(world.network, "delay_factor", 1.0)
        case FaultKind.FULL_DISK | FaultKind.DISK_ERROR:
            return _spoil_disk(fault, host)
        case FaultKind.LOST_ANSWERS:
            world.zookeeper.lose_answers = world.zookeeper.lose_commands = fault.size / 1000
            return lambda: setattr(world.zookeeper, "lose_answers", 0.0)
        case _:
            raise AssertionError(fault.kind)
    return _nothing


def _spoil_disk(fault: Fault, host: BrokerHost) -> Callable[[], None]:
    if fault.kind is FaultKind.FULL_DISK:
        host.disk.fill(fault.size)
        return host.disk.empty
    host.disk.fail_operation(fault.size, written=0.5)
    return _nothing


async def _die(fault: Fault, host: BrokerHost) -> Callable[[], None]:
    match fault.kind:
        case FaultKind.KILL | FaultKind.POWER:
            host.kill(power=fault.kind is FaultKind.POWER)
        case FaultKind.KILL_AT_WRITE | FaultKind.POWER_AT_WRITE:
            host.kill_at(fault.size, power=fault.kind is FaultKind.POWER_AT_WRITE)
        case _:
            await host.stop()
    return host.start


def _links(kind: FaultKind, host: BrokerHost, world: World) -> list[tuple[str, str]] | None:
    """The links that a fault cuts, (from, to); None where it is no cut."""
    here = host.host
    match kind:
        case FaultKind.NO_ZOOKEEPER:
            return [(here, ZOOKEEPER), (ZOOKEEPER, here)]
        case FaultKind.TO_ZOOKEEPER:
            return [(here, ZOOKEEPER)]
        case FaultKind.FROM_ZOOKEEPER:
            return [(ZOOKEEPER, here)]
        case FaultKind.NO_BROKERS:
            others = [each.host for each in world.hosts if each is not host]
            return [link for each in others for link in ((here, each), (each, here))]
        case FaultKind.TO_BROKERS:
            return [(here, each.host) for each in world.hosts if each is not host]
        case FaultKind.FROM_BROKERS:
            return [(each.host, here) for each in world.hosts if each is not host]
        case FaultKind.NO_CLIENTS:
            return [link for each in world.clients for link in ((here, each), (each, here))]
        case FaultKind.TO_CLIENTS:
            return [(here, each) for each in world.clients]
        case FaultKind.FROM_CLIENTS:
            return [(each, here) for each in world.clients]
        case _:
            return None


def _reset(host: BrokerHost, world: World) -> None:
    for connection in list(world.network.connections):
        if connection.here[0] == host.host:
            world.network.reset(connection)


def _nothing() -> None:
    """The fault is over by itself."""
