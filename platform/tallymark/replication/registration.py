"""What a broker does at its start before it counts again, as steps without I/O.

::

    raise the epoch ──▶ give up ──▶ remember the boot ──▶ register
    (as a broker of     leads, and    under which the      (checks the
     an earlier life    votes where   logs are open        epoch)
     it counts no more) a tail may be
                        missing

The order is what makes it safe. With the raised epoch (the version of ``/brokers/epochs/[id]``)
the fetches of an earlier process count no more (KIP-380). A log that may have lost its tail must
not vote with what the broker had before (KIP-966): it leaves the ISR, and its present tail is
named, before other brokers see it. The boot is remembered only after that: a process that is killed
in between would else find the same boot, and take the log for intact. What is done twice does
nothing the second time, so a start that was interrupted begins again.

A log is *intact* after a clean stop, and after any end of the process while the kernel kept
running: the page cache survives kill -9, a power failure takes it. The kernel's boot id shows
which::

    .tallymark_boot        in every log directory, two lines:
        1                                       version
        6f1c1b5e-4d0a-4c8e-9b39-1f2d3c4b5a69    as in /proc/sys/kernel/random/boot_id

It must be durable before the first append. From when logs are found not to be intact until the
state nodes show that, it holds zeros. A partition with one replica has no vote to give up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.model import NO_LEADER, ChangeState, PartitionState, PartitionView, Tail

NOT_INTACT: Final = "00000000-0000-0000-0000-000000000000"
"""Written in the place of a boot id when logs are found not to be intact. It stays until the state
nodes show that."""
_BOOT: Final = re.compile(rb"1\n([0-9a-f-]{36})\n")


@dataclass(frozen=True, slots=True)
class LocalLog:
    """A broker's log of a partition as it was opened: where it ends, whether it has all that the
    broker ever reported to others."""

    tail: Tail
    intact: bool


@dataclass(frozen=True, slots=True)
class RaiseEpoch:
    """Raise this broker's epoch by a write of its epoch node."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Write these states, as far as each still is of the version, if the epoch still is ours; then
    read all states again."""

    changes: tuple[ChangeState, ...]


@dataclass(frozen=True, slots=True)
class RememberBoot:
    """Write the boot id into every log directory, durably."""


@dataclass(frozen=True, slots=True)
class Register:
    """Make the node in ``/brokers/ids``, if the epoch node still is of this version; the same
    transaction raises it once more, to the epoch of the registration."""

    epoch: int


Step: TypeAlias = RaiseEpoch | GiveUp | RememberBoot | Register


@dataclass(frozen=True, slots=True)
class Start:
    """How far a start has come. ``epoch`` is -1 before it was raised."""

    broker: int
    epoch: int = -1
    boot_remembered: bool = False


def next_step(
    start: Start,
    partitions: Mapping[TopicPartition, PartitionView],
    logs: Mapping[TopicPartition, LocalLog],
) -> Step:
    """The next thing to do. ``partitions`` are those that the broker is assigned to, read after the
    epoch was raised; one that is not in ``logs`` counts as an empty log that is not intact."""
    if start.epoch < 0:
        return RaiseEpoch()
    changes = given_up(start.broker, partitions, logs)
    if changes:
        return GiveUp(changes)
    return Register(start.epoch) if start.boot_remembered else RememberBoot()


def given_up(
    broker: int,
    partitions: Mapping[TopicPartition, PartitionView],
    logs: Mapping[TopicPartition, LocalLog],
) -> tuple[ChangeState, ...]:
    """The states without what the broker may not claim any more: leads, and votes of logs that are
    not intact. An incomplete one gives its present tail: the log may have grown since."""
    changes: list[ChangeState] = []
    for partition, view in partitions.items():
        if broker not in view.assignment.replicas or view.assignment.replicas == (broker,):
            continue
        log = logs.get(partition, LocalLog(Tail(-1, 0), intact=False))
        state = _without_vote(broker, view.state, log)
        why = f"broker {broker} starts again"
        if state is not view.state:
            why += f", its log ends at {log.tail.end} and may lack a tail"
        if state.leader == broker:
            state = replace(state, leader=NO_LEADER, leader_epoch=state.leader_epoch + 1)
        if state != view.state:
            changes.append(ChangeState(partition, state.version, state, why))
    return tuple(changes)


def is_intact(*, clean: bool, boot_then: str, boot_now: str, flushed_first: bool) -> bool:
    """Whether a directory's logs have everything that was reported to others. ``clean``: the marker
    of a clean stop was there; ``flushed_first``: the broker ran with ``flush.before.expose``, so
    what was reported had been flushed. Boot ids are "" where they are not known.

    A start that finds that they are not intact writes :data:`NOT_INTACT` before anything else: if
    it is stopped before the state nodes show that, it leaves the marker of a clean stop, too, and
    the tail is still missing."""
    if flushed_first:
        return True
    return boot_then != NOT_INTACT and (clean or (boot_then != "" and boot_then == boot_now))


def encode_boot(boot_id: str) -> bytes:
    """The content of ``.tallymark_boot``."""
    return f"1\n{boot_id}\n".encode()


def decode_boot(content: bytes) -> str:
    """The boot id in ``.tallymark_boot``; "" for anything else, as after a power failure that left
    the file empty: then the logs do not count as intact."""
    found = _BOOT.fullmatch(content)
    return found[1].decode() if found else ""


def _without_vote(broker: int, state: PartitionState, log: LocalLog) -> PartitionState:
    votes = broker in state.isr and broker not in state.incomplete
    if votes and log.intact:
        return state
    if broker not in state.isr and state.incomplete.get(broker) in (None, log.tail):
        return state
    return replace(
        state,
        isr=tuple(one for one in state.isr if one != broker),
        incomplete={**state.incomplete, broker: log.tail},
    )
