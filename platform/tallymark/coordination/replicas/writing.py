"""Changes of partitions as transactions, by compare-and-set, and what became of each.

One transaction has at most 500 states (:data:`tallymark.replication.changes.MOST_STATES`)::

    Check    /admin/delete_topics             the guard: no topic was deleted since the reading
    Check    /controller_epoch                the fence: for the controller only
    Check    /brokers/epochs/[id]             of each broker that joins an ISR (KIP-903)
    Check    /brokers/topics/[t]              where one joins: it is a replica still
    SetData  /brokers/topics/[t]              an assignment, of the version that was just read
    SetData  /brokers/topics/[t]/.../state    of the version that the change was decided from
    Create   /brokers/changes/change_         new leaders; ISRs may wait (``isr_notices``)

The nodes are read first: changes that do not hold are refused with the reason, the others go into
one transaction. Where another writer was faster in between, they are read again. So a change is
done, refused (the node stays as it was), or its outcome is unknown: the connection broke, or no
answer came in time. Such a transaction may still be executed later. That is safe, since it changes
nothing unless every node still has the version that it names; but it must be read again before the
next decision. After an unknown outcome nothing more is sent in the same call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple

from tallymark.coordination.replicas.facts import (
    NOTHING_READ,
    Facts,
    is_at_once,
    read_facts,
    refusal,
    stale_of,
    steps_of,
)
from tallymark.coordination.session.errors import (
    BadVersionError,
    CoordinationError,
    NoNodeError,
    SessionLostError,
)
from tallymark.coordination.session.nodes import Check, Create, SetData, Step
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.coordination.topics.changes import change_of_states
from tallymark.errors import ClosedError, ConnectError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.changes import batches
from tallymark.replication.isr_notices import IsrNotices
from tallymark.replication.model import Change, ChangeAssignment, PartitionState

MOST_BYTES: Final = 900_000
"""Of one transaction: ZooKeeper closes the connection of a client that sends more than 1 MB."""
_ATTEMPTS: Final = 8
_NO_ANSWER: Final = (ConnectError, SessionLostError, ClosedError)


class Fate(Enum):
    """What became of a change."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outcome:
    """``why`` is a clause for logs; for a change that was done it is the change's own. ``found`` is
    the state of the partition as it was read before, None where it was not read, or is gone.
    ``stale`` are brokers that were to join, but have registered again: broker -> the epoch in
    which each was seen in sync."""

    change: Change
    fate: Fate
    why: str
    found: PartitionState | None = None
    stale: Mapping[int, int] = field(default_factory=dict[int, int])

    @property
    def state(self) -> PartitionState | None:
        """What the node holds now, as far as is known."""
        if self.fate is Fate.REFUSED:
            return self.found
        if self.fate is Fate.UNKNOWN or self.change.state is None:
            return None
        return replace(self.change.state, version=self.change.expected + 1)


class Written(NamedTuple):
    """One outcome for each change, in their order. ``broken`` is the condition that did not hold:
    then nothing more can be written from the same facts."""

    outcomes: Sequence[Outcome]
    broken: Check | None


