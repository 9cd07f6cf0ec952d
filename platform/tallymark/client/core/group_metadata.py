"""A group and the member of it that has read something: what a transaction is told with its
positions (KIP-447)."""

from __future__ import annotations

from typing import NamedTuple


class GroupMetadata(NamedTuple):
    """A group and the member of it that reads: with generation and member id the group's
    coordinator refuses offsets of a member that is no longer one. The defaults name no member,
    and nothing is checked."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
