"""The transaction coordinator of a simulated cluster: the product's own shard and markers, on a log
of which the end may be lost, and of which an earlier leader may go on for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from tallymark.broker.transactions.looking_over import abort_overdue
from tallymark.broker.transactions.shard import TransactionShard
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.records.markers import Marker
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.transactions.inputs import Add, Decision, End, Initialise, refused
from tallymark.transactions.markers import DELETED, Markers, Outcome, Sent
from tallymark.transactions.records import TransactionRecord
from tallymark.transactions.state import TransactionsState

if TYPE_CHECKING:
    from txn_world import World

A = TypeVar("A")
NOT_COORDINATOR: Final = CODES["NOT_COORDINATOR"]
CHECK_MS: Final = 400
"""How often transactions that are overdue are looked for."""
MARKERS_MS: Final = 800
"""How long the answer to markers may take."""
Key = tuple[int, TopicPartition]


class Later:
    """An answer that has not left yet."""

    def __init__(self) -> None:
        self.give: Callable[[Any], None] = lambda answer: None


class Replayed:
    """In place of the broker's ReplayedState: the state log of one leader epoch."""

    def __init__(
        self, world: World, records: list[TransactionRecord], epoch: int, committed: int
    ) -> None:
        self.records = records
        self.epoch = epoch
        self.end = len(records)
        self.state = TransactionsState()
        self.closed = False
        self.deposed = False
        """Another one leads, and this one does not know it yet: it commits nothing more."""
        self.high_watermark = committed
        self.partition = self
        self.stalled_until_ms = 0
        self._world = world
        self._held: list[tuple[int, Callable[[int], None]]] = []
        for record in records:
            self.state.replay(record)
        self._commit_later()

    @property
    def is_over(self) -> bool:
        return self.closed

    def append(self, records: Sequence[TransactionRecord], wall_ms: int, *, acks: int = -1) -> None:
        if self.closed:
            raise KafkaError(NOT_COORDINATOR, "the lead is lost")
        for record in records:
            self.records.append(record)
            self.state.replay(record)
        self.end = len(self.records)
        self._commit_later()

    def settled(self, answer: A, refuse: Callable[[int], A]) -> A:
        """The answer, or a :class:`Later`."""
        if self.closed:
            return refuse(NOT_COORDINATOR)
        if self.end <= self.high_watermark:
            return answer
        later = Later()
        self._held.append((self.end, lambda code: later.give(refuse(code) if code else answer)))
        return cast(A, later)

    def when_settled(self, deliver: Callable[[int], None]) -> None:
        if self.closed:
            deliver(NOT_COORDINATOR)
        elif self.end <= self.high_watermark:
            deliver(0)
        else:
            self._held.append((self.end, deliver))

    def close(self) -> None:
        self.closed = True
        held, self._held = self._held, []
        for _, deliver in held:
            deliver(NOT_COORDINATOR)

    def _commit_later(self) -> None:
        world, end = self._world, self.end

        def commit() -> None:
            if self.closed or self.deposed:
                return
            if self.stalled_until_ms > world.agenda.now_ms:
                world.agenda.at(self.stalled_until_ms, commit)
                return
            for record in self.records[self.high_watermark : end]:
                world.check.decided(record)
            self.high_watermark = max(self.high_watermark, end)
            due = [each for each in self._held if each[0] <= self.high_watermark]
            self._held = [each for each in self._held if each[0] > self.high_watermark]
            for _, deliver in due:
                deliver(0)

        world.agenda.after(world.random.choice((1, 1, 2, 4, 30)), commit)