class ReplicaWriter:
    """Writes the changes of one broker. Not thread-safe."""

    def __init__(self, zookeeper: ZooKeeper, notices: IsrNotices | None = None) -> None:
        self._zookeeper = zookeeper
        self.notices = notices or IsrNotices()

    def write(self, changes: Sequence[Change], conditions: Sequence[Check], now_ms: int) -> Written:
        """Do the changes, each under the ``conditions``: the guard, which was read before the facts
        that they were decided from (:meth:`.TopicWriter.guard`), and for the controller its fence.
        Raises no error: what ZooKeeper refuses for good (credentials) is refused with its
        reason."""
        outcomes: list[Outcome] = []
        for part in batches(changes):
            batch = _Batch(part, conditions)
            self._settle(batch, now_ms)
            outcomes += batch.outcomes()
            if batch.stopped:
                rest = changes[len(outcomes) :]
                outcomes += [Outcome(each, Fate.REFUSED, batch.stopped) for each in rest]
                return Written(outcomes, batch.broken)
        return Written(outcomes, None)

    def send_notice(self, now_ms: int) -> None:
        """Notify the other brokers of the ISR changes that are due. ConnectError, SessionLostError:
        the next call sends them again."""
        if due := self.notices.due(now_ms):
            self._zookeeper.commit([change_of_states(due)])
            self.notices.sent(due, now_ms)

    def _settle(self, batch: _Batch, now_ms: int) -> None:
        """Try until each change has an outcome. Where the nodes have changed since they were read,
        that refuses at least one change of the next attempt."""
        for _ in range(_ATTEMPTS):
            try:
                facts = read_facts(self._zookeeper, batch.left)
            except (*_NO_ANSWER, CoordinationError) as error:
                return batch.stop(f"not sent: {error}")
            batch.refuse_by(facts)
            while batch.left:
                part, steps = self._transaction(batch, facts, now_ms)
                if _size(steps) > MOST_BYTES:
                    batch.end(part, Fate.REFUSED, "it does not fit into a node of ZooKeeper")
                    continue
                if not self._commit(batch, part, steps):
                    break
                self.notices.sent(_named_by(part, facts, self.notices.due(now_ms)), now_ms)
            if batch.stopped or not batch.left:
                return None
        return batch.stop("others change it all the time")

    def _transaction(
        self, batch: _Batch, facts: Facts, now_ms: int
    ) -> tuple[Sequence[Change], Sequence[Step]]:
        """As many of the changes as fit, at least one, and the steps for them."""
        part = batch.left
        while True:
            self.notices.changed(each.partition for each in part if not is_at_once(each, facts))
            steps = [*batch.conditions, *steps_of(part, facts)]
            named = _named_by(part, facts, self.notices.due(now_ms))
            moved = {each.partition[0] for each in part if isinstance(each, ChangeAssignment)}
            if named or moved:
                steps.append(change_of_states(named, moved))
            if _size(steps) <= MOST_BYTES or len(part) == 1:
                return part, steps
            part = part[: len(part) // 2]

    def _commit(self, batch: _Batch, part: Sequence[Change], steps: Sequence[Step]) -> bool:
        """False: nothing of it was done, as far as is known; read again, unless the batch is
        stopped."""
        try:
            self._zookeeper.commit(steps)
        except _NO_ANSWER as error:
            batch.end(part, Fate.UNKNOWN, str(error))
            batch.stop("not sent: the outcome of the transaction before it is not known")
        except (BadVersionError, NoNodeError) as error:
            batch.refuse_all_if_broken(error)
        except CoordinationError as error:
            batch.stop(str(error))
        else:
            batch.end(part, Fate.DONE, "")
            return True
        return False


class _Batch:
    """The changes of one transaction, and what is known of each."""

    def __init__(self, changes: Sequence[Change], conditions: Sequence[Check]) -> None:
        self._changes = changes
        self._ends: dict[int, Outcome] = {}
        self._facts = NOTHING_READ
        self.conditions = conditions
        self.stopped = ""
        """Why nothing more is sent."""
        self.broken: Check | None = None

    @property
    def left(self) -> list[Change]:
        """Those without an outcome. Of several for one partition the first: the others of this call
        were not decided from what it leaves."""
        return list(
            {id(each): each for each in self._changes if id(each) not in self._ends}.values()
        )

    def end(self, changes: Sequence[Change], fate: Fate, why: str) -> None:
        for each in changes:
            self._ends[id(each)] = Outcome(
                each,
                fate,
                why or each.why,
                self._facts.state_of(each.partition),
                stale_of(each, self._facts),
            )

    def refuse_by(self, facts: Facts) -> None:
        """Refuse what does not hold."""
        self._facts = facts
        first: dict[TopicPartition, Change] = {}
        for each in self.left:
            why = refusal(each, facts)
            if why is None and first.setdefault(each.partition, each) is not each:
                why = "there is another change of the partition in this call"
            if why is not None:
                self.end([each], Fate.REFUSED, why)

    def stop(self, why: str) -> None:
        """Refuse all that are left, and let nothing follow."""
        self.stopped = why
        self.end(self.left, Fate.REFUSED, why)

    def refuse_all_if_broken(self, error: CoordinationError) -> None:
        for each in self.conditions:
            if error.path.endswith(each.path):
                self.broken = each
                return self.stop(f"{each.path} has changed since the facts were read")
        return None

    def outcomes(self) -> list[Outcome]:
        return [self._ends[id(each)] for each in self._changes]


def _named_by(
    part: Sequence[Change], facts: Facts, due: Set[TopicPartition]
) -> set[TopicPartition]:
    """The partitions in the transaction's notice: those with new leaders, and those due."""
    return {each.partition for each in part if is_at_once(each, facts)} | due


def _size(steps: Sequence[Step]) -> int:
    """About the bytes of a transaction on the wire."""
    return sum(
        len(each.path) + 100 + (len(each.data) if isinstance(each, Create | SetData) else 0)
        for each in steps
    )
