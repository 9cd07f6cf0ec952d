"""What must hold of transactions in every run on whole brokers, by name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tallymark.broker.coordinators.state_log import replay_log
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.state import BrokerState
from tallymark.groups.state import GroupsState
from tallymark.protocol.records.batch import Batch, split_batches
from tallymark.protocol.records.markers import marker_of
from tallymark.protocol.topic_partition import TRANSACTIONS_TOPIC
from tallymark.testing.simulation.history import Event
from tallymark.testing.simulation.host import BrokerHost
from tallymark.testing.simulation.invariants import BrokenInvariantError
from tallymark.transactions.records import decode_key, decode_value
from tallymark.transactions.state import TransactionsState
from tallymark.transactions.transaction import PREPARED, State

_NUMBER: Final = re.compile(r"<(\d+):\d+>")


class Judge:
    """Looks at brokers now and then, and at each new event once. ``phases``: transaction -> what
    its client last asked for or was told."""

    def __init__(self) -> None:
        self.phases: dict[int, str] = {}
        self.in_log: dict[int, set[str]] = defaultdict(set)
        self.written: dict[int, set[str]] = defaultdict(set)
        self._seen: dict[int, set[str]] = defaultdict(set)
        self._stable: dict[tuple[str, int, int, int], int] = {}
        self._at = 0

    def look(self, events: list[Event], hosts: Iterable[BrokerHost]) -> None:
        """Check what is new."""
        for event in events[self._at :]:
            self._event(event)
        self._at = len(events)
        for host in hosts:
            for partition in _led(host):
                self.lso_never_falls_in_an_epoch(host, partition)

    def _event(self, event: Event) -> None:
        facts = event.facts
        match event.what:
            case "writes":
                self.written[_int(facts[0])].update(map(str, facts[3:]))
            case "in log":
                self.in_log[_int(facts[0])].update(map(str, facts[1:]))
            case "begins" | "asks to commit" | "asks to abort" | "committed" | "in doubt":
                self.phases[_int(facts[0])] = event.what
            case "aborted":
                number = _int(facts[0])
                self.phases[number] = event.what
                if self._seen[number]:
                    self._aborted_is_visible(number)
            case "read committed":
                number = number_of(str(facts[3]))
                self._seen[number].add(str(facts[3]))
                if self.phases[number] not in ("asks to commit", "committed", "in doubt"):
                    self._aborted_is_visible(number)
            case _:
                return

    def _aborted_is_visible(self, number: int) -> None:
        raise BrokenInvariantError(
            "no_aborted_record_is_visible",
            f"transaction {number} ({self.phases[number]}): {self._seen[number]} was read",
        )

    # -- by name --------------------------------------------------------------------------------

    def lso_never_falls_in_an_epoch(self, host: BrokerHost, partition: Partition) -> None:
        """Of a leader."""
        key = (partition.topic, partition.index, partition.leader_epoch, host.lives)
        stable = partition.last_stable_offset
        if stable < self._stable.get(key, 0):
            raise BrokenInvariantError(
                "lso_never_falls_in_an_epoch", f"{key}: {self._stable[key]}, then {stable}"
            )
        self._stable[key] = stable

    def all_or_nothing(self, read: Mapping[str, tuple[int, int]]) -> None:
        """``read``: every value that a reader of committed records finds in the end."""
        seen: dict[int, set[str]] = defaultdict(set)
        for value in read:
            seen[number_of(value)].add(value)
        for number, phase in self.phases.items():
            missing = self.in_log[number] - seen[number]
            if phase == "committed" and missing:
                raise BrokenInvariantError(
                    "no_committed_record_is_missing_below_the_lso", f"{number}: {missing}"
                )
            if phase in ("in doubt", "asks to commit") and seen[number] and missing:
                raise BrokenInvariantError("all_or_nothing", f"{number} ({phase}): {missing}")
            if phase in ("aborted", "begins", "asks to abort") and seen[number]:
                self._seen[number] = seen[number]
                self._aborted_is_visible(number)

    def exactly_once_through_the_copy(
        self, source: list[tuple[int, str]], copy: list[str], position: int
    ) -> None:
        """The copy is what is read below the group's position, in its order: then its offsets have
        moved with its transactions."""
        wanted = [value for offset, value in source if offset < position]
        got = [value.partition(">")[2] for value in copy]
        if got != wanted:
            name = "exactly_once_through_the_copy"
            if sorted(got) != sorted(wanted) and (
                got == wanted[: len(got)] or wanted == got[: len(wanted)]
            ):
                name = "offsets_move_iff_committed"
            raise BrokenInvariantError(name, f"position {position}: {wanted} became {got}")

    def logs(self, partitions: Iterable[Partition]) -> None:
        """The logs of leaders in the end."""
        fates: dict[int, bool] = {}
        for partition in partitions:
            if partition.topic == TRANSACTIONS_TOPIC:
                self.decision_is_final(partition)
            elif not partition.topic.startswith("__"):
                self.zombies_write_nothing(partition)
                _fates(partition, fates)

    def decision_is_final(self, partition: Partition) -> None:
        """After Prepare comes Complete, with the same outcome. Compaction may have taken records
        between, but not the newest."""
        before: dict[str, State] = {}
        for batch in _batches(partition):
            for record in batch.records():
                name = decode_key(record.key or b"")
                if name is None or record.value is None:
                    continue
                state = decode_value(name, record.value).state
                was = before.get(name)
                other = {State.PREPARE_COMMIT: State.COMPLETE_ABORT}
                other[State.PREPARE_ABORT] = State.COMPLETE_COMMIT
                if was is not None and other.get(was) is state:
                    raise BrokenInvariantError("decision_is_final", f"{name}: {was}, then {state}")
                before[name] = state

    def zombies_write_nothing(self, partition: Partition) -> None:
        """No batch has an older epoch of its producer than what stands before it."""
        epochs: dict[int, int] = {}
        for batch in _batches(partition):
            header = batch.header
            if header.producer_epoch < epochs.get(header.producer_id, -1):
                raise BrokenInvariantError(
                    "zombies_write_nothing", f"{partition}: {header.base_offset} of {header}"
                )
            epochs[header.producer_id] = header.producer_epoch

    def live_equals_replayed(self, state: BrokerState) -> None:
        """What coordinators remember is what their logs say."""
        for ids in state.transaction_shards.shards():
            again = replay_log(ids.partition.log, TransactionsState())
            if {each.transactional_id: each for each in again} != {
                each.transactional_id: each for each in ids.state
            }:
                raise BrokenInvariantError("live_equals_replayed", str(ids.partition))
        for groups in state.group_shards.shards():
            told = replay_log(groups.partition.log, GroupsState())
            if _offsets(told) != _offsets(groups.state):
                raise BrokenInvariantError(
                    "live_equals_replayed", f"{_offsets(told)} {_offsets(groups.state)}"
                )


def once(read: Iterable[tuple[int, int, str]]) -> dict[str, tuple[int, int]]:
    """Partition and offset of each value, of all (partition, offset, value) that were read. All
    values are different, so one that is there twice was written twice."""
    found: dict[str, tuple[int, int]] = {}
    for part, at, value in read:
        if value in found:
            raise BrokenInvariantError("once", f"{value} is at {found[value]} and at {(part, at)}")
        found[value] = (part, at)
    return found


def hanging(hosts: Iterable[BrokerHost]) -> str:
    """What is not over yet; "" where nothing is."""
    for host in hosts:
        state = host.broker.state if host.broker is not None else None
        if state is None or not host.serves:
            return f"{host.name} is down"
        for shard in state.transaction_shards.shards():
            for each in shard.state:
                if each.state is State.ONGOING or each.state in PREPARED:
                    return f"{each.transactional_id} is {each.state.name}"
        for partition in state.partitions.led():
            if partition.last_stable_offset != partition.log.end_offset:
                return f"{partition} stands at {partition.last_stable_offset}"
    return ""


def number_of(value: str) -> int:
    """The transaction of a value."""
    found = _NUMBER.match(value)
    assert found is not None, value
    return int(found[1])


def _fates(partition: Partition, fates: dict[int, bool]) -> None:
    """One kind of marker for all batches of a transaction, in all partitions."""
    open_: dict[int, set[int]] = defaultdict(set)
    for batch in _batches(partition):
        header = batch.header
        if not header.is_control:
            numbers = {number_of((each.value or b"").decode()) for each in batch.records()}
            open_[header.producer_id] |= numbers
            continue
        marker = marker_of(batch)
        for number in open_.pop(header.producer_id, ()) if marker is not None else ():
            if marker is not None and fates.setdefault(number, marker.commit) != marker.commit:
                raise BrokenInvariantError("all_or_nothing", f"{number} in {partition}")


def _led(host: BrokerHost) -> Iterator[Partition]:
    broker = host.broker
    if broker is not None and broker.state is not None:
        yield from broker.state.partitions.led()


def _batches(partition: Partition) -> Iterator[Batch]:
    log = partition.log
    at = log.start_offset
    while at < log.end_offset:
        batches = split_batches(log.read(at, 1 << 20).read())
        if not batches:
            return
        yield from batches
        at = batches[-1].header.next_offset


def _offsets(state: GroupsState) -> dict[str, object]:
    offsets = state.offsets
    return {
        each: (tuple(offsets.of_group(each)), offsets.pending.of_group(each))
        for each in sorted(state.groups())
    }


def _int(fact: object) -> int:
    assert isinstance(fact, int)
    return fact
