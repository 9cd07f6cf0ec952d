"""What must hold after each step, by name. A broken one raises :class:`Broken`.

``committed`` is what any leader ever exposed, in its order: the truth that nothing may change. A
broker is among ``lost`` from its power failure until it is in the ISR again with a whole log. Once
as many are there as min ISR, committed records may be gone, and what speaks of them is not checked
any more (``excused``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulated_disk import Record

from tallymark.replication.model import PartitionState

if TYPE_CHECKING:
    from simulated_broker import Process
    from simulated_world import World


class Broken(AssertionError):
    """An invariant does not hold; ``name`` says which."""

    def __init__(self, name: str, what: str) -> None:
        self.name = name
        super().__init__(f"{name}: {what}")


class Invariants:
    """The checks of one run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.committed: list[Record] = []
        self.lost: set[int] = set()
        self.excused = False
        self.acknowledged: dict[int, int] = {}
        self.offsets: dict[int, list[tuple[int, int]]] = {}
        self._bytes: dict[tuple[int, int], tuple[Record, int]] = {}
        self._leaders: dict[int, str] = {}
        self._watermarks: dict[tuple[str, int], int] = {}

    def may_lose(self, broker: int) -> bool:
        """One more broker may lose its tail, and nothing that was committed is lost by it."""
        return len(self.lost | {broker}) < self.world.least

    def loses(self, broker: int) -> None:
        self.lost.add(broker)
        if len(self.lost) >= self.world.least:
            self.excused = True

    # --- where things happen

    def leads(self, process: Process, epoch: int) -> None:
        name = repr(process)
        known = self._leaders.setdefault(epoch, name)
        if known != name:
            raise Broken("one_leader_an_epoch", f"{known} and {name} lead in epoch {epoch}")
        is_present = self.world.registry.state.leader_epoch == epoch
        if is_present and not self.excused:
            self._has_committed("acknowledged_is_kept", process.id)

    def written(self, process: Process, offset: int, record: Record) -> None:
        """Equal also in what is before it: the epoch of the record before."""
        before = process.disk.log[offset - 1][0] if offset else -1
        known = self._bytes.setdefault((offset, record[0]), (record, before))
        if known != (record, before):
            told = f"{process!r} writes {record} after epoch {before} at {offset}, known is {known}"
            raise Broken("same_offset_and_epoch_same_bytes", told)
        if process.leader is not None:
            self.offsets.setdefault(record[1], []).append((offset, record[0]))

    def moved(self, process: Process, epoch: int, high_watermark: int) -> None:
        """The high watermark of a replica moved. A leader's is the truth; what a follower has
        been told must agree with it."""
        key = (f"{process!r} {'leads' if process.leader else 'follows'}", epoch)
        before = self._watermarks.get(key, -1)
        if high_watermark < before and not self.excused:
            told = f"{key[0]} in epoch {epoch}: {before}, then {high_watermark}"
            raise Broken("high_watermark_never_falls_in_an_epoch", told)
        self._watermarks[key] = high_watermark
        if self.excused:
            return
        log, known = process.disk.log, self.committed
        both = min(len(known), high_watermark)
        if high_watermark > len(log) or log[:both] != known[:both]:
            told = f"{process!r} in epoch {epoch} exposes {log[:high_watermark]}, known is {known}"
            raise Broken("committed_prefix_never_changes", told)
        if high_watermark > len(known):
            known.extend(log[len(known) : high_watermark])
            self.isr_has_the_committed()

    def answered(self, process: Process, value: int) -> None:
        """acks=all was answered without error."""
        if self.excused:
            return
        place = next((one for one in self.offsets[value] if self._holds(one, value)), None)
        if place is None:
            told = f"{process!r} answers {value}, committed is {self.committed}"
            raise Broken("no_answer_before_commit", told)
        self.acknowledged[value] = place[0]

    def _holds(self, place: tuple[int, int], value: int) -> bool:
        offset, epoch = place
        if offset >= len(self.committed) or self.committed[offset] != (epoch, value):
            return False
        state = self.world.registry.state
        whole = [one for one in state.isr if one not in self.lost]
        return bool(whole) and all(
            self.world.disks[one].log[offset : offset + 1] == [(epoch, value)] for one in whole
        )

    def changed(self, writer: int, before: PartitionState, after: PartitionState) -> None:
        """The state node was written."""
        world = self.world
        if not set(after.isr) <= set(world.assignment.replicas) or len(set(after.isr)) < len(
            after.isr
        ):
            self._isr(before, after)
        confessed = writer != 0 and writer not in after.isr
        if len(after.isr) < min(len(before.isr), world.least) and not confessed:
            self._isr(before, after)
        if after.leader_epoch < before.leader_epoch or (
            after.leader != before.leader and after.leader_epoch == before.leader_epoch
        ):
            told = f"{before.leader} in {before.leader_epoch}, then {after.leader}"
            raise Broken("one_leader_an_epoch", told)
        joined = set(after.isr) - set(before.isr)
        for broker in joined:
            running = world.running(broker)
            is_current = running is not None and running.registered
            if writer == before.leader and is_current:
                self.lost.discard(broker)
        if writer not in (0, before.leader) and set(before.isr) ^ set(after.isr) > {writer}:
            told = f"{writer} changes the ISR of {before.leader}: {before.isr}, then {after.isr}"
            raise Broken("fenced_writes_nothing", told)
        if joined and not self.excused:
            self.isr_has_the_committed()

    def isr_has_the_committed(self) -> None:
        for broker in self.world.registry.state.isr:
            if broker not in self.lost:
                self._has_committed("every_isr_member_has_the_committed", broker)

    def whole(self) -> str:
        """What is not well after everything was healed; empty if all is."""
        world = self.world
        state = world.registry.state
        leader = world.running(state.leader)
        logs = [world.disks[one].log for one in world.assignment.replicas]
        if set(state.isr) != set(world.assignment.replicas):
            return f"the ISR is {state.isr}, led by {state.leader}"
        if leader is None or leader.leader is None or leader.leader.epoch != state.leader_epoch:
            return f"nobody leads: {state}"
        if any(log != logs[0] for log in logs) or leader.high_watermark != len(logs[0]):
            return f"logs end at {[len(log) for log in logs]}, committed {leader.high_watermark}"
        parked = [one for one in world.processes.values() if one and any(one.parked.values())]
        if parked:
            return f"requests wait at {parked}"
        for value, offset in () if self.excused else self.acknowledged.items():
            if logs[0][offset][1] != value:
                raise Broken("acknowledged_is_kept", f"{value} at {offset} is gone")
        return ""

    def _isr(self, before: PartitionState, after: PartitionState) -> None:
        told = f"{before.isr} became {after.isr}, least {self.world.least}"
        raise Broken("isr_within_replicas_and_not_below_min", told)

    def _has_committed(self, name: str, broker: int) -> None:
        log, known = self.world.disks[broker].log, self.committed
        if log[: len(known)] != known:
            raise Broken(name, f"broker {broker} has {log}, committed is {known}")
