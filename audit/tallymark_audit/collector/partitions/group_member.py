"""A collector as a member of the consumer group that shares the partitions of its cluster."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from tallymark.client.core.security.deployment import ConnectionSettings
from tallymark.client.group.membership import GroupMembership
from tallymark.errors import TallymarkError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.model.edges import AUDIT_TOPIC, is_audited


def group_of(cluster: str) -> str:
    """The group's name; the cluster's access lists must allow it."""
    return f"tallymark-audit-{cluster}"


class GroupMember:
    """The :class:`~.sharing.Sharing` of several collectors. ``topics``: a regular expression, what
    is audited."""

    alone = False

    def __init__(
        self, connection: ConnectionSettings, cluster: str, topics: str, session_ms: int
    ) -> None:
        self._membership = GroupMembership(
            group_of(cluster),
            lambda name: name == AUDIT_TOPIC or is_audited(name, topics),
            client_id=f"tallymark-audit-{cluster}",
            session_timeout_ms=session_ms,
            **connection,
        )

    def part_of(self, known: Collection[TopicPartition]) -> Collection[TopicPartition] | None:
        """What the group gave it; everything while it has no other member, new topics at once."""
        member = self._membership
        if member.sole:
            return known
        return None if member.part is None else member.part & set(known)

    def close(self) -> None:
        """Leave the group."""
        with suppress(TallymarkError):
            self._membership.close()
