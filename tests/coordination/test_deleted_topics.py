"""The list of deleted topics: what is noted, and how it gets shorter."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from tallymark.coordination.session.errors import NoNodeError
from tallymark.coordination.session.nodes import Delete
from tallymark.coordination.topics.deleted import DeletedTopics, notes_of
from tallymark.coordination.topics.registry import TopicAssignment

NIL = uuid.UUID(int=0)


class Nodes:
    """The children of one node. ``gone``: listed a moment ago, deleted by somebody since."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)
        self.gone: set[str] = set()

    def ensure(self, path: str) -> None: ...

    def children(self, path: str) -> list[str]:
        return sorted(self.names)

    def commit(self, steps: Sequence[Delete]) -> None:
        doomed = {step.path.rpartition("/")[2] for step in steps}
        if doomed & self.gone:
            raise NoNodeError(steps[0].path)
        self.names -= doomed
        self.gone |= doomed


def listed(nodes: Nodes) -> DeletedTopics:
    zookeeper: Any = nodes
    return DeletedTopics(zookeeper, 1)


def test_topics_without_an_id_are_not_noted() -> None:
    """Topics that Apache Kafka before 2.8 made all have the nil id. The second of them could not be
    deleted while the note of the first was there, and by that note a broker that had been away
    would have deleted the logs of all others too."""
    old, new = (TopicAssignment("t", identity, {0: (1, 2)}) for identity in (NIL, uuid.uuid4()))
    assert notes_of(old) == []
    assert [note.path.rpartition("/")[2] for note in notes_of(new)] == [
        f"{broker}-{new.topic_id.hex}" for broker in (1, 2)
    ]
    assert listed(Nodes(f"1-{NIL.hex}", f"1-{new.topic_id.hex}")).here() == {new.topic_id}


def test_a_note_that_is_gone_does_not_keep_the_others() -> None:
    """Two runs of a broker forgot topics at the same time. One note was gone already, so the
    transaction failed and up to 499 others stayed in the list, until the next start."""
    topics = [uuid.uuid4() for _ in range(20)]
    nodes = Nodes(*(f"1-{each.hex}" for each in topics), f"2-{topics[0].hex}")
    nodes.gone = {f"1-{topics[7].hex}"}
    listed(nodes).forget(topics)
    assert nodes.names == {f"1-{topics[7].hex}", f"2-{topics[0].hex}"}
