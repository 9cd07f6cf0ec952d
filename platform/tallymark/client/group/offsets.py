"""A group's offsets with the brokers: OffsetCommit and OffsetFetch at its coordinator.

An offset is stored with the leader epoch of the record before it (KIP-320), and with a text of the
application's if it wants. What passes is tried again for the request timeout: a coordinator that
moves, that loads, a rebalance under way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tallymark.client.consuming.settings import ConsumerSettings
from tallymark.client.group.coordinator_connection import CoordinatorConnection
from tallymark.coordination.consumers.offsets import Position
from tallymark.errors import (
    CODES,
    TABLE,
    AuthenticationError,
    CommitFailedError,
    ConnectError,
    KafkaError,
    check,
)
from tallymark.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
)
from tallymark.protocol.topic_partition import TopicPartition

LOG: Final = logging.getLogger("tallymark.client.connector.connector")
_RETRY_SECONDS: Final = 0.1
_ILLEGAL_GENERATION: Final = CODES["ILLEGAL_GENERATION"]
_GONE_ON: Final = frozenset(
    CODES[name] for name in ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID")
)
_MOVED: Final = frozenset({CODES["NOT_COORDINATOR"], CODES["COORDINATOR_NOT_AVAILABLE"]})
_REBALANCE: Final = CODES["REBALANCE_IN_PROGRESS"]


class Term(NamedTuple):
    """The member that commits. ``joining``: it is on its way into another generation. ``owned``:
    what has not been given up to others."""

    member_id: str = ""
    generation: int = -1
    joining: bool = False
    owned: Collection[TopicPartition] = frozenset()

    def is_of(self, other: Term) -> bool:
        """Whether it is the same membership in the same generation."""
        return (self.member_id, self.generation) == (other.member_id, other.generation)


def lost_since(first: Term, now: Term, places: Iterable[TopicPartition]) -> set[TopicPartition]:
    """Which of ``places``, owned in the first term, must not be stored any more. The coordinator
    looks at the generation only: in a later one it would let us undo what the new owner of a
    partition has stored."""
    return set() if now.is_of(first) else set(places) - set(now.owned)


class BrokerOffsets:
    """The store of groups that coordinate through the brokers. ``term`` is kept up to date by the
    coordination; ``why_slow`` returns how long the application has been at work, for errors."""

    def __init__(self, connection: CoordinatorConnection, settings: ConsumerSettings) -> None:
        self.term = Term()
        self.why_slow: Callable[[], str] = str
        self._connection = connection
        self._settings = settings

    def read(
        self, partitions: Sequence[TopicPartition], session: int
    ) -> dict[TopicPartition, Position]:
        """The stored positions; partitions without one are left out. From any thread but the
        loop's."""
        return self._connection.run(
            self._read(partitions), f"offsets of group {self._connection.group}"
        )

    def commit(self, positions: Mapping[TopicPartition, Position], metadata: str) -> None:
        """Store positions. From any thread but the loop's.

        Raises CommitFailedError when the group went on without us; KafkaError, ConnectError when
        it could not be done within the request timeout.
        """
        work = self._commit(positions, metadata)
        self._connection.run(work, f"commit of group {self._connection.group}")

    # -- in the loop --------------------------------------------------------------------------

    async def _read(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Position]:
        topics = [
            OffsetFetchRequestTopic(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic(partitions).items()
        ]
        found: dict[TopicPartition, Position] = {}

        async def attempt() -> None:
            answer = await self._connection.ask(
                lambda version: self._fetch_request(topics, version), OffsetFetchRequest, 9
            )
            for topic in _topics_of(answer):
                for part in topic.partitions:
                    check(part.error_code, f"offset of {topic.name}-{part.partition_index}")
                    if part.committed_offset >= 0:
                        found[topic.name, part.partition_index] = Position(
                            part.committed_offset, part.committed_leader_epoch
                        )

        await self._insist(attempt)
        return found

    def _fetch_request(
        self, topics: Sequence[OffsetFetchRequestTopic], version: int
    ) -> OffsetFetchRequest:
        if version >= 8:
            group = OffsetFetchRequestGroup(group_id=self._connection.group, topics=topics)
            return OffsetFetchRequest(groups=(group,), require_stable=True)
        return OffsetFetchRequest(
            group_id=self._connection.group, topics=topics, require_stable=version >= 7
        )

    async def _commit(self, positions: Mapping[TopicPartition, Position], metadata: str) -> None:
        first = self.term

        async def attempt() -> None:
            term = self.term
            lost = lost_since(first, term, positions)
            ours = {place: at for place, at in positions.items() if place not in lost}
            if ours:
                request = self._commit_request(ours, metadata, term)
                answer = await self._connection.ask(lambda _: request, OffsetCommitRequest, 9)
                for topic in answer.topics:
                    for part in topic.partitions:
                        self._judge(topic.name, part.partition_index, part.error_code, term)
            if lost:
                raise self._too_late(min(lost), _ILLEGAL_GENERATION, first)

        await self._insist(attempt)

    def _commit_request(
        self, positions: Mapping[TopicPartition, Position], metadata: str, term: Term
    ) -> OffsetCommitRequest:
        return OffsetCommitRequest(
            group_id=self._connection.group,
            generation_id_or_member_epoch=term.generation,
            member_id=term.member_id,
            group_instance_id=self._settings.group_instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=positions[topic, number].offset,
                            committed_leader_epoch=positions[topic, number].epoch,
                            committed_metadata=metadata,
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(positions).items()
            ],
        )

    def _judge(self, topic: str, partition: int, code: int, term: Term) -> None:
        """One partition's answer: nothing, what passes, or what does not."""
        if code == CODES["UNKNOWN_TOPIC_OR_PARTITION"]:
            LOG.warning("the offset of %s-%d is not stored: it is no more", topic, partition)
            return
        if code not in _GONE_ON:
            check(code, f"commit of {topic}-{partition}")
            return
        if self.term.joining or not self.term.is_of(term):
            raise KafkaError(_REBALANCE, f"commit of {topic}-{partition}")
        raise self._too_late((topic, partition), code, term)

    def _too_late(self, place: TopicPartition, code: int, term: Term) -> CommitFailedError:
        slow = self.why_slow()
        return CommitFailedError(
            code,
            f"the offset of {place[0]}-{place[1]} was not stored: "
            f"group {self._connection.group} went on "
            f"without generation {term.generation} of this consumer"
            + (f" ({slow})" if slow else ""),
        )

    async def _insist(self, attempt: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Try until it is done, or cannot be, or the request timeout is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._connection.request_timeout
        while True:
            try:
                return await attempt()
            except AuthenticationError:
                raise
            except ConnectError:
                self._connection.forget_coordinator()
                if loop.time() + _RETRY_SECONDS > deadline:
                    raise
            except KafkaError as error:
                if error.code in _MOVED or TABLE[error.code].fault == "network":
                    self._connection.forget_coordinator()
                late = loop.time() + _RETRY_SECONDS > deadline
                if late and error.code == _REBALANCE:
                    raise CommitFailedError(error.code, error.context) from error
                if late or not (error.retriable or error.code == _REBALANCE):
                    raise
            await asyncio.sleep(_RETRY_SECONDS)


def by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Topic to partitions, in order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        topics.setdefault(topic, []).append(partition)
    return topics


def _topics_of(answer: OffsetFetchResponse) -> Sequence[OffsetFetchResponseTopic]:
    check(answer.error_code, "offsets of the group")
    if not answer.groups:
        return answer.topics
    (group,) = answer.groups
    check(group.error_code, f"offsets of group {group.group_id}")
    return group.topics
