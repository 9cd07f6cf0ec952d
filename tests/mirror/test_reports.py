"""What a mirror reports of how far it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from tallymark.mirror.monitoring.reports import Reports
from tallymark.mirror.progress import Partition

OLD, NEW = "0d" * 16, "4e" * 16


class World:
    """Reports about partitions that are copied up to an offset. ``ids``: of the topics that the
    source knows; ``told``: what an observer was given."""

    def __init__(self) -> None:
        self.owned: set[Partition] = set()
        self.ids: dict[Partition, str] = {}
        self.passed: dict[Partition, int] = {}
        self.told: list[tuple[str, int, int, str]] = []
        source: Any = self
        copier: Any = SimpleNamespace(progress=SimpleNamespace(passed=self._passed))
        observers: Any = SimpleNamespace(on_passed=lambda *one: self.told.append(one))
        self.reports = Reports(observers, cast(Any, None), source, copier)

    def knows(self, partition: Partition) -> bool:
        return partition in self.ids

    def topic_id(self, partition: Partition) -> str:
        return self.ids[partition]

    def _passed(self, owned: set[Partition]) -> dict[Partition, int]:
        return {at: offset for at, offset in self.passed.items() if at in owned}


def test_an_offset_is_reported_with_the_topic_it_is_of() -> None:
    """A topic was deleted and made again while the target's broker was away. The mirror lost its
    session, gave up its partitions, and reported how far it was in the old topic without its id.
    The audit took that for the new one: messages that the mirror had not copied yet were LOSS, and
    then COMPLETE."""
    world = World()
    at = ("clicks", 0)
    world.owned, world.ids, world.passed = {at}, {at: OLD}, {at: 285}
    world.reports.passed()
    world.reports.released({at: 286})
    world.owned, world.ids = set(), {}
    world.reports.passed()
    world.owned = {at}
    world.reports.passed()
    world.ids, world.passed = {at: NEW}, {at: 7}
    world.reports.passed()
    assert world.told == [("clicks", 0, 285, OLD), ("clicks", 0, 286, OLD), ("clicks", 0, 7, NEW)]


def test_a_topic_without_an_id_is_reported_too() -> None:
    """Clusters older than Kafka 2.8 give topics no ids."""
    world = World()
    at = ("clicks", 0)
    world.owned, world.ids, world.passed = {at}, {at: ""}, {at: 3}
    world.reports.passed()
    assert world.told == [("clicks", 0, 3, "")]


def test_what_is_given_up_before_its_topic_is_known_is_not_reported() -> None:
    world = World()
    world.reports.released({("clicks", 0): 285})
    world.reports.passed()
    assert world.told == []
