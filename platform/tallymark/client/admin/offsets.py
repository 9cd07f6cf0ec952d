"""Offsets: in logs (ends, times), and of groups (read, set, reset and delete them)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeGuard

from tallymark.client.admin.base import AdminBase
from tallymark.client.admin.reset import LogFacts, OffsetReset, OffsetTarget, decide_all
from tallymark.client.admin.results import Outcomes, Results, V, by_topic, refusal
from tallymark.client.admin.routes import ask_at_most
from tallymark.client.reading.isolation import Isolation, isolation_level
from tallymark.errors import KafkaError, TallymarkError
from tallymark.net.addresses import Address
from tallymark.protocol import messages
from tallymark.protocol.topic_partition import EARLIEST, LATEST, TopicPartition

_BY_NAME: Final = 9
"""The last version of OffsetCommit and OffsetFetch that names topics by their names."""
_WITH_GROUPS: Final = 8
"""The first version of OffsetFetch that names many groups."""
_GROUPS_AT_ONCE: Final = 200
_OF_GROUP: Final = frozenset({14, 15, 16})
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: errors of the whole
group, though responses repeat them for each partition."""

_Asking: TypeAlias = Callable[[Address], Awaitable[Outcomes[TopicPartition, V]]]


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """A position in a log. ``offset`` is None when no record is so late. ``timestamp`` (ms) and
    ``leader_epoch`` are those of the record there, -1 where there is none or the broker does not
    report them."""

    offset: int | None
    timestamp: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """The next offset that a group reads; ``leader_epoch`` of the record before it, or -1."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class OffsetAdmin(AdminBase):
    """The methods of Admin for offsets."""

    def list_offsets(
        self, times: Mapping[TopicPartition, int], *, isolation: Isolation = "read_uncommitted"
    ) -> Results[TopicPartition, ListedOffset]:
        """Per partition: EARLIEST (-2), LATEST (-1), -3 (the record with the largest timestamp), or
        the first record at or after a time in milliseconds."""
        level = isolation_level(isolation)

        async def ask(
            address: Address, mine: list[TopicPartition]
        ) -> Outcomes[TopicPartition, ListedOffset]:
            topics = by_topic({partition: times[partition] for partition in mine})
            request = messages.ListOffsetsRequest(
                isolation_level=level,
                topics=tuple(_looked_up(name, parts) for name, parts in topics.items()),
                timeout_ms=int(self._timeout * 1000),
            )
            response = await self._cluster.ask(address, request)
            return {
                (topic.name, part.partition_index): refusal(
                    part.error_code, f"{topic.name}-{part.partition_index}"
                )
                if part.error_code
                else ListedOffset(
                    None if part.offset < 0 else part.offset, part.timestamp, part.leader_epoch
                )
                for topic in response.topics
                for part in topic.partitions
            }

        return self._of_leaders(times, ask, "listing offsets")

    def group_offsets(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> Results[TopicPartition, GroupOffset]:
        """The offsets of the group, of ``partitions`` or of all it has an offset for; partitions
        without one are left out. Raises KafkaError for the group as a whole."""
        wanted = None if partitions is None else list(partitions)
        found = self._of_coordinator(
            group,
            lambda address: self._fetch_offsets(address, group, wanted),
            "reading group offsets",
        )
        return Results.of(found)

    def offsets_of_groups(
        self, groups: Iterable[str]
    ) -> Results[str, Mapping[TopicPartition, GroupOffset]]:
        """All offsets of each group, many groups in one request where brokers serve that (KIP-709).
        Partitions whose offset the coordinator refuses are left out."""

        async def ask(
            address: Address, names: list[str]
        ) -> Outcomes[str, Mapping[TopicPartition, GroupOffset]]:
            stream = await self._cluster.connections.get(address)
            size = (
                _GROUPS_AT_ONCE
                if stream.version_of(messages.OffsetFetchRequest, _BY_NAME) >= _WITH_GROUPS
                else 1
            )
            found: Outcomes[str, Mapping[TopicPartition, GroupOffset]] = {}
            for first in range(0, len(names), size):
                found |= await self._offsets_at(address, names[first : first + size])
            return found

        return self._of_coordinators(groups, ask, "reading the offsets of groups")

    def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | GroupOffset]
    ) -> Results[TopicPartition, None]:
        """Set the offsets from which the group continues. It must have no members (KafkaError
        UNKNOWN_MEMBER_ID)."""

        async def commit(address: Address) -> Outcomes[TopicPartition, None]:
            topics = by_topic(offsets)
            request = messages.OffsetCommitRequest(
                group_id=group,
                topics=tuple(_committed(name, parts) for name, parts in topics.items()),
            )
            response = await ask_at_most(self._cluster, address, request, _BY_NAME)
            return _outcomes(group, response.topics)

        return Results.of(self._of_coordinator(group, commit, "setting group offsets"))

    def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> Results[TopicPartition, None]:
        """Delete the offsets of the group. No member may be subscribed to the topics."""
        wanted = list(partitions)

        async def delete(address: Address) -> Outcomes[TopicPartition, None]:
            topics = by_topic(dict.fromkeys(wanted))
            request = messages.OffsetDeleteRequest(
                group_id=group,
                topics=tuple(
                    messages.OffsetDeleteRequestTopic(
                        name=name,
                        partitions=tuple(
                            messages.OffsetDeleteRequestPartition(partition_index=part)
                            for part in parts
                        ),
                    )
                    for name, parts in topics.items()
                ),
            )
            response = await self._cluster.ask(address, request)
            if response.error_code:
                raise KafkaError(response.error_code, f"group {group}")
            return _outcomes(group, response.topics)

        return Results.of(self._of_coordinator(group, delete, "deleting group offsets"))

    def plan_reset(
        self,
        partitions: Iterable[TopicPartition],
        target: OffsetTarget | Mapping[TopicPartition, int],
        current: Mapping[TopicPartition, int],
    ) -> Results[TopicPartition, OffsetReset]:
        """The offsets from which a group at ``current`` would continue; changes nothing."""
        wanted = list(dict.fromkeys(partitions))
        starts = self.list_offsets(dict.fromkeys(wanted, EARLIEST))
        ends = self.list_offsets(dict.fromkeys(starts.done, LATEST))
        times: Results[TopicPartition, ListedOffset] = Results()
        if isinstance(target, OffsetTarget) and target.kind == "time":
            times = self.list_offsets(dict.fromkeys(ends.done, target.value))
        errors: dict[TopicPartition, TallymarkError] = {
            **starts.errors,
            **ends.errors,
            **times.errors,
        }
        facts = {
            at: LogFacts(
                starts[at].offset or 0,
                ends[at].offset or 0,
                times[at].offset if at in times.done else None,
                current.get(at),
            )
            for at in wanted
            if at not in errors
        }
        return Results.of({**decide_all(target, facts), **errors})

    def reset_group_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition],
        target: OffsetTarget | Mapping[TopicPartition, int],
        *,
        dry_run: bool = False,
    ) -> Results[TopicPartition, OffsetReset]:
        """Set the offsets of the group to ``target`` (:mod:`.reset`); ``dry_run`` only returns
        them. The group must have no members."""
        wanted = list(dict.fromkeys(partitions))
        current = {at: one.offset for at, one in self.group_offsets(group, wanted).check().items()}
        plan = self.plan_reset(wanted, target, current)
        if dry_run or not plan.done:
            return plan
        stored = self.alter_group_offsets(group, {at: one.after for at, one in plan.done.items()})
        done = {at: one for at, one in plan.done.items() if at in stored.done}
        return Results(done, {**plan.errors, **stored.errors})

    async def _fetch_offsets(
        self, address: Address, group: str, wanted: list[TopicPartition] | None
    ) -> Outcomes[TopicPartition, GroupOffset]:
        topics = (
            None
            if wanted is None
            else tuple(
                messages.OffsetFetchRequestTopic(name=name, partition_indexes=tuple(parts))
                for name, parts in by_topic(dict.fromkeys(wanted)).items()
            )
        )
        request = messages.OffsetFetchRequest(
            group_id=group,
            topics=topics,
            groups=(messages.OffsetFetchRequestGroup(group_id=group, topics=topics),),
        )
        response = await ask_at_most(self._cluster, address, request, _BY_NAME)
        answer = response.groups[0] if response.groups else response
        if answer.error_code:
            raise KafkaError(answer.error_code, f"group {group}")
        return {
            (topic.name, part.partition_index): refusal(
                part.error_code, f"group {group}, {topic.name}-{part.partition_index}"
            )
            if part.error_code
            else _kept(part)
            for topic in answer.topics
            for part in topic.partitions
            if part.error_code or part.committed_offset >= 0
        }

    async def _offsets_at(
        self, address: Address, names: Sequence[str]
    ) -> Outcomes[str, Mapping[TopicPartition, GroupOffset]]:
        request = messages.OffsetFetchRequest(
            group_id=names[0],
            topics=None,
            groups=tuple(
                messages.OffsetFetchRequestGroup(group_id=name, topics=None) for name in names
            ),
        )
        response = await ask_at_most(self._cluster, address, request, _BY_NAME)
        answers: dict[str, messages.OffsetFetchResponse | messages.OffsetFetchResponseGroup] = {
            one.group_id: one for one in response.groups
        }
        answers = answers or {names[0]: response}
        return {
            name: refusal(answer.error_code, f"group {name}")
            if answer.error_code
            else {
                (topic.name, part.partition_index): _kept(part)
                for topic in answer.topics
                for part in topic.partitions
                if not part.error_code and part.committed_offset >= 0
            }
            for name, answer in answers.items()
        }

    def _of_coordinator(
        self, group: str, ask: _Asking[V], what: str
    ) -> Outcomes[TopicPartition, V]:
        """What the group's coordinator returns; raises the error for the group as a whole."""

        async def one(
            address: Address, groups: list[str]
        ) -> Outcomes[str, Outcomes[TopicPartition, V]]:
            outcomes = await ask(address)
            passing = [one for one in outcomes.values() if _is_of_group(one)]
            return {group: passing[0] if passing else outcomes}

        return self._of_coordinators([group], one, what)[group]


