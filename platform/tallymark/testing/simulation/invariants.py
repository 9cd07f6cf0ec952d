"""What must hold in every run, by name."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field

from tallymark.errors import CorruptRecordError
from tallymark.protocol.records.batch import iterate_batches
from tallymark.testing.simulation.history import Event
from tallymark.testing.simulation.host import BrokerHost


class BrokenInvariantError(AssertionError):
    """``invariant`` does not hold."""

    def __init__(self, invariant: str, why: str) -> None:
        super().__init__(f"{invariant}: {why}")
        self.invariant = invariant


@dataclass(slots=True)
class Invariants:
    """Looks at the brokers now and then and at each new event once. ``excused``: values that were
    on no disk in a power failure, where brokers answer without the flush."""

    flush: bool
    topic: str
    replicas: int = 1
    """With several, one power failure takes nothing."""
    excused: set[str] = field(default_factory=set[str])
    excused_commits: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """(group, partition) -> may run backwards once."""
    acknowledged: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """Value -> (partition, offset)."""
    _sent: dict[tuple[str, int], tuple[int, tuple[str, ...]]] = field(
        default_factory=dict[tuple[str, int], tuple[int, tuple[str, ...]]]
    )
    """(producer, number) -> (partition, values)."""
    _values: dict[tuple[int, int, int], str] = field(
        default_factory=dict[tuple[int, int, int], str]
    )
    _leaders: dict[tuple[str, int, int], int] = field(
        default_factory=dict[tuple[str, int, int], int]
    )
    _commits_since: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    _seen: int = 0

    def look(self, events: list[Event], hosts: Iterable[BrokerHost]) -> None:
        """Check what is new."""
        hosts = list(hosts)
        for event in events[self._seen :]:
            self._event(event, hosts)
        self._seen = len(events)
        for host in hosts:
            self.one_leader_an_epoch(host)

    def _event(self, event: Event, hosts: list[BrokerHost]) -> None:
        facts = event.facts
        match event.what:
            case "sent":
                values = tuple(map(str, facts[2:]))
                self._sent[event.who, _int(facts[0])] = _int(facts[1]), values
            case "acknowledged":
                _, values = self._sent[event.who, _int(facts[0])]
                partition, base = _int(facts[1]), _int(facts[2])
                for at, value in enumerate(values):
                    self.acknowledged[value] = (partition, base + at if base >= 0 else -1)
                if self.flush:
                    self.no_answer_before_commit(values, partition, hosts)
            case "polled":
                partition, offset, epoch = (_int(fact) for fact in facts[:3])
                self.same_offset_same_bytes(partition, offset, epoch, str(facts[3]))
                if self.flush:
                    self.no_answer_before_commit((str(facts[3]),), partition, hosts)
            case "commits":
                self._commits_since.add((event.who, _int(facts[0])))
            case "committed":
                key = (event.who, _int(facts[0]))
                if key in self._commits_since:  # else its answer was on its way at the failure
                    self.excused_commits.discard(key)
            case "committed is":
                partition, found, before = (_int(fact) for fact in facts[:3])
                self.offsets_never_run_backwards(event.who, partition, found, before)
            case _:
                return

    def power_failed(
        self, host: BrokerHost, partitions: Container[int], commits: Iterable[tuple[str, int]]
    ) -> None:
        """What is not on the disk now, and was acknowledged without a flush, need not come back."""
        if self.flush or self.replicas > 1:
            return
        kept = {value for log in logs_of(host, self.topic).values() for value in values_in(log)}
        # What was sent, not only what is acknowledged: an answer may still be on its way.
        for partition, values in self._sent.values():
            if partition in partitions:
                self.excused.update(value for value in values if value not in kept)
        excused = set(commits)
        self.excused_commits |= excused
        self._commits_since -= excused

    # -- by name --------------------------------------------------------------------------------

    def one_leader_an_epoch(self, host: BrokerHost) -> None:
        """No two brokers lead a partition in the same epoch."""
        broker = host.broker
        if broker is None or broker.state is None:
            return
        for each in broker.state.partitions.led():
            key = (each.topic, each.index, each.leader_epoch)
            other = self._leaders.setdefault(key, host.node_id)
            if other != host.node_id:
                raise BrokenInvariantError(
                    "one_leader_an_epoch", f"{key}: brokers {other} and {host.node_id}"
                )

    def same_offset_same_bytes(self, partition: int, offset: int, epoch: int, value: str) -> None:
        """A record that was read at an offset and epoch is the one that everyone reads there."""
        known = self._values.setdefault((partition, offset, epoch), value)
        if known != value:
            raise BrokenInvariantError(
                "same_offset_same_bytes",
                f"partition {partition} offset {offset} epoch {epoch}: {known} and {value}",
            )

    def no_answer_before_commit(
        self, values: Iterable[str], partition: int, hosts: Iterable[BrokerHost]
    ) -> None:
        """With the flush before the answer, what was answered or read is on a disk."""
        durable = [logs_of(host, self.topic)[partition] for host in hosts]
        for value in values:
            if not any(value.encode() in each for each in durable):
                raise BrokenInvariantError(
                    "no_answer_before_commit", f"{value} of partition {partition} is on no disk"
                )

    def offsets_never_run_backwards(
        self, group: str, partition: int, found: int, before: int
    ) -> None:
        """An acknowledged commit is what the group finds, or a later one."""
        if found < before and (group, partition) not in self.excused_commits:
            raise BrokenInvariantError(
                "offsets_never_run_backwards",
                f"{group} partition {partition}: {before} was acknowledged, {found} is there",
            )

    def acknowledged_is_kept(self, read: dict[str, tuple[int, int]]) -> None:
        """``read``: all values at the end, with their partition and offset."""
        for value, place in self.acknowledged.items():
            if value not in read and value not in self.excused:
                raise BrokenInvariantError(
                    "acknowledged_is_kept", f"{value} was acknowledged at {place} and is gone"
                )
            moved = value in read and place[1] >= 0 and read[value] != place
            if moved and value not in self.excused:
                raise BrokenInvariantError(
                    "acknowledged_is_kept",
                    f"{value} was acknowledged at {place} and is at {read[value]}",
                )


def logs_of(host: BrokerHost, topic: str) -> defaultdict[int, bytes]:
    """Partition -> the bytes of its log that a power failure leaves."""
    found: defaultdict[int, bytes] = defaultdict(bytes)
    disk = host.disk
    if not disk.exists(host.folder):
        return found
    for folder in disk.names(host.folder):
        name, _, index = folder.rpartition("-")
        if name == topic and index.isdigit():
            for file in disk.names(f"{host.folder}/{folder}"):
                if file.endswith(".log"):
                    found[int(index)] += disk.durable(f"{host.folder}/{folder}/{file}")
    return found


def values_in(log: bytes) -> Iterator[str]:
    """The values of whole batches; what a torn batch held is not there."""
    with contextlib.suppress(CorruptRecordError):
        for batch in iterate_batches(log):
            batch.check_crc()
            for record in batch.records():
                yield (record.value or b"").decode().rstrip(".")


def _int(fact: object) -> int:
    assert isinstance(fact, int)
    return fact
