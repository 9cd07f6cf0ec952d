"""Groups that brokers keep: listed with their states in each look, described and asked for their
offsets in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from tallymark.client.admin.admin import Admin
from tallymark.client.admin.groups import GroupDescription, GroupListing
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_dashboards.snapshots.group_book import MAX_GROUPS, MAX_PARTITIONS, Seen
from tallymark_dashboards.snapshots.rhythm import Turns

_A_LOOK: Final = 2_000
"""Groups that are asked for in one look; then in turns."""
_AT_ONCE: Final = 200


class BrokerGroups:
    """The groups of one cluster as they were found last."""

    def __init__(self) -> None:
        self.seen: dict[str, Seen] = {}
        self.left_out = ""
        self.unlisted = ""
        """Brokers that did not list theirs, and why; "": all have."""
        self._turns = Turns(_A_LOOK)

    def read(self, admin: Admin, now: Callable[[], int], breathe: Callable[[], None]) -> None:
        """One look. Raises what the listing raises; the error of one group is in what was seen of
        it."""
        listed = admin.list_groups()
        self.unlisted = "; ".join(f"broker {id}: {error}" for id, error in listed.errors.items())
        names = sorted(listed.groups)
        kept = names[:MAX_GROUPS]
        left_out = [f"{len(names) - len(kept):,} groups"] if len(names) > len(kept) else []
        if not listed.errors:  # those of a broker that is away are still there
            there = set(kept)
            self.seen = {name: one for name, one in self.seen.items() if name in there}
        for name in kept:
            self._list(listed.groups[name])
        wanted, cut = self._turns.take(kept), False
        for first in range(0, len(wanted), _AT_ONCE):
            if self._ask(admin, wanted[first : first + _AT_ONCE], now) and not cut:
                cut = True
                left_out.append(f"partitions beyond the first {MAX_PARTITIONS:,} of all groups")
            breathe()
        self.left_out = ", ".join(left_out)

    def _list(self, listing: GroupListing) -> None:
        """Note a group that is new, and the state of one whose turn comes later."""
        old = self.seen.get(listing.group)
        if old is not None:
            if listing.state and listing.state != old.described.state:
                described = replace(old.described, state=listing.state)
                self.seen[listing.group] = old._replace(described=described)
        else:
            described = GroupDescription(
                listing.group,
                listing.state,
                listing.protocol_type,
                coordinator=listing.coordinator,
            )
            self.seen[listing.group] = Seen("brokers", described, {}, 0)

    def _ask(self, admin: Admin, names: list[str], now: Callable[[], int]) -> bool:
        """Whether partitions had to be left out."""
        cut = False
        described = admin.describe_groups(names)
        offsets = admin.offsets_of_groups(names)
        room = MAX_PARTITIONS - sum(len(one.offsets) for one in self.seen.values())
        for name in names:
            old = self.seen[name]
            error = offsets.errors.get(name)
            if error is not None:
                self.seen[name] = old._replace(error=str(error))
                continue
            found = {at: one.offset for at, one in offsets.done[name].items()}
            room += len(old.offsets)
            room -= len(found)
            if room < 0:
                cut = True
                found = _first(found, max(0, len(found) + room))
                room = 0
            group = described.done.get(name, old.described)
            self.seen[name] = Seen("brokers", group, found, now())
        return cut


def _first(offsets: Mapping[TopicPartition, int], most: int) -> dict[TopicPartition, int]:
    return {at: offsets[at] for at in sorted(offsets)[:most]}