class Leader:
    """One coordinator in one leader epoch, and the markers that it sends."""

    def __init__(
        self, world: World, records: list[TransactionRecord], epoch: int, committed: int
    ) -> None:
        self.replayed = Replayed(world, records, epoch, committed)
        self._world = world
        self._markers = Markers()
        self._completed: dict[str, Callable[[Outcome], None]] = {}
        self.shard = TransactionShard(
            cast(Any, self.replayed), self, lambda: self._world.agenda.now_ms
        )
        taking = self.shard.take_over()
        try:
            while True:
                taking.send(None)
        except StopIteration:
            pass
        world.agenda.after(CHECK_MS, self._look)

    def close(self) -> None:
        self.shard.close()

    def _look(self) -> None:
        if self.replayed.closed:
            return
        for _ in abort_overdue(self.shard, self._world.agenda.now_ms):
            pass
        self._world.agenda.after(CHECK_MS, self._look)

    # --- sends markers

    def begin(self, outcome: Outcome, completed: Callable[[Outcome], None]) -> None:
        if self._markers.begin(outcome):
            self._world.agenda.after(0, completed, outcome)
        else:
            self._completed[outcome.transactional_id] = completed
            self._world.agenda.after(0, self._send_all)

    def drop(self, outcomes: Iterable[Outcome]) -> None:
        gone = {each.transactional_id: each for each in outcomes}
        self._markers.drop(lambda each: gone.get(each.transactional_id) is not each)

    def _send_all(self) -> None:
        if self.replayed.closed:
            return
        now = self._world.agenda.now_ms
        requests, complete = self._markers.to_send(self._world.leader_of, now)
        for broker, sent in sorted(requests.items()):
            self._send(broker, sent)
        self._complete(complete)
        following = self._markers.next_ms(now)
        if following is not None:
            self._world.agenda.at(following, self._send_all)

    def _send(self, broker: int, sent: Sequence[Sent]) -> None:
        world = self._world
        waits = [True]

        def arrives(reply: Callable[[Mapping[Key, int]], None]) -> None:
            # Before Kafka 4 a marker that comes after its repetition would end the next
            # transaction: it has the same epoch. There a connection must keep the order.
            if waits[0] or all(each.outcome.version for each in sent):
                _Writing(world, sent, reply)

        def answered(codes: Mapping[Key, int] | None) -> None:
            if not self.replayed.closed:
                waits[0] = False
                self._complete(
                    self._markers.answered(broker, sent, codes or {}, world.agenda.now_ms)
                )
                self._send_all()

        world.network.ask(lambda: True, arrives, answered, MARKERS_MS)

    def _complete(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            self._completed.pop(outcome.transactional_id)(outcome)


class _Writing:
    """Markers in the partitions of one broker; the answer leaves when all of them are committed."""

    def __init__(
        self, world: World, sent: Sequence[Sent], reply: Callable[[Mapping[Key, int]], None]
    ) -> None:
        self._codes: dict[Key, int] = {}
        self._left = sum(len(each.partitions) for each in sent)
        self._reply = reply
        for each in sent:
            outcome = each.outcome
            marker = Marker(outcome.commit, outcome.coordinator_epoch)
            for place in sorted(each.partitions):
                partition = world.partitions[place]
                code, offset = partition.write_marker(
                    outcome.producer_id, outcome.producer_epoch, marker, outcome.version
                )
                key = (outcome.producer_id, place)
                if code:
                    self._done(key, code)
                else:
                    partition.when_committed(offset, partial(self._done, key))

    def _done(self, key: Key, code: int) -> None:
        self._codes[key] = code
        self._left -= 1
        if not self._left:
            self._reply(self._codes)


class Coordinator:
    """Requests to whoever coordinates: the present leader, none, or for a while one from before."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ids = 100
        self.leader: Leader | None = None
        self.earlier: Leader | None = None
        self._records: list[TransactionRecord] = []
        self._committed = 0
        self._moved: set[str] = set()
        """Who has found the present coordinator does not go back to the one before."""
        self.misled: set[str] = set()
        """Who was answered by a coordinator that was deposed: a refusal may be of another state."""
        self._epoch = -1
        self.elect()

    def lose(self, for_ms: int, *, lives_on: bool) -> None:
        """The broker of the coordinator ends, or ``lives_on`` and does not know yet."""
        leader = self.leader
        if leader is None:
            return
        replayed = leader.replayed
        keep = self._world.random.randint(replayed.high_watermark, len(replayed.records))
        self._records = replayed.records[:keep]
        self._committed = replayed.high_watermark
        self.leader = None
        self._moved.clear()
        if self.earlier is not None:
            self.earlier.close()
            self.earlier = None
        if lives_on:
            replayed.deposed = True
            self.earlier = leader
        else:
            leader.close()
        self._world.note("the coordinator of epoch %d is gone; %d records", replayed.epoch, keep)
        self._world.agenda.after(for_ms, self.elect)
        self._world.agenda.after(for_ms + 700, self.notice, leader)

    def notice(self, leader: Leader) -> None:
        """A coordinator from before hears that it is one."""
        leader.close()
        if self.earlier is leader:
            self.earlier = None

    def elect(self) -> None:
        if self.leader is None:
            self._epoch += 1
            self._world.note("a coordinator in epoch %d", self._epoch)
            self.leader = Leader(self._world, list(self._records), self._epoch, self._committed)

    def _asked(self, who: str) -> TransactionShard | None:
        earlier = self.earlier
        if earlier is not None and who not in self._moved and self._world.random.random() < 0.5:
            self.misled.add(who)
            return earlier.shard
        if self.leader is None:
            return None
        self._moved.add(who)
        return self.leader.shard

    def _answer(self, found: Any, reply: Callable[[Any], None]) -> None:
        if isinstance(found, Later):
            found.give = reply
        else:
            reply(found)

    # --- requests

    def initialise(self, who: str, request: Initialise, reply: Callable[[Decision], None]) -> None:
        self._decide(who, lambda shard, new: shard.initialise(request, new), reply)

    def add(self, who: str, name: str, request: Add, reply: Callable[[Decision], None]) -> None:
        self._decide(who, lambda shard, new: shard.add(name, request), reply)

    def end(self, who: str, name: str, request: End, reply: Callable[[Decision], None]) -> None:
        self._decide(who, lambda shard, new: shard.end(name, request, new), reply)

    def verify(
        self,
        name: str,
        producer: tuple[int, int],
        place: TopicPartition,
        reply: Callable[[int], None],
    ) -> None:
        shard = self._asked(str(place))
        if shard is None:
            reply(NOT_COORDINATOR)
        else:
            self._answer(shard.verify(name, *producer, [place]), lambda codes: reply(codes[place]))

    def _decide(
        self,
        who: str,
        decide: Callable[[TransactionShard, int], Any],
        reply: Callable[[Decision], None],
    ) -> None:
        shard = self._asked(who)
        if shard is None:
            reply(refused(NOT_COORDINATOR))
            return
        found = decide(shard, -1)
        if isinstance(found, Decision) and found.needs_producer_id:
            self._ids += 1
            new = self._ids
            self._world.agenda.after(5, lambda: self._answer(decide(shard, new), reply))
        else:
            self._answer(found, reply)


def leader_of(world: World, place: TopicPartition) -> int:
    """Its broker."""
    if place not in world.partitions:
        return DELETED
    return sorted(world.partitions).index(place) % 2 + 1
