"""A story of brokers that are killed while clients of all kinds are at work: who goes on, and
whether what they saw was right."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from checks import anomalies
from operations import Commit, Ended, Operation

from foreign_clients.flows.flow import Flow
from tallymark.client import Admin
from tallymark.errors import ConnectError, KafkaError, TimedOutError

T = TypeVar("T")
OFFSETS: Final = "__consumer_offsets"
MORE: Final = 10
"""How much further a client must be to have gone on."""
MUCH_MORE: Final = 120
"""With :data:`~foreign_clients.flows.flow.PAUSE` behind each: longer than metadata is kept, so that
clients know all brokers again before the next fault."""
SECONDS: Final = 420
"""For aiokafka, which is held twice by the longest of its timeouts, that of delivery: 120 s."""


def has_coordinator(admin: Admin) -> bool:
    """Whether groups have a coordinator; the topic of their offsets is made where it is missing."""
    try:
        return admin.group_offsets("nobody").check() == {}
    except (KafkaError, ConnectError, TimedOutError):
        return False


class Positions(threading.Thread):
    """Looks again and again at what the coordinators have stored for groups of one partition."""

    def __init__(self, servers: str, topics: Sequence[str]) -> None:
        super().__init__(name="positions", daemon=True)
        self.found: dict[str, list[int]] = {topic: [] for topic in topics}
        """Topic -> the positions of its group ``readers-of-TOPIC`` that were seen."""
        self._servers = servers
        self._enough = threading.Event()

    def run(self) -> None:
        with Admin(bootstrap_servers=self._servers) as admin:
            while not self._enough.wait(0.2):
                with contextlib.suppress(KafkaError, ConnectError, TimedOutError):
                    self._look(admin)

    def _look(self, admin: Admin) -> None:
        groups = {f"readers-of-{topic}": topic for topic in self.found}
        for group, places in admin.offsets_of_groups(groups).done.items():
            for (topic, _), stored in places.items():
                assert topic == groups[group]
                self.found[topic].append(stored.offset)

    def finish(self) -> None:
        """Look no more."""
        self._enough.set()
        self.join(SECONDS)


class Story:
    """Clients at work on a cluster, each with its own topic. What goes wrong with one of them is
    kept for its own test, and the others go on."""

    def __init__(self, servers: str, flows: Sequence[Flow]) -> None:
        self.flows = {flow.journal.name: flow for flow in flows}
        self.problems: dict[str, list[str]] = {name: [] for name in self.flows}
        self.positions = Positions(servers, [flow.journal.topic for flow in flows])

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """The clients begin; at the end they finish, whatever happened."""
        self.positions.start()
        for name, flow in self.flows.items():
            self._attempt(name, flow.start)
        try:
            yield
        finally:
            for name, flow in self.flows.items():
                self._attempt(name, flow.finish)
            self.positions.finish()

    def all_go_on(self, after: str, more: int = MORE) -> None:
        """Until each client sent, read and stored more than now; those that do not are noted."""
        targets = {name: tuple(mark + more for mark in self._marks(name)) for name in self.flows}
        deadline = time.monotonic() + SECONDS
        behind = set(targets)
        while behind and time.monotonic() < deadline:
            time.sleep(0.05)
            behind = {name for name in behind if not self._has_reached(name, targets[name])}
            behind -= {name for name, problems in self.problems.items() if problems}
        for name in behind:
            self.problems[name].append(f"{after}: {self._marks(name)} of {targets[name]}")

    def _marks(self, name: str) -> tuple[int, ...]:
        flow = self.flows[name]
        stored = self.positions.found[flow.journal.topic]
        return (*(self._attempt(name, flow.marks) or ()), stored[-1] if stored else 0)

    def _has_reached(self, name: str, target: tuple[int, ...]) -> bool:
        return all(now >= one for now, one in zip(self._marks(name), target, strict=False))

    def _attempt(self, name: str, do: Callable[[], T]) -> T | None:
        try:
            return do()
        except Exception as error:  # for the test of this client
            self.problems[name].append(f"{type(error).__name__}: {error}")
            return None


def findings(story: Story, *names: str) -> list[str]:
    """What was wrong with these clients (none: all): what they failed at, and what their histories
    must not show. A few lines for each."""
    return [
        f"{name}: {line}"
        for name in names or story.flows
        for some in _wrong(story, name)
        for line in some[:5]
    ]


def _wrong(story: Story, name: str) -> Iterator[Sequence[object]]:
    journal = story.flows[name].journal
    stored = [
        Operation("the coordinator", Ended.OK, (Commit(journal.topic, offset),))
        for offset in story.positions.found[journal.topic]
    ]
    yield story.problems[name]
    yield [f"failed: {one}" for one in journal.failed]
    yield anomalies([*journal.operations, *stored])