def _kept(part: messages.OffsetFetchResponsePartition) -> GroupOffset:
    return GroupOffset(part.committed_offset, part.committed_leader_epoch, part.metadata or "")


def _is_of_group(outcome: object) -> TypeGuard[KafkaError]:
    return isinstance(outcome, KafkaError) and outcome.code in _OF_GROUP


def _outcomes(
    group: str,
    topics: Iterable[messages.OffsetCommitResponseTopic | messages.OffsetDeleteResponseTopic],
) -> Outcomes[TopicPartition, None]:
    found: Outcomes[TopicPartition, None] = {}
    for topic in topics:
        for part in topic.partitions:
            at = topic.name, part.partition_index
            context = f"group {group}, {topic.name}-{part.partition_index}"
            found[at] = refusal(part.error_code, context) if part.error_code else None
    return found


def _looked_up(name: str, parts: Mapping[int, int]) -> messages.ListOffsetsRequestTopic:
    return messages.ListOffsetsRequestTopic(
        name=name,
        partitions=tuple(
            messages.ListOffsetsRequestPartition(partition_index=part, timestamp=time)
            for part, time in parts.items()
        ),
    )


def _committed(
    name: str, parts: Mapping[int, int | GroupOffset]
) -> messages.OffsetCommitRequestTopic:
    return messages.OffsetCommitRequestTopic(
        name=name,
        partitions=tuple(
            messages.OffsetCommitRequestPartition(
                partition_index=part,
                committed_offset=one.offset,
                committed_leader_epoch=one.leader_epoch,
                committed_metadata=one.metadata,
            )
            for part, one in (
                (part, GroupOffset(one) if isinstance(one, int) else one)
                for part, one in parts.items()
            )
        ),
    )
