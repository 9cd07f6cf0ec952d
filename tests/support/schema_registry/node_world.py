"""Several nodes of the registry on one store, without threads and without waiting: everything that
happens is chosen by a seed.

A step is one of: a client asks a node something, a thread of a node goes on, callbacks run, time
passes, a commit is lost, a node cannot reach the store, a node ends at any moment and another one
takes its place.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from memory_store import Database, MemoryStore
from virtual_loop import StepThreads, VirtualLoop

from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.catalog.records import SchemaAdded, VersionAdded
from tallymark_schema_registry.catalog.subject import DEFAULT_CONTEXT, GLOBAL, Subject
from tallymark_schema_registry.decisions import lists, scope
from tallymark_schema_registry.decisions.commands import Sent, VersionView
from tallymark_schema_registry.errors import RegistryError
from tallymark_schema_registry.node.registry import Registry

SUBJECTS: Final = [Subject(DEFAULT_CONTEXT, "a"), Subject(DEFAULT_CONTEXT, "b"), Subject(".c", "a")]
PLACES: Final = [*SUBJECTS, Subject(DEFAULT_CONTEXT, ""), Subject(".c", ""), GLOBAL]
TEXTS: Final = ['"int"', '"long"', '"string"', '"bytes"', '"float"']


@dataclass
class Asked:
    """One request: the numbers of the store's last change when it came and when it was answered."""

    what: str
    place: Subject
    by: str
    first: int
    last: int = -1
    answer: Any = None
    error: RegistryError | None = None
    from_memory: bool = False


class Node:
    """One process."""

    def __init__(self, world: World, number: int) -> None:
        self.number = number
        self.store = MemoryStore(world.database, world.random.random() < 0.5)
        self.threads: list[StepThreads] = []
        self.registry = Registry(self.store, world.now_ms, self._threads)
        self.starting = asyncio.ensure_future(self.registry.start())
        self.requests: dict[asyncio.Future[None], Asked] = {}

    def _threads(self, _count: int, _name: str) -> StepThreads:
        self.threads.append(StepThreads())
        return self.threads[-1]

    @property
    def jobs(self) -> list[tuple[StepThreads, int]]:
        return [(threads, n) for threads in self.threads for n in range(len(threads.jobs))]


