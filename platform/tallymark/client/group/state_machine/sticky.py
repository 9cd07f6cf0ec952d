"""The division that moves the least: even first, then as it was. Pure.

*Even*: no partition can go from a member to one that reads its topic and has fewer by two or more.
Where all read the same topics that makes shares differ by one at most, and no division that is as
even moves fewer partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tallymark.protocol.topic_partition import TopicPartition


def hand_out(
    topics: Mapping[str, Sequence[str]],
    owned: Mapping[TopicPartition, str],
    partitions: Sequence[TopicPartition],
) -> dict[str, list[TopicPartition]]:
    """``topics``: member -> what it reads, in the order in which ties are decided; ``owned``:
    partition -> member that reads it now. Every partition that a member wants goes to one member;
    shares are sorted."""
    rank = {member: index for index, member in enumerate(topics)}
    readers: dict[str, list[str]] = {}
    for member, names in topics.items():
        for name in dict.fromkeys(names):
            readers.setdefault(name, []).append(member)
    shares: dict[str, set[TopicPartition]] = {member: set() for member in topics}
    for place, member in owned.items():
        shares[member].add(place)
    loose = [place for place in partitions if place not in owned and place[0] in readers]
    # Those with the fewest takers first: they have the least choice.
    for place in sorted(loose, key=lambda place: (len(readers[place[0]]), place)):
        shares[_emptiest(readers[place[0]], shares, rank)].add(place)
    _even_out(shares, readers, rank)
    return {member: sorted(share) for member, share in shares.items()}


def give_up_first(
    division: Mapping[str, Sequence[TopicPartition]], owned: Mapping[TopicPartition, str]
) -> dict[str, list[TopicPartition]]:
    """The division without what goes from one member to another: it is handed on when its owner
    has given it up (KIP-429)."""
    return {
        member: [place for place in share if owned.get(place, member) == member]
        for member, share in division.items()
    }


def _even_out(
    shares: Mapping[str, set[TopicPartition]],
    readers: Mapping[str, Sequence[str]],
    rank: Mapping[str, int],
) -> None:
    """Move partitions, one by one, from the fullest member that can give one to a member that has
    fewer by two or more. It ends: each move lowers the sum of the squares of the sizes. Always from
    the fullest: what is moved to even out two members may have to be moved again for a third."""

    def fullest_first() -> list[str]:
        return sorted(shares, key=lambda member: (-len(shares[member]), rank[member]))

    while any(_give_one(member, shares, readers, rank) for member in fullest_first()):
        pass


def _give_one(
    member: str,
    shares: Mapping[str, set[TopicPartition]],
    readers: Mapping[str, Sequence[str]],
    rank: Mapping[str, int],
) -> bool:
    # By topic: partitions of one topic have the same takers. The last one goes, so that neighbours
    # stay together.
    for topic in sorted({topic for topic, _ in shares[member]}, reverse=True):
        taker = _emptiest(readers[topic], shares, rank)
        if len(shares[taker]) + 1 < len(shares[member]):
            place = max(place for place in shares[member] if place[0] == topic)
            shares[member].remove(place)
            shares[taker].add(place)
            return True
    return False


def _emptiest(
    members: Sequence[str], shares: Mapping[str, set[TopicPartition]], rank: Mapping[str, int]
) -> str:
    return min(members, key=lambda member: (len(shares[member]), rank[member]))
