"""What must hold in a simulated group at every step; each function is an invariant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tallymark.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from group_member import Member
    from group_world import World


def check(world: World) -> None:
    """Those that any step could break; commits have theirs."""
    no_two_hold_a_partition(world)
    nobody_skips(world)


def no_two_hold_a_partition(world: World) -> None:
    """Nobody hands out of a partition that another one hands out of: between its assignment in a
    generation and its revocation, its loss, or the pause of a member that hears nothing."""
    holders: dict[TopicPartition, str] = {}
    for member in world.living:
        for place in member.holding:
            holder = holders.setdefault(place, member.name)
            assert holder == member.name, f"{place} is held by {holder} and by {member.name}"


def nobody_skips(world: World) -> None:
    """Nobody stands behind a message that nobody was handed."""
    for member in world.living:
        for place in member.holding:
            at = member.positions[place]
            assert at <= world.delivered[place], f"{member.name} skips to {at} of {place}"


def nothing_is_stored_ahead(world: World, stored: Iterable[TopicPartition]) -> None:
    """At least once: no offset is stored of what was not handed out."""
    for place in stored:
        at = world.stored(place)
        assert at <= world.delivered[place], f"{at} of {place} is stored too early"


def nobody_stores_what_another_holds(
    world: World, member: Member, stored: Iterable[TopicPartition]
) -> None:
    """Whoever has given a partition up does not undo what its next owner has stored, or is about
    to read."""
    generation = world.coordinator.group.generation
    for other in world.living:
        if other is not member and other.state.generation == generation:
            taken = other.state.target & set(stored)
            assert not taken, f"{member.name} stores the offset of {taken}, which {other.name} has"
