"""Whatever happens, here or in another process on the same store, a registry with a front answers
what one without a front answers.

A body remembered for its answer must not outlive a deletion, a mode, a level or an alias.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from http_in_memory import MemoryTransport, connect
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_store import MemoryStore

from tallymark.net.web.access import WebAccess
from tallymark_schema_registry.node.registry import Registry
from tallymark_schema_registry.web import create_app
from tallymark_schema_registry.web.front.serving import make_front, protocol_of
from tallymark_schema_registry.web.metrics.counts import RequestCounts
from tallymark_schema_registry.web.responses import Profile

pytest.importorskip("httptools")
from tallymark.net.web.http_compiled import CompiledHttp

pytestmark = pytest.mark.slow

GONE_WITHIN_S = 1.0
"""How long a schema may still be read by its id after another process has deleted it for good."""


class Asked(NamedTuple):
    """One request; ``where``: 0 is our process, 1 another one on the same store."""

    method: str
    path: str
    body: str
    where: int


class Node:
    """One process of a registry: its application, and one connection to it."""

    def __init__(self, store: MemoryStore, profile: Profile, front: bool) -> None:
        self.registry = Registry(store, lambda: 1_700_000_000_000)
        app = create_app(self.registry, "", profile)
        made = make_front(self.registry, WebAccess(), RequestCounts(), self._count)
        http: Any = protocol_of(made) if front else CompiledHttp
        self.given = 0
        self.connect: Callable[[], MemoryTransport] = lambda: connect(http, app)

    def _count(self, _: str) -> None:
        self.given += 1

    async def start(self) -> None:
        await self.registry.start()
        self._transport = self.connect()

    async def ask(self, asked: Asked) -> bytes:
        """The whole answer."""
        if self._transport.closed:
            self._transport = self.connect()
        body = asked.body.encode()
        head = f"{asked.method} {asked.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        head += f"Content-Length: {len(body)}\r\n" if body else ""
        begin = len(self._transport.written)
        self._transport.protocol.data_received(f"{head}\r\n".encode() + body)
        ends = time.monotonic() + 10
        while time.monotonic() < ends:
            answer = bytes(self._transport.written[begin:])
            head_end = answer.find(b"\r\n\r\n") + 4
            if head_end > 4:
                length = answer[:head_end].lower().partition(b"content-length: ")[2]
                if len(answer) >= head_end + int(length.split(b"\r\n")[0] or b"0"):
                    return answer
            await asyncio.sleep(0.0005)
        raise AssertionError(f"no answer to {asked}")


def schema(number: int) -> str:
    return json.dumps({"type": "record", "name": f"R{number}", "fields": []})


SUBJECTS = st.sampled_from(["a", "b", ":.c:a"])
SCHEMAS = st.integers(0, 2).map(lambda number: json.dumps({"schema": schema(number)}))
CONFIGS = st.sampled_from(
    [{"compatibility": "NONE"}, {"alias": "b"}, {"alias": ""}, {"normalize": True}]
).map(json.dumps)
MODES = st.sampled_from(["READWRITE", "READONLY", "READONLY_OVERRIDE"]).map(
    lambda mode: json.dumps({"mode": mode})
)


def asks(method: str, path: str, body: st.SearchStrategy[str] | None = None) -> Any:
    """Requests whose path has a subject for ``{}``."""
    paths = SUBJECTS.map(path.format) if "{}" in path else st.just(path)
    return st.builds(
        Asked, st.just(method), paths, st.just("") if body is None else body, st.integers(0, 1)
    )


READS = st.one_of(
    asks("GET", "/subjects/{}/versions/latest"),
    asks("GET", "/subjects/{}/versions/1"),
    asks("GET", "/subjects/{}/versions/1/schema"),
    asks("GET", "/subjects/{}/versions?deleted=true"),
    asks("POST", "/subjects/{}/versions", SCHEMAS),
    asks("POST", "/subjects/{}/versions", SCHEMAS),
    asks("POST", "/subjects/{}", SCHEMAS),
    asks("GET", "/subjects"),
    asks("GET", "/schemas/ids/1"),
    asks("GET", "/schemas/ids/1/schema"),
    asks("GET", "/schemas/ids/2?includeSubjects=true"),
    asks("GET", "/schemas/ids/1/versions"),
    asks("GET", "/schemas"),
    asks("GET", "/config/{}?defaultToGlobal=true"),
    asks("GET", "/mode/{}?defaultToGlobal=true"),
    asks("GET", "/contexts"),
)
WRITES = st.one_of(
    asks("DELETE", "/subjects/{}"),
    asks("DELETE", "/subjects/{}?permanent=true"),
    asks("DELETE", "/subjects/{}/versions/latest"),
    asks("DELETE", "/subjects/{}/versions/1?permanent=true"),
    asks("PUT", "/config/{}", CONFIGS),
    asks("PUT", "/config", CONFIGS.filter(lambda config: "alias" not in config)),
    asks("DELETE", "/config/{}"),
    asks("PUT", "/mode/{}", MODES),
    asks("PUT", "/mode", MODES),
    asks("PUT", "/contexts/.c/mode", MODES),
    asks("DELETE", "/mode/{}"),
)
BEGIN = [
    Asked("POST", f"/subjects/{name}/versions", json.dumps({"schema": schema(number)}), 0)
    for number, name in enumerate(("a", "b", ":.c:a"))
]


async def compare(
    sequence: list[Asked], profile: Profile, cheap: bool, at_last: list[Asked] | None = None
) -> int:
    """Make each request of both registries, reads three times, and those of ``at_last`` once; how
    many answers the front gave. ``cheap``: the store tells at once whether something has changed,
    as SQLite does."""
    shared = MemoryStore()
    shared.is_watched_cheaply = cheap
    ours = [Node(shared, profile, front) for front in (True, False)]
    reference = Node(MemoryStore(), profile, False)
    nodes = [*ours, reference]
    for node in nodes:
        await node.start()
    try:
        times = [1 if asked.method in ("PUT", "DELETE") else 3 for asked in sequence]
        last = at_last or []
        for asked, count in zip([*sequence, *last], [*times, *[1] * len(last)], strict=True):
            for _ in range(count):
                expected = await reference.ask(asked)
                found = await ours[asked.where].ask(asked)
                ends = time.monotonic() + GONE_WITHIN_S
                while found != expected and "/ids/" in asked.path and time.monotonic() < ends:
                    await asyncio.sleep(0.05)
                    found = await ours[asked.where].ask(asked)
                assert found == expected, asked
    finally:
        for node in nodes:
            await node.registry.close()
    return ours[0].given


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.one_of(READS, READS, READS, WRITES), max_size=25),
    st.sampled_from(list(Profile)),
    st.booleans(),
)
def test_the_answers_are_those_of_a_registry_without_a_front(
    sequence: list[Asked], profile: Profile, cheap: bool
) -> None:
    asyncio.run(compare(BEGIN + sequence, profile, cheap))


def one(method: str, path: str, body: object = None) -> Asked:
    """A request of our process."""
    return Asked(method, path, "" if body is None else json.dumps(body), 0)


EVERYTHING = [
    *(
        one(method, path.format(subject), body)
        for subject in ("a", "b", ":.c:a")
        for method, path, body in (
            ("GET", "/subjects/{}/versions/latest", None),
            ("GET", "/subjects/{}/versions/1/schema", None),
            ("GET", "/subjects/{}/versions", None),
            ("POST", "/subjects/{}/versions", {"schema": schema(0)}),
            ("POST", "/subjects/{}", {"schema": schema(1)}),
            ("GET", "/config/{}?defaultToGlobal=true", None),
            ("GET", "/mode/{}?defaultToGlobal=true", None),
        )
    ),
    *BEGIN,
    one("GET", "/subjects"),
    one("GET", "/schemas"),
    one("GET", "/contexts"),
    one("GET", "/schemas/ids/1"),
    one("GET", "/schemas/ids/1/schema"),
    one("GET", "/schemas/ids/2?includeSubjects=true"),
    one("GET", "/schemas/ids/1/versions"),
]
METADATA = {"overrideMetadata": {"properties": {"owner": "us"}}}
CHANGES = {
    "a version": [one("POST", "/subjects/b/versions", {"schema": schema(7)})],
    "a deletion": [one("DELETE", "/subjects/a/versions/1")],
    "a permanent one": [
        one("DELETE", "/subjects/a/versions/1"),
        one("DELETE", "/subjects/a/versions/1?permanent=true"),
    ],
    "of a subject": [one("DELETE", "/subjects/b"), one("DELETE", "/subjects/b?permanent=true")],
    "the level of all": [one("PUT", "/config", {"compatibility": "FULL"})],
    "an alias": [one("PUT", "/config/a", {"alias": "b"})],
    "no alias": [
        one("PUT", "/config/a", {"alias": "b"}),
        *EVERYTHING,
        one("DELETE", "/config/a"),
    ],
    # A registration gets this metadata from then on, and is another schema.
    "metadata of a subject": [one("PUT", "/config/a", METADATA)],
    "metadata of all": [one("PUT", "/config", METADATA)],
    "metadata of a context": [one("PUT", "/contexts/.c/config", METADATA)],
    "metadata below all": [one("PUT", "/contexts/.__GLOBAL/config", METADATA)],
    "the alias's subject": [
        one("PUT", "/config/a", {"alias": "b"}),
        *EVERYTHING,
        one("DELETE", "/subjects/b/versions/1"),
    ],
    "the mode of a subject": [one("PUT", "/mode/a", {"mode": "READONLY"})],
    "the mode of all contexts": [one("PUT", "/mode", {"mode": "READONLY_OVERRIDE"})],
    "the mode of a context": [one("PUT", "/contexts/.c/mode", {"mode": "READONLY"})],
    "the mode below all": [one("PUT", "/contexts/.__GLOBAL/mode", {"mode": "READONLY"})],
    "another mode": [
        one("PUT", "/mode", {"mode": "READONLY_OVERRIDE"}),
        *EVERYTHING,
        one("PUT", "/mode", {"mode": "READWRITE"}),
    ],
}


@pytest.mark.soak_cases("here", "in another process")
@pytest.mark.parametrize(
    ("where", "cheap"),
    [(0, True), (1, True), (1, False)],
    ids=["here", "in another process", "in another process, on a slow store"],
)
@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_no_answer_outlives_a_change(changes: list[Asked], where: int, cheap: bool) -> None:
    made = [each._replace(where=where) if each not in EVERYTHING else each for each in changes]
    sequence = [*BEGIN, *EVERYTHING, *made]
    assert asyncio.run(compare(sequence, Profile.EIGHT, cheap, EVERYTHING)) > len(EVERYTHING)


def test_the_front_gives_most_of_them() -> None:
    """The comparison above would hold as well if the front remembered nothing."""
    reads = [
        Asked("GET", "/schemas/ids/1", "", 0),
        Asked("GET", "/schemas/ids/1/schema", "", 0),
        Asked("GET", "/subjects/a/versions/latest", "", 0),
        Asked("GET", "/subjects/a/versions/1/schema", "", 0),
        Asked("GET", "/subjects", "", 0),
        Asked("GET", "/subjects/a/versions", "", 0),
        Asked("GET", "/config", "", 0),
        Asked("GET", "/mode/a?defaultToGlobal=true", "", 0),
        BEGIN[0],
        BEGIN[0]._replace(path="/subjects/a"),
    ]
    given = asyncio.run(compare(BEGIN + reads, Profile.SEVEN, True))
    again = 1  # the registration is among what was asked at the beginning
    assert given == 2 * len(reads) + len(BEGIN) + again
