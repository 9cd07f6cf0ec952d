"""What must hold in every run of simulated transactions, by name."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from checks import anomalies
from txn_client import GROUPS
from txn_copier import COPY, KEY, SOURCE
from txn_history import operations_of
from txn_partition import Entry, Memory, SimulatedPartition

from tallymark.groups.records import OffsetKey
from tallymark.protocol.records.batch import BatchHeader
from tallymark.protocol.records.markers import Marker
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.transactions.records import TransactionRecord, decode_key, decode_value
from tallymark.transactions.state import TransactionsState
from tallymark.transactions.transaction import LAST_EPOCH, PREPARED, State, Transaction

if TYPE_CHECKING:
    from txn_client import TransactionalClient
    from txn_world import World

Identity = tuple[int, int]
_MAY_BE_SEEN = ("commit asked", "committed")


class Broken(AssertionError):
    """``name`` does not hold."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name


class Invariants:
    """Told of each step when it happens. Of what is promised only records that are committed, or
    that readers see, say anything: what a lead takes with it was promised to nobody."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.seen: dict[TopicPartition, dict[int, Any]] = defaultdict(dict)
        """What a reader of committed records has got: offset -> value."""
        self.reads: list[tuple[int, TopicPartition, int, Any]] = []
        """Of that reader: time, partition, offset, value."""
        self._stable: dict[TopicPartition, int] = defaultdict(int)
        self.fates: dict[int, bool] = {}
        """Transaction of a client -> whether it got COMMIT markers."""
        self._decided: dict[str, Transaction] = {}
        self._prepared: set[tuple[int, int, bool]] = set()
        self._order: dict[str, list[Identity]] = defaultdict(list)
        """By id, all identities that were in force, in their order."""
        self._id_of: dict[int, str] = {}
        self._fenced_before: dict[str, int] = {}
        """By id: identities before this place in the order are fenced."""
        self._begun: dict[str, list[int]] = defaultdict(list)
        """By id: the lives of clients that asked for one."""
        self._aborted_by_coordinator: dict[str, int] = defaultdict(int)
        self._acknowledged: dict[int, set[Any]] = defaultdict(set)
        self.offsets: dict[tuple[OffsetKey, int], set[int]] = defaultdict(set)
        """Key and position -> the transactions that have sent it; -1: outside of one."""
        self.counts: dict[str, int] = defaultdict(int)

    # --- the coordinator's log

    def decided(self, record: TransactionRecord) -> None:
        """A record of the coordinator is committed."""
        name = decode_key(record[0])
        assert name is not None
        if record[1] is None:
            self._decided.pop(name, None)
            return
        now = decode_value(name, record[1])
        before = self._decided.get(name)
        self._decided[name] = now
        self.identity((now.producer_id, now.producer_epoch), also_of_markers=True)
        self._id_of[now.producer_id] = name
        order = self._order[name]
        identity = (now.producer_id, now.producer_epoch)
        if not order or order[-1] != identity:
            if identity in order:
                raise Broken("decision_is_final", f"{name}: {identity} is in force again")
            order.append(identity)
        if before is not None and before.state in PREPARED and now.state != before.state + 2:
            raise Broken("decision_is_final", f"{name}: {before.state.name}, then {now.state.name}")
        if now.state in PREPARED:
            self.counts[now.state.name] += 1
            self._prepared.add((*identity, now.commits))
            raised = before is None or identity != (before.producer_id, before.producer_epoch)
            if raised and now.last_epoch == -1:
                self._aborted_by_coordinator[name] += 1

    # --- producers

    def asks_for_an_id(self, client: TransactionalClient) -> None:
        """InitProducerId is about to leave."""
        if client.life not in self._begun[client.name]:
            self._begun[client.name].append(client.life)

    def given(self, client: TransactionalClient, identity: Identity) -> None:
        """InitProducerId was answered: all before are fenced."""
        self.identity(identity)
        place = self._order[client.name].index(identity)
        fenced = max(place, self._fenced_before.get(client.name, 0))
        self._fenced_before[client.name] = fenced

    def identity(self, identity: Identity, *, also_of_markers: bool = False) -> None:
        """One that a client has, or markers."""
        if not 0 <= identity[1] <= LAST_EPOCH + also_of_markers:
            raise Broken("ids_rotate_in_time", f"{identity}")
        self.counts["identities"] += 1

    def fatal(self, client: TransactionalClient) -> None:
        """A client can do nothing more. It must be another one's doing, or that of the time."""
        others = [life for life in self._begun[client.name] if life != client.life]
        own = client.self_fenced or self._aborted_by_coordinator[client.name]
        misled = self._world.coordinator.misled
        own = own or not misled.isdisjoint({repr(client), *map(str, self._world.partitions)})
        if not others and not own:
            raise Broken("fenced_by_others_only", f"{client!r}: {client.fatal}")
        self.counts["fatal"] += 1

    # --- partitions

    def written(
        self, partition: SimulatedPartition, header: BatchHeader, records: tuple[Any, ...]
    ) -> None:
        """A batch of a transaction is about to be appended."""
        name = self._id_of.get(header.producer_id)
        identity = (header.producer_id, header.producer_epoch)
        order = self._order[name] if name is not None else []
        if name is None or identity not in order:
            raise Broken("zombies_write_nothing", f"{identity} was never committed")
        if order.index(identity) < self._fenced_before.get(name, 0):
            raise Broken("zombies_write_nothing", f"{identity} of {name} in {partition.place}")
        self.counts["written"] += 1

    def marked(self, partition: SimulatedPartition, header: BatchHeader, marker: Marker) -> None:
        """A marker is about to be appended."""
        identity = (header.producer_id, header.producer_epoch)
        if (*identity, marker.commit) not in self._prepared:
            raise Broken("decision_is_final", f"{identity} {marker} was not decided")
        open_ = dict(partition.memory.producers.transactions)
        first = open_.get(header.producer_id)
        if first is None:
            return
        for entry in partition.entries:
            same = entry.header.producer_id == header.producer_id
            if entry.header.base_offset >= first and same and entry.marker is None:
                self._ends(partition, entry, marker.commit)

    def _ends(self, partition: SimulatedPartition, entry: Entry, commit: bool) -> None:
        for record in entry.records:
            if isinstance(record[0], OffsetKey):
                continue
            number = record[0]
            fate = self.fates.setdefault(number, commit)
            phase = self._world.transactions[number].phase
            wrong = "aborted" if commit else "committed"
            if fate != commit or phase == wrong:
                raise Broken(
                    "all_or_nothing",
                    f"transaction {number} ({phase}) in {partition.place}: commit {fate}, {commit}",
                )

    def moved(self, partition: SimulatedPartition) -> None:
        """Its high watermark has, or its lead; or it got a marker. Here the next leader knows the
        high watermark, so the last stable offset does not even fall between epochs."""
        stable, before = partition.last_stable_offset, self._stable[partition.place]
        if stable < before:
            raise Broken(
                "lso_never_falls_in_an_epoch", f"{partition.place}: {before}, then {stable}"
            )
        self._stable[partition.place] = stable
        if partition.place[0].startswith("__"):
            self.live_equals_replayed(partition)
            self._offsets(partition)
        elif stable > before:
            self._read(partition, before, stable)

    def _read(self, partition: SimulatedPartition, start: int, until: int) -> None:
        got = dict(partition.read_committed(start, until))
        self.seen[partition.place].update(got)
        now = self._world.agenda.now_ms
        self.reads.extend((now, partition.place, at, got[at]) for at in sorted(got))
        for entry in partition.entries:
            if entry.header.base_offset >= until or entry.header.last_offset < start:
                continue
            for at, value in enumerate(entry.records, entry.header.base_offset):
                phase = self._world.transactions[value[0]].phase
                if at in got and phase not in _MAY_BE_SEEN:
                    raise Broken(
                        "no_aborted_record_is_visible", f"{value} at {partition.place} is {phase}"
                    )
                if start <= at < until and at not in got and phase == "committed":
                    raise Broken(
                        "no_committed_record_is_missing_below_the_lso",
                        f"{value} at {partition.place} {at}",
                    )
        if partition.place == COPY:
            self.exactly_once_through_the_copy(self.seen[SOURCE], self.seen[COPY])

    def _offsets(self, partition: SimulatedPartition) -> None:
        """Only those of transactions whose commit was asked for are in force."""
        offsets = partition.memory.offsets
        for group in offsets.groups():
            for topic, index, committed in offsets.of_group(group):
                senders = self.offsets[OffsetKey(group, topic, index), committed.offset]
                phases = [self._world.transactions[each].phase for each in senders if each >= 0]
                if -1 not in senders and not any(each in _MAY_BE_SEEN for each in phases):
                    raise Broken(
                        "offsets_move_iff_committed", f"{group} {committed.offset}: {phases}"
                    )

    # --- what clients are told

    def acknowledged(self, client: TransactionalClient, records: tuple[Any, ...]) -> None:
        """A batch is in the log."""
        self._acknowledged[client.transaction].update(records)

    def acknowledged_of(self, number: int) -> set[Any]:
        """What of a transaction is in the log."""
        return self._acknowledged[number]

    def offset_sent(self, transaction: int, key: OffsetKey, position: int) -> None:
        """With a transaction, or -1."""
        self.offsets[key, position].add(transaction)

    def told(self, number: int) -> None:
        """A client has heard how its transaction ended."""
        phase = self._world.transactions[number].phase
        self.counts[phase] += 1
        if self.fates.get(number, phase == "committed") != (phase == "committed"):
            raise Broken("all_or_nothing", f"transaction {number} is told to be {phase}")
        if phase == "aborted":
            for place, got in self.seen.items():
                if any(value[0] == number for value in got.values()):
                    raise Broken("no_aborted_record_is_visible", f"{number} in {place}")

    # --- by name

    def live_equals_replayed(self, partition: SimulatedPartition) -> None:
        """What the leader remembers is what its log says, compacted or not."""
        live, whole = partition.memory, Memory(partition.entries)
        if live.of_producers() != whole.of_producers() or live.of_offsets() != whole.of_offsets():
            raise Broken("live_equals_replayed", f"{live.of_offsets()} {whole.of_offsets()}")
        compacted = Memory(_compacted(partition))
        if compacted.of_offsets() != live.of_offsets():
            raise Broken(
                "live_equals_replayed",
                f"compacted: {compacted.of_offsets()} live: {live.of_offsets()}",
            )

    def exactly_once_through_the_copy(self, source: dict[int, Any], copy: dict[int, Any]) -> None:
        """The copy is the beginning of the source."""
        wanted = [source[at] for at in sorted(source)]
        got = [self._world.copied[copy[at]] for at in sorted(copy)]
        if got != wanted[: len(got)]:
            raise Broken("exactly_once_through_the_copy", f"{wanted} became {got}")

    def whole(self) -> str:
        """What is not as it must be in the end; "" where nothing is."""
        world = self._world
        leader = world.coordinator.leader
        if leader is None or leader.replayed.end > leader.replayed.high_watermark:
            return "the coordinator's log is not committed"
        for each in leader.shard.state:
            if each.state is State.ONGOING or each.state in PREPARED:
                return f"{each.transactional_id} is {each.state.name}"
        for partition in world.partitions.values():
            if not partition.last_stable_offset == partition.high_watermark == partition.end:
                return f"{partition.place} stands at {partition.last_stable_offset}"
        if world.living:
            return f"{world.living} are not over"
        return ""

    def at_the_end(self) -> None:
        """All of what clients were told is so."""
        world = self._world
        for partition in world.partitions.values():
            self.live_equals_replayed(partition)
        visible = {value for got in self.seen.values() for value in got.values()}
        for number, told in world.transactions.items():
            if told.phase == "committed":
                missing = self._acknowledged[number] - visible
                if missing:
                    raise Broken("no_committed_record_is_missing_below_the_lso", f"{missing}")
        self._reloads()
        for anomaly in anomalies(operations_of(world)):
            raise Broken(anomaly.name, anomaly.text)
        if world.plan.copier is not None:
            self._copy_is_as_far_as_its_position()

    def _reloads(self) -> None:
        leader = self._world.coordinator.leader
        assert leader is not None
        newest = dict(leader.replayed.records)
        for records in (leader.replayed.records, list(newest.items())):
            again = TransactionsState()
            for record in records:
                again.replay(record)
            if {each.transactional_id: each for each in again} != {
                each.transactional_id: each for each in leader.shard.state
            }:
                raise Broken("live_equals_replayed", "the coordinator's")

    def _copy_is_as_far_as_its_position(self) -> None:
        world = self._world
        offsets = world.partitions[GROUPS].memory.offsets
        found = offsets.get(KEY.group, KEY.topic, KEY.partition)
        position = 0 if found is None else found.offset
        wanted = [value for at, value in sorted(self.seen[SOURCE].items()) if at < position]
        got = [world.copied[value] for _, value in sorted(self.seen[COPY].items())]
        if got != wanted:
            raise Broken("offsets_move_iff_committed", f"{wanted} are read, {got} are copied")


def _compacted(partition: SimulatedPartition) -> list[Entry]:
    """Below the last stable offset: of each key the newest record that is not aborted, and all
    markers."""
    until = partition.last_stable_offset
    kept = {at for at, _ in partition.read_committed(0, until)}
    newest: dict[OffsetKey, int] = {}
    for entry in partition.entries:
        for at, record in enumerate(entry.records, entry.header.base_offset):
            if at in kept:
                newest[record[0]] = at
    stays = {*newest.values()}
    return [
        entry
        for entry in partition.entries
        if entry.header.base_offset >= until
        or entry.marker is not None
        or any(at in stays for at in range(entry.header.base_offset, entry.header.next_offset))
    ]
