"""What must hold after each step, by name. A broken one raises :class:`Broken`.

``committed`` is what leaders exposed, in its order: the truth that nothing may change. It is given
up in part by one event only, an unclean election; ``since_epoch`` is that of the last one, and what
leaders of earlier epochs do is not looked at any more. Such an election must be allowed by the
topic, or as many brokers must have lost their tails as the ISR may not fall below.

A broker is among ``lost`` from the loss of its tail until a leader takes it into the ISR again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulated_disk import Record
from simulated_nodes import Write

from tallymark.replication import in_sync
from tallymark.replication.model import NO_LEADER, ChangeState, least_isr

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
        self.since_epoch = 0
        self.unclean_elections = 0
        self.lost: set[int] = set()
        self.acknowledged: dict[int, int] = {}
        self._too_many = False
        self._settings = {world.nodes.topic.min_insync}
        self._offsets: dict[int, list[tuple[int, int]]] = {}
        self._bytes: dict[tuple[int, int], tuple[Record, int]] = {}
        self._leaders: dict[int, str] = {}
        self._watermarks: dict[tuple[str, int], int] = {}
        self._rotted: dict[int, set[int]] = {}
        """By broker, the offsets that ever were rotten."""
        self.resigned: dict[int, int] = {}
        """How often each has resigned for that, and has started."""
        self._starts: dict[int, int] = {}
        self._gone: set[int] = set()
        """Brokers without a process."""
        self._joins: dict[int, int] = {}
        """Those of them that have left the ISR since, and how often they joined it then."""

    # --- tails that are lost

    def may_lose(self, broker: int) -> bool:
        """One more broker may lose its tail, and nothing that was committed is lost by it."""
        return len(self.lost | self._rotten | {broker}) < self.world.least_possible_isr()

    def may_rot(self, broker: int) -> bool:
        """As a lost tail; of one that has lost its tail nothing is expected anyway."""
        return broker not in self.lost and self.may_lose(broker)

    def rots(self, broker: int, offset: int) -> None:
        self._rotted.setdefault(broker, set()).add(offset)

    @property
    def _rotten(self) -> set[int]:
        return {one for one, disk in self.world.disks.items() if disk.rotten}

    def loses(self, broker: int) -> None:
        self._too_many |= not self.may_lose(broker)
        self.lost.add(broker)

    def configured(self, min_insync: int) -> None:
        self._settings.add(min_insync)

    # --- processes

    def ended(self, broker: int) -> None:
        self._gone.add(broker)

    def started(self, broker: int) -> None:
        self._gone.discard(broker)
        self._joins.pop(broker, None)
        self._starts[broker] = self._starts.get(broker, 0) + 1

    # --- where things happen

    def leads(self, process: Process, epoch: int) -> None:
        name = repr(process)
        known = self._leaders.setdefault(epoch, name)
        if known != name:
            raise Broken("one_leader_an_epoch", f"{known} and {name} lead in epoch {epoch}")
        if epoch == self.since_epoch:
            self._give_up(process.id)
        elif epoch == self.world.nodes.state.leader_epoch:
            self._has_committed("acknowledged_is_kept", process.id)

    def written(self, process: Process, offset: int, record: Record) -> None:
        """Equal also in what is before it: the epoch of the record before."""
        before = process.disk.log[offset - 1][0] if offset else -1
        known = self._bytes.setdefault((offset, record[0]), (record, before))
        if known != (record, before):
            told = f"{process!r} writes {record} after epoch {before} at {offset}, known is {known}"
            raise Broken("same_offset_and_epoch_same_bytes", told)
        if process.leader is not None:
            self._offsets.setdefault(record[1], []).append((offset, record[0]))

    def cut(self, process: Process) -> None:
        """A log has become shorter."""
        if process.id in self.world.nodes.state.isr and process.id not in self.lost:
            self._has_committed("every_isr_member_has_the_committed", process.id)

    def follows(self, process: Process, member: bool) -> None:
        """It has done the first step. A member may keep a log of which it knows that it is bad."""
        if process.disk.found >= 0 and not member:
            told = f"{process!r} knows that its log is bad from {process.disk.found} on"
            raise Broken("bad_logs_are_copied_again", told)

    def moved(self, process: Process, epoch: int, high_watermark: int) -> None:
        """The high watermark of a replica moved. A leader's is the truth; what a follower has
        been told must agree with it."""
        key = (f"{process!r} {'leads' if process.leader else 'follows'}", epoch)
        before = self._watermarks.get(key, -1)
        if high_watermark < before and epoch >= self.since_epoch:
            told = f"{key[0]} in epoch {epoch}: {before}, then {high_watermark}"
            raise Broken("high_watermark_never_falls_in_an_epoch", told)
        self._watermarks[key] = high_watermark
        if epoch < self.since_epoch:
            return
        log, known = process.disk.log, self.committed
        both = min(len(known), high_watermark)
        if high_watermark > len(log) or log[:both] != known[:both]:
            told = f"{process!r} in epoch {epoch} exposes {log[:high_watermark]}, known is {known}"
            raise Broken("committed_prefix_never_changes", told)
        if high_watermark > len(known):
            known.extend(log[len(known) : high_watermark])
            self._isr_has_the_committed()

    def answered(self, process: Process, value: int) -> int:
        """acks=all was answered without error; the offset of the record."""
        place = next((one for one in self._offsets[value] if self._holds(one, value)), None)
        if place is None and self._offsets[value][-1][1] < self.since_epoch:
            return -1
        if place is None:
            told = f"{process!r} answers {value}, committed is {self.committed}"
            raise Broken("no_answer_before_commit", told)
        self.acknowledged[value] = place[0]
        return place[0]

    def _holds(self, place: tuple[int, int], value: int) -> bool:
        offset, epoch = place
        if offset >= len(self.committed) or self.committed[offset] != (epoch, value):
            return False
        whole = [one for one in self.world.nodes.state.isr if one not in self.lost]
        return bool(whole) and all(
            self.world.disks[one].log[offset : offset + 1] == [(epoch, value)] for one in whole
        )

    # --- the nodes

    def wrote(self, write: Write) -> None:
        """A write was done."""
        if self._resigns(write):
            self._has_reason(write)
        self._is_allowed(write)
        self._isr_is_sound(write)
        before, after = write.before.state, write.after.state
        if after.leader_epoch < before.leader_epoch or (
            after.leader != before.leader and after.leader_epoch == before.leader_epoch
        ):
            told = f"{before.leader} in {before.leader_epoch}, then {after.leader}"
            raise Broken("one_leader_an_epoch", told)
        joined = set(after.isr) - set(before.isr)
        self._joined_alive(write, joined)
        if write.author.broker == before.leader:
            self.lost -= {one for one in joined if self.world.runs_as_registered(one)}
        if self.lost.issuperset(after.isr) and not self.world.least_possible_isr() > len(self.lost):
            self._too_many = True
        raised = after.leader_epoch > before.leader_epoch
        if raised and after.leader != NO_LEADER and not self._is_clean(write):
            self._unclean(write)
        elif joined:
            self._isr_has_the_committed()

    def _joined_alive(self, write: Write, joined: set[int]) -> None:
        """Whoever left the ISR without a process comes back with one. Once it may come back by a
        fetch that was on its way."""
        for broker in joined & self._joins.keys():
            self._joins[broker] += 1
            if self._joins[broker] > 1:
                told = f"broker {broker} joined again without a process: {write.change}"
                raise Broken("isr_members_have_fetched", told)
        gone = set(write.before.state.isr) - set(write.after.state.isr)
        for broker in gone & self._gone:
            self._joins.setdefault(broker, 0)

    def _is_allowed(self, write: Write) -> None:
        """A deposed controller, an earlier registration, a deposed leader: they write nothing."""
        nodes, author, change = self.world.nodes, write.author, write.change
        before, after = write.before.state, write.after.state
        fenced = ""
        if author.controller_epoch >= 0:
            if author.controller_epoch != nodes.controller_epoch:
                fenced = f"controller {author.controller_epoch}, by now {nodes.controller_epoch}"
        elif author.broker_epoch >= 0:
            if author.broker_epoch != nodes.epochs[author.broker]:
                fenced = f"registration {author.broker_epoch} of {author.broker}"
            elif (set(before.isr) ^ set(after.isr)) - {author.broker}:
                fenced = f"broker {author.broker} takes others out of the ISR"
        elif self._resigns(write):
            if set(before.isr) - {author.broker} != set(after.isr):
                fenced = f"broker {author.broker} takes others out of the ISR"
        elif author.broker != before.leader or before.leader_epoch != after.leader_epoch:
            fenced = f"broker {author.broker}, but {before.leader} leads"
        if isinstance(change, ChangeState):
            for one, epoch in change.joining.items():
                if nodes.epochs.get(one) != epoch:
                    fenced = f"broker {one} joins as of registration {epoch}"
        if fenced:
            raise Broken("fenced_writes_nothing", f"{fenced}: {before}, then {after}")

    def _isr_is_sound(self, write: Write) -> None:
        before, after = write.before.state, write.after.state
        replicas = write.after.assignment.replicas
        is_within = set(after.isr) <= set(replicas) and len(set(after.isr)) == len(after.isr)
        reports_a_tail = write.author.broker_epoch >= 0 or self._resigns(write)
        least = min(len(before.isr), self._least(write))
        small = len(after.isr) < least and not reports_a_tail and self._is_clean(write)
        if not is_within or small:
            told = f"{before.isr} became {after.isr} of {replicas}, least {least}: {write.change}"
            raise Broken("isr_within_replicas_and_not_below_min", told)

    @staticmethod
    def _resigns(write: Write) -> bool:
        """A leader gives up the lead, for a log that it found to be bad."""
        before, after, author = write.before.state, write.after.state, write.author
        is_leader = author.controller_epoch < 0 and author.broker_epoch < 0
        return is_leader and author.broker == before.leader and after.leader == NO_LEADER

    def _has_reason(self, write: Write) -> None:
        """Its own bytes, not a word of others; there is another member; once for each reason."""
        broker, after = write.author.broker, write.after.state
        rotted, tail = self._rotted.get(broker, set()), after.incomplete.get(broker)
        if tail is None or tail.end not in rotted or not after.isr:
            told = f"broker {broker}, rotten were {sorted(rotted)}: {after}"
            raise Broken("resigns_for_its_own_bytes", told)
        self.resigned[broker] = self.resigned.get(broker, 0) + 1
        # A process that starts again does not know what the one before has found.
        if self.resigned[broker] > len(rotted) + self._starts[broker]:
            raise Broken("resigns_once", f"broker {broker} resigned {self.resigned[broker]} times")

    def _least(self, write: Write) -> int:
        """Who wrote may have known an earlier setting or assignment."""
        before, after = write.before.assignment, write.after.assignment
        known = (before.replicas, before.original, after.replicas, after.target)
        sizes = {len(one) for one in known}
        return min(least_isr(one, size) for one in self._settings for size in sizes)

    def _is_clean(self, write: Write) -> bool:
        """The leader, if there is a new one, surely has all that was committed."""
        before, leader = write.before, write.after.state.leader
        if leader == NO_LEADER:
            return True
        if before.state.leader == leader and write.author.broker_epoch >= 0:  # it starts, alone
            return leader not in self.lost
        return leader == before.state.leader or leader in in_sync.voters(before)

    def _unclean(self, write: Write) -> None:
        after = write.after.state
        allowed = write.before.unclean_allowed or self._too_many
        is_told = after.unclean or write.author.broker_epoch >= 0
        if not (allowed and is_told):
            told = f"unclean election, lost tails {self.lost}: {write.before}, then {after}"
            raise Broken("acknowledged_is_kept", told)
        self.unclean_elections += 1
        self.since_epoch = after.leader_epoch
        self._too_many = False
        self._give_up(after.leader)

    def _give_up(self, leader: int) -> None:
        """What the leader of an unclean election has is the truth."""
        log, known = self.world.disks[leader].log, self.committed
        both = zip(log, known, strict=False)
        parted = (at for at, (mine, truth) in enumerate(both) if mine != truth)
        del known[next(parted, min(len(log), len(known))) :]
        self.lost.discard(leader)
        self.acknowledged = {
            value: offset for value, offset in self.acknowledged.items() if offset < len(known)
        }
        self.world.clients.restart(len(known))

    def _isr_has_the_committed(self) -> None:
        for broker in self.world.nodes.state.isr:
            if broker not in self.lost:
                self._has_committed("every_isr_member_has_the_committed", broker)

    # --- the end

    def whole(self) -> str:
        """What is not well after everything was healed; empty if all is."""
        world, view = self.world, self.world.nodes.view
        replicas, state = view.assignment.replicas, view.state
        leader = world.running(state.leader)
        logs = [world.disks[one].log for one in replicas]
        if view.assignment.adding or view.assignment.removing:
            return f"a reassignment is under way: {view}"
        if set(state.isr) != set(replicas):
            return f"the ISR is {state.isr} of {replicas}, led by {state.leader}"
        if leader is None or leader.leader is None or leader.leader.epoch != state.leader_epoch:
            return f"nobody leads: {state}"
        if any(log != logs[0] for log in logs) or leader.high_watermark != len(logs[0]):
            return f"logs end at {[len(log) for log in logs]}, committed {leader.high_watermark}"
        if any(disk.exists for one, disk in world.disks.items() if one not in replicas):
            return f"brokers outside of {replicas} have logs"
        parked = [one for one in world.processes.values() if one and any(one.parked.values())]
        if parked:
            return f"requests wait at {parked}"
        for value, offset in self.acknowledged.items():
            if logs[0][offset][1] != value:
                raise Broken("acknowledged_is_kept", f"{value} at {offset} is gone")
        return ""

    def _has_committed(self, name: str, broker: int) -> None:
        log, known = self.world.disks[broker].log, self.committed
        if log[: len(known)] != known:
            raise Broken(name, f"broker {broker} has {log}, committed is {known}")
