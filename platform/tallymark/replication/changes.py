"""Changes as transactions, and what they make of a picture.

A change is written under the condition that the nodes still are what it was decided from. The same
condition, applied to a picture, gives what the nodes will hold if nothing else happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from tallymark.replication.model import Change, ChangeAssignment, PartitionView, Picture

MOST_STATES: Final = 500
"""State nodes in one transaction: below ZooKeeper's 1 MB even with the longest names."""


def batches(changes: Sequence[Change], most: int = MOST_STATES) -> Iterator[Sequence[Change]]:
    """The changes in their order, as many as fit into one transaction each."""
    for at in range(0, len(changes), most):
        yield changes[at : at + most]


def holds(change: Change, view: PartitionView) -> bool:
    """Whether the partition still is what the change was decided from."""
    if isinstance(change, ChangeAssignment) and change.before != view.assignment:
        return False
    return change.expected == view.state.version


def after(change: Change, view: PartitionView) -> PartitionView:
    """The partition after the change; as it is where the change does not hold."""
    if not holds(change, view):
        return view
    if change.state is not None:
        view = replace(view, state=replace(change.state, version=change.expected + 1))
    if isinstance(change, ChangeAssignment):
        view = replace(view, assignment=change.assignment)
    return view


def settled(changes: Iterable[Change], picture: Picture) -> Picture:
    """The picture after these changes. Those of partitions that are gone change nothing."""
    partitions = dict(picture.partitions)
    for change in changes:
        if change.partition in partitions:
            partitions[change.partition] = after(change, partitions[change.partition])
    return replace(picture, partitions=partitions)
