"""The markers of transactions whose outcome is decided: to which brokers, and when again. Pure.

One :class:`Outcome` is written to each partition that its transaction has, by the leader of the
partition. It is sent again until every partition has answered: the decision is final, so giving up
would leave readers behind an open transaction for ever. Per broker one request is under way, with
all that waits for it; so a slow broker holds up its own markers only.

=====================================  ============================================================
what a partition answers               what follows
=====================================  ============================================================
written, or it can have no markers     done
the topic was deleted                  done: there is nothing that could be read
another coordinator, a newer epoch     the outcome is given up here: another coordinator has it
anything else                          its leader is looked up again after a pause
=====================================  ============================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tallymark.errors import CODES
from tallymark.protocol.topic_partition import TopicPartition

DELETED: Final = -2
"""Instead of a leader: there is no such partition any more."""
NO_LEADER: Final = -1
"""Instead of a leader: there is none now."""
RETRY_MS: Final = 100
"""Pause before a partition is asked again."""
MOST_IN_FLIGHT: Final = 1_000
"""Outcomes in one request to a broker."""

_DONE: Final = frozenset((0, CODES["UNSUPPORTED_FOR_MESSAGE_FORMAT"]))
_GIVEN_UP: Final = frozenset(
    (CODES["INVALID_PRODUCER_EPOCH"], CODES["TRANSACTION_COORDINATOR_FENCED"])
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A decided transaction. ``version`` is the level of ``transaction.version`` of its end
    (KIP-1228)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    version: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Sent:
    """One outcome in a request to a broker, with the partitions that are asked there."""

    outcome: Outcome
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class GivenUp:
    """An outcome that ``partition`` has refused with ``code``."""

    outcome: Outcome
    partition: TopicPartition
    code: int


@dataclass(slots=True)
class _Waiting:
    outcome: Outcome
    left: set[TopicPartition]
    """What has not answered yet."""
    sent: set[TopicPartition] = field(default_factory=set[TopicPartition])
    """The part of it that is under way."""
    not_before_ms: int = 0


class Markers:
    """The outcomes of one coordinator, by transactional id: an id has one at a time."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}
        self._busy: set[int] = set()
        self._given_up: dict[str, GivenUp] = {}

    @property
    def given_up(self) -> Mapping[str, GivenUp]:
        """The transactional ids that stay in Prepare, since a partition refuses their marker as one
        of an older coordinator or epoch."""
        return self._given_up

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, outcome: Outcome) -> bool:
        """Write the markers of this outcome. Returns True where it has no partitions: it is
        complete at once, and not kept."""
        self._given_up.pop(outcome.transactional_id, None)
        if not outcome.partitions:
            return True
        self._waiting[outcome.transactional_id] = _Waiting(outcome, set(outcome.partitions))
        return False

    def drop(self, wanted: Callable[[Outcome], bool]) -> None:
        """Forget all others: the lead of their partition is lost."""
        self._waiting = {name: each for name, each in self._waiting.items() if wanted(each.outcome)}
        self._given_up = {
            name: each for name, each in self._given_up.items() if wanted(each.outcome)
        }

    def to_send(
        self, leader_of: Callable[[TopicPartition], int], now_ms: int
    ) -> tuple[dict[int, list[Sent]], list[Outcome]]:
        """The next request to each broker that has none under way; and the outcomes that are
        complete because what was left of them was deleted."""
        requests: dict[int, list[Sent]] = {}
        complete: list[Outcome] = []
        for waiting in tuple(self._waiting.values()):
            if waiting.not_before_ms > now_ms:
                continue
            for broker, partitions in self._by_leader(waiting, leader_of, now_ms).items():
                request = requests.setdefault(broker, [])
                if broker not in self._busy and len(request) < MOST_IN_FLIGHT:
                    waiting.sent |= partitions
                    request.append(Sent(waiting.outcome, frozenset(partitions)))
            complete.extend(self._complete(waiting))
        requests = {broker: request for broker, request in requests.items() if request}
        self._busy.update(requests)
        return requests, complete

    def _by_leader(
        self, waiting: _Waiting, leader_of: Callable[[TopicPartition], int], now_ms: int
    ) -> dict[int, set[TopicPartition]]:
        found: dict[int, set[TopicPartition]] = {}
        for partition in waiting.left - waiting.sent:
            leader = leader_of(partition)
            if leader == DELETED:
                waiting.left.discard(partition)
            elif leader == NO_LEADER:
                waiting.not_before_ms = now_ms + RETRY_MS
            else:
                found.setdefault(leader, set()).add(partition)
        return found

    def answered(
        self,
        broker: int,
        request: Iterable[Sent],
        codes: Mapping[tuple[int, TopicPartition], int],
        now_ms: int,
    ) -> list[Outcome]:
        """The answer to a request of :meth:`to_send`: codes by producer id and partition; a request
        that failed has none. Returns the outcomes that are complete."""
        self._busy.discard(broker)
        complete: list[Outcome] = []
        for sent in request:
            waiting = self._waiting.get(sent.outcome.transactional_id)
            if waiting is None or waiting.outcome is not sent.outcome:
                continue  # dropped, and perhaps another outcome of the id has begun
            for partition in sent.partitions:
                code = codes.get((sent.outcome.producer_id, partition), -1)
                self._heard(waiting, partition, code, now_ms)
            complete.extend(self._complete(waiting))
        return complete

    def _heard(self, waiting: _Waiting, partition: TopicPartition, code: int, now_ms: int) -> None:
        waiting.sent.discard(partition)
        if code in _DONE:
            waiting.left.discard(partition)
        elif code in _GIVEN_UP:
            name = waiting.outcome.transactional_id
            if self._waiting.pop(name, None) is not None:
                self._given_up[name] = GivenUp(waiting.outcome, partition, code)
        else:
            waiting.not_before_ms = now_ms + RETRY_MS

    def _complete(self, waiting: _Waiting) -> Iterator[Outcome]:
        name = waiting.outcome.transactional_id
        if not waiting.left and self._waiting.get(name) is waiting:
            del self._waiting[name]
            yield waiting.outcome

    def next_ms(self, now_ms: int) -> int | None:
        """When the next pause ends, so that :meth:`to_send` has something; None without one. What
        waits for a broker that has a request under way is sent when that is answered."""
        pauses = [each.not_before_ms for each in self._waiting.values() if each.left - each.sent]
        return min((each for each in pauses if each > now_ms), default=None)

    def by_broker(self, leader_of: Callable[[TopicPartition], int]) -> dict[int, int]:
        """How many markers wait for each broker; -1: for a partition without a leader."""
        counts: dict[int, int] = {}
        for waiting in self._waiting.values():
            for partition in waiting.left:
                leader = leader_of(partition)
                counts[leader] = counts.get(leader, 0) + 1
        return counts
