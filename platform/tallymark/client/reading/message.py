"""What a consumer hands out: messages, and gaps in place of those it could not hand out."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Message(NamedTuple):
    """One message. ``timestamp`` is in milliseconds since the epoch, UTC (creation or append time,
    as the topic says); ``leader_epoch`` is that of the batch it came in."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int


class Gap(NamedTuple):
    """Offsets [``from_offset``, ``to_offset``) of a partition, about which something is wrong.

    * ``expired``: they were deleted before this group consumed them. Consumption goes on at
      ``to_offset`` (reset policy ``smallest``: the start of the log; ``largest``: its end).
    * ``truncated``: this group has consumed them, and the log was cut since: they are no longer
      there. Consumption goes on at ``from_offset``, where other messages may stand now; when only
      the end of the log shows the cut, it goes on where the reset policy says.
    """

    topic: str
    partition: int
    from_offset: int
    to_offset: int
    reason: Literal["expired", "truncated"]