class World:
    """``check`` looks at what must hold after every step, ``end`` at what must hold afterwards."""

    def __init__(self, seed: int, nodes: int = 3) -> None:
        self.random = random.Random(seed)
        self.database = Database()
        self.past: list[Catalog] = [Catalog()]
        self.asked: list[Asked] = []
        self.nodes = [Node(self, number) for number in range(nodes)]
        self.known: dict[tuple[str, int], str] = {}
        self.faults: list[BaseException | None] = []

    def now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    async def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
            await asyncio.sleep(0)
            self.check()
        await self.end()

    # --- what may happen

    def step(self) -> None:
        pick = self.random
        chance = pick.random()
        if chance < 0.05:
            for node in self.nodes:
                node.store.is_down = node.store.is_down and pick.random() < 0.5
        node = self.random.choice(self.nodes)
        if chance < 0.30:
            if node.starting.done() and len(node.requests) < 8:
                self._ask(node)
        elif chance < 0.90:
            self._go_on()
        elif chance < 0.94:
            self._pass_time(self.random.choice((0.01, 0.1, 0.3)))
        elif chance < 0.97:
            node.store.fault = self.random.choice(("before", "lost", "stored", "late"))
        elif chance < 0.985:
            # Away for some 30 steps.
            node.store.is_down = node.starting.done() and pick.random() < 0.1
        else:
            self._restart(node)

    def _go_on(self) -> None:
        jobs = [job for node in self.nodes for job in node.jobs]
        if jobs:
            threads, number = self.random.choice(jobs)
            threads.step(number)

    def _pass_time(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.now += seconds

    def _restart(self, node: Node) -> None:
        """As kill -9: what its threads have begun may still be written, nobody is told."""
        for task in (node.starting, *node.requests, *_tasks(node.registry)):
            task.cancel()
        node.store.end()
        self.nodes[self.nodes.index(node)] = Node(self, node.number)

    def _ask(self, node: Node) -> None:
        by = f"request {len(self.asked)}"
        what, place, awaitable = self._request(node.registry, by)
        asked = Asked(what, place, by, len(self.database.changes))
        self.asked.append(asked)
        request = asyncio.ensure_future(self._answered(node, asked, awaitable))
        node.requests[request] = asked
        request.add_done_callback(lambda _: self._ended(node, request))

    def _ended(self, node: Node, request: asyncio.Future[None]) -> None:
        del node.requests[request]
        if not request.cancelled() and request.exception() is not None:
            self.faults.append(request.exception())

    def _request(self, registry: Registry, by: str) -> tuple[str, Subject, Awaitable[Any]]:
        pick = self.random
        subject, place = pick.choice(SUBJECTS), pick.choice(PLACES)
        text, mode = pick.choice(TEXTS), pick.choice(("READONLY", "READWRITE"))
        spec = pick.choice(("latest", "1", "2", "3"))
        level = {"compatibility": pick.choice(("NONE", "NONE", "FULL"))}
        permanent = pick.random() < 0.5
        requests: list[tuple[int, str, Subject, Callable[[], Awaitable[Any]]]] = [
            (8, f"register {text}", subject, lambda: registry.register(subject, Sent(text), by=by)),
            (4, "latest", subject, lambda: registry.version(subject, "latest")),
            (2, "versions", subject, lambda: registry.versions(subject)),
            (2, f"look up {text}", subject, lambda: registry.look_up(subject, Sent(text))),
            (2, "mode", place, lambda: registry.mode(place, default_to_global=True)),
            (
                2,
                "delete version",
                subject,
                lambda: registry.delete_version(subject, spec, permanent=permanent, by=by),
            ),
            (
                1,
                "delete subject",
                subject,
                lambda: registry.delete_subject(subject, permanent=permanent, by=by),
            ),
            (1, "restore", subject, lambda: registry.restore(subject, spec, by=by)),
            (1, f"set mode {mode}", place, lambda: registry.set_mode(place, mode, by=by)),
            (2, "delete mode", place, lambda: registry.delete_mode(place, by=by)),
            (1, "set level", place, lambda: registry.set_config(place, level, by=by)),
        ]
        weights = [weight for weight, *_ in requests]
        _, what, place, call = pick.choices(requests, weights)[0]
        return what, place, call()

    async def _answered(self, node: Node, asked: Asked, awaitable: Awaitable[Any]) -> None:
        try:
            asked.answer = await awaitable
        except RegistryError as error:
            asked.error = error
        asked.last = len(self.database.changes)
        asked.from_memory |= node.registry.replica.is_down
        self._check_answer(asked)

    # --- what must hold

    def check(self) -> None:
        """After every step: what is new in the store, and what was answered."""
        for fault in self.faults:
            assert fault is None, fault
        while len(self.past) <= len(self.database.changes):
            before = self.past[-1]
            change = self.database.changes[before.number]
            self._check_change(before, change.record)
            after = copy.deepcopy(before)
            after.apply(change.number, change.record)
            self.past.append(after)
        for node in self.nodes:
            if node.starting.done() and not node.starting.cancelled():
                node.starting.result()
                for asked in node.requests.values():
                    asked.from_memory |= node.registry.replica.is_down
                assert node.registry.catalog.number <= len(self.database.changes)

    def _check_change(self, before: Catalog, record: object) -> None:
        if isinstance(record, SchemaAdded):
            place = record.context, record.schema_id
            assert place not in self.known, "an id was given twice"
            assert record.schema_id == before.context(record.context).last_id + 1
            assert not before.ids_of(record.context, record.md5), "two ids for one content"
            self.known[place] = self.database.held[place]
        elif isinstance(record, VersionAdded):
            subject = Subject(record.context, record.subject)
            there = before.context(record.context).subjects.get(record.subject)
            assert record.version == (there.last_version if there else 0) + 1
            assert not scope.mode_in_scope(before, subject).read_only, "written in READONLY"

    def _check_answer(self, asked: Asked) -> None:
        """There is a moment between request and answer at which the answer was right."""
        self.check()
        if asked.error is not None and asked.error.status >= 500:
            return  # it may have been done, or not
        window = self.past[asked.first : asked.last + 1]
        if asked.what.startswith("register ") and asked.error is None:
            view = asked.answer
            assert isinstance(view, VersionView)
            # While the store is away what memory has is answered; it was true once.
            known = self.past[: asked.last + 1] if asked.from_memory else window
            assert any(_has(catalog, view) for catalog in known), asked
            assert self.known[view.subject.context, view.schema_id] == view.content.text
            return
        if asked.error is None:
            done = _DONE.get(asked.what)
            assert done is None or any(done(catalog, asked) for catalog in window), asked
        elif asked.error.code == 42205 and asked.what.startswith("register "):
            modes = [scope.mode_in_scope(catalog, asked.place) for catalog in window]
            assert any(mode.read_only for mode in modes), asked
        expected = _EXPECTED.get(asked.what)
        if expected is not None and not asked.from_memory:
            found = [_outcome(expected, catalog, asked.place) for catalog in window]
            assert _told(asked) in found, (asked, found)

    async def _settle(self) -> None:
        """Everything that was begun is ended, and all nodes have looked for changes."""
        for _ in range(300):
            for node in self.nodes:
                for threads, _ in node.jobs[:1]:
                    threads.step(0)
            await asyncio.sleep(0.01)
            self.check()

    async def end(self) -> None:
        """Every node can reach the store again: after a second they all know the same."""
        for node in self.nodes:
            node.store.is_down, node.store.fault = False, None
        await self._settle()
        self.database.take_lock()
        await self._settle()
        done = {change.by for change in self.database.changes}
        for asked in self.asked:
            refused = asked.error is not None and asked.error.status < 500
            assert not refused or asked.by not in done, f"refused, and stored: {asked}"
        stored = MemoryStore(self.database).load()
        for node in self.nodes:
            assert not node.requests, "a request was never answered"
            assert not node.registry.replica.is_down
            assert node.registry.catalog.number == stored.number
            assert node.registry.catalog.contexts == stored.contexts
        assert self.past[-1].contexts == stored.contexts


def _tasks(registry: Registry) -> list[asyncio.Task[Any]]:
    """Those of the registry itself."""
    replica, writer = registry.replica, registry._shell.writer
    texts = registry._shell.texts
    tasks = (replica._poll, replica._running, replica._next, writer._task, texts._reading)
    return [task for task in tasks if task is not None]


def _has(catalog: Catalog, view: VersionView) -> bool:
    entry = catalog.version(view.subject, view.version)
    return entry is not None and not entry.deleted and entry.schema_id == view.schema_id


def _is_gone(catalog: Catalog, subject: Subject, version: int) -> bool:
    entry = catalog.version(subject, version)
    return entry is None or entry.deleted


_DONE: Final[dict[str, Callable[[Catalog, Asked], bool]]] = {
    "set mode READONLY": lambda catalog, asked: _mode(catalog, asked) == "READONLY",
    "set mode READWRITE": lambda catalog, asked: _mode(catalog, asked) == "READWRITE",
    "delete mode": lambda catalog, asked: _mode(catalog, asked) == "None",
    "delete version": lambda catalog, asked: _is_gone(catalog, asked.place, asked.answer),
    "delete subject": lambda catalog, asked: all(
        _is_gone(catalog, asked.place, version) for version in asked.answer
    ),
    "restore": lambda catalog, asked: not _is_gone(catalog, asked.place, asked.answer),
}


def _mode(catalog: Catalog, asked: Asked) -> str:
    return str(scope.mode_at(catalog, asked.place))


_EXPECTED: Final[dict[str, Callable[[Catalog, Subject], Any]]] = {
    "latest": lambda catalog, subject: lists.version(catalog, subject, "latest").version[:2],
    "versions": lambda catalog, subject: lists.versions(catalog, subject),
    "mode": lambda catalog, place: str(scope.mode_in_scope(catalog, place)),
}


def _outcome(expected: Callable[[Catalog, Subject], Any], catalog: Catalog, place: Subject) -> Any:
    try:
        return expected(catalog, place)
    except RegistryError as error:
        return error.code


def _told(asked: Asked) -> Any:
    if asked.error is not None:
        return asked.error.code
    if isinstance(asked.answer, VersionView):
        return asked.answer.version, asked.answer.schema_id
    return asked.answer
