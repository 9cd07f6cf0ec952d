"""What the client asks, word for word, and how it reads the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from scripted_registry import Answer, Asked, ScriptedRegistry

from tallymark.errors import UserError
from tallymark.serialization import (
    DryRun,
    Reference,
    RegisteredSchema,
    RegistryClient,
    RegistryError,
    Schema,
    SerializationError,
)

VERSION = {"subject": "s/1", "version": 2, "id": 7, "schema": '"int"'}
READ = RegisteredSchema("s/1", 2, 7, '"int"')
REFERRING = Schema('"a.K"', (Reference("a.K", "k", 3),), metadata={"properties": {"x": "y"}})
BODY = {
    "schema": '"a.K"',
    "references": [{"name": "a.K", "subject": "k", "version": 3}],
    "metadata": {"properties": {"x": "y"}},
}


@pytest.fixture
def server() -> Iterator[ScriptedRegistry]:
    with ScriptedRegistry(lambda _: Answer()) as server:
        yield server


@pytest.fixture
def client(server: ScriptedRegistry) -> Iterator[RegistryClient]:
    with RegistryClient(server.url, attempts=1) as client:
        yield client


Ask = Callable[[RegistryClient], Any]
CASES: list[tuple[Ask, Asked, Any, Any]] = [
    (lambda c: c.version("s/1", 2), Asked("GET", "/subjects/s%2F1/versions/2"), VERSION, READ),
    (
        lambda c: c.version("s", 2, deleted=True),
        Asked("GET", "/subjects/s/versions/2?deleted=true"),
        {**VERSION, "deleted": True, "schemaType": "AVRO", "guid": "g", "ts": 5},
        READ,
    ),
    (lambda c: c.latest("s"), Asked("GET", "/subjects/s/versions/latest"), VERSION, READ),
    (
        lambda c: c.lookup("s", REFERRING, normalize=True, deleted=True),
        Asked("POST", "/subjects/s?normalize=true&deleted=true", BODY),
        VERSION | BODY,
        RegisteredSchema(
            "s/1", 2, 7, REFERRING.text, REFERRING.references, metadata=REFERRING.metadata
        ),
    ),
    (
        lambda c: c.register("s", REFERRING, normalize=True),
        Asked("POST", "/subjects/s/versions?normalize=true", BODY),
        {"id": 7},
        7,
    ),
    (
        lambda c: c.register("s", '"int"', schema_id=7, version=2),
        Asked("POST", "/subjects/s/versions", {"schema": '"int"', "id": 7, "version": 2}),
        VERSION,
        7,
    ),
    (lambda c: c.subjects(), Asked("GET", "/subjects"), ["a"], ["a"]),
    (
        lambda c: c.subjects(":*:", deleted=True),
        Asked("GET", "/subjects?subjectPrefix=%3A%2A%3A&deleted=true"),
        ["a"],
        ["a"],
    ),
    (
        lambda c: c.versions("s", deleted_only=True),
        Asked("GET", "/subjects/s/versions?deletedOnly=true"),
        [1, 2],
        [1, 2],
    ),
    (
        lambda c: c.uses(7, deleted=True),
        Asked("GET", "/schemas/ids/7/versions?deleted=true"),
        [{"subject": "s", "version": 2}],
        [("s", 2)],
    ),
    (
        lambda c: c.referenced_by("s", 2),
        Asked("GET", "/subjects/s/versions/2/referencedby"),
        [9],
        [9],
    ),
    (
        lambda c: c.changes(5, limit=10, wait_s=1),
        Asked("GET", "/changes?since=5&limit=10&wait=1"),
        [{"number": 6}],
        [{"number": 6}],
    ),
    (lambda c: c.contexts(), Asked("GET", "/contexts"), ["."], ["."]),
    (
        lambda c: c.conflicts("s", '"int"', normalize=True),
        Asked(
            "POST",
            "/compatibility/subjects/s/versions?verbose=true&normalize=true",
            {"schema": '"int"'},
        ),
        {"is_compatible": False, "messages": ["why"]},
        ["why"],
    ),
    (lambda c: c.delete_version("s", 2), Asked("DELETE", "/subjects/s/versions/2"), 2, 2),
    (
        lambda c: c.delete_version("s", 2, permanent=True),
        Asked("DELETE", "/subjects/s/versions/2?permanent=true"),
        2,
        2,
    ),
    (lambda c: c.delete_subject("s/1"), Asked("DELETE", "/subjects/s%2F1"), [1, 2], [1, 2]),
    (
        lambda c: c.delete_subject("s", permanent=True),
        Asked("DELETE", "/subjects/s?permanent=true"),
        [1],
        [1],
    ),
    (lambda c: c.restore("s", 2), Asked("POST", "/subjects/s/versions/2/restore"), VERSION, 2),
    (
        lambda c: c.level("s"),
        Asked("GET", "/config/s?defaultToGlobal=true"),
        {"compatibilityLevel": "FULL"},
        "FULL",
    ),
    (
        lambda c: c.set_config({"alias": "t", "normalize": True}, "s"),
        Asked("PUT", "/config/s", {"alias": "t", "normalize": True}),
        {"alias": "t", "normalize": True},
        {"alias": "t", "normalize": True},
    ),
    (lambda c: c.config(), Asked("GET", "/config"), {"x": 1}, {"x": 1}),
    (lambda c: c.delete_config("s"), Asked("DELETE", "/config/s"), {"x": 1}, {"x": 1}),
    (
        lambda c: c.mode("s"),
        Asked("GET", "/mode/s?defaultToGlobal=true"),
        {"mode": "READONLY"},
        "READONLY",
    ),
    (
        lambda c: c.set_mode("IMPORT", force=True),
        Asked("PUT", "/mode?force=true", {"mode": "IMPORT"}),
        {"mode": "IMPORT"},
        "IMPORT",
    ),
    (
        lambda c: c.delete_mode("s", recursive=True),
        Asked("DELETE", "/mode/s?recursive=true"),
        {"mode": "IMPORT"},
        "IMPORT",
    ),
    (
        lambda c: c.schema_by_guid("0AF3FF9CDB8E4C9FA2C24B6E6A2B3C4D"),
        Asked("GET", "/schemas/guids/0af3ff9c-db8e-4c9f-a2c2-4b6e6a2b3c4d"),
        BODY,
        REFERRING,
    ),
]


@pytest.mark.parametrize(("ask", "asked", "answer", "found"), CASES)
def test_a_request(
    server: ScriptedRegistry,
    client: RegistryClient,
    ask: Ask,
    asked: Asked,
    answer: Any,
    found: Any,
) -> None:
    server.script = lambda _: Answer(answer)
    assert ask(client) == found
    assert server.asked == [asked]


def test_pages_are_put_together(server: ScriptedRegistry, client: RegistryClient) -> None:
    def page(asked: Asked) -> Answer:
        return Answer([VERSION] * 300 if len(server.asked) <= 2 else [])

    server.script = page
    found = list(client.all_versions("s", latest_only=True))
    assert found == [READ] * 600
    query = "subjectPrefix=s&latestOnly=true&offset={}&limit=1000"
    assert server.asked == [
        Asked("GET", f"/schemas?{query.format(offset)}") for offset in (0, 300, 600)
    ]


def test_a_dry_run(server: ScriptedRegistry, client: RegistryClient) -> None:
    def ours(asked: Asked) -> Answer:
        if asked.path == "/v1/metadata/version":
            return Answer({"version": "1", "server": "tallymark"})
        return Answer({"would_create": False, "version": 2, "compatible": False, "messages": ["m"]})

    server.script = ours
    assert client.dry_run("s", '"int"') == DryRun(False, False, None, 2, ("m",), None)
    assert server.asked[1] == Asked("POST", "/subjects/s/versions?dryRun=true", {"schema": '"int"'})


def test_no_dry_run_at_a_registry_that_would_register(
    server: ScriptedRegistry, client: RegistryClient
) -> None:
    """Registries ignore parameters that they do not know."""
    server.script = lambda _: Answer({"version": "8.0.0", "commitId": "x"})
    with pytest.raises(UserError, match="no dry run"):
        client.dry_run("s", '"int"')
    assert [asked.method for asked in server.asked] == ["GET"]


def test_what_was_registered_before_a_deletion_is_registered_again(
    server: ScriptedRegistry, client: RegistryClient
) -> None:
    server.script = lambda asked: Answer({"id": 7} if asked.method == "POST" else [1])
    assert [client.register("s", '"int"') for _ in range(3)] == [7, 7, 7]
    client.delete_subject("s")
    assert client.register("s", '"int"') == 7
    assert [asked.method for asked in server.asked] == ["POST", "DELETE", "POST"]


def test_what_was_deleted_for_good_is_not_remembered(
    server: ScriptedRegistry, client: RegistryClient
) -> None:
    server.script = lambda asked: Answer({"schema": '"int"'} if asked.method == "GET" else 1)
    client.schema(7)
    client.delete_version("s", 1)
    client.schema(7)
    client.delete_version("s", 1, permanent=True)
    server.script = lambda _: Answer({"error_code": 40403, "message": "gone"}, 404)
    with pytest.raises(RegistryError, match="gone"):
        client.schema(7)


def test_a_hostile_topic_is_no_storm_of_requests(
    server: ScriptedRegistry, client: RegistryClient
) -> None:
    server.script = lambda _: Answer({"error_code": 40403, "message": "no"}, 404)
    for _ in range(500):
        with pytest.raises(RegistryError, match="GET /schemas/ids/7 at"):
            client.schema(7)
    assert len(server.asked) <= 5


GRAPH: dict[str, list[tuple[str, int]]] = {
    "top": [("left", 1), ("right", 2)],
    "left": [("base", 1)],
    "right": [("base", 1), ("left", 1)],
    "base": [],
}


def graph(asked: Asked) -> Answer:
    _, _, subject, _, version = asked.path.partition("?")[0].split("/")
    references = [{"name": n, "subject": n, "version": v} for n, v in GRAPH[subject]]
    return Answer({**VERSION, "schema": f"{subject}{version}", "references": references})


def test_references_come_before_what_refers_to_them(
    server: ScriptedRegistry, client: RegistryClient
) -> None:
    server.script = graph
    top = Schema("?", (Reference("top", "top", 5),))
    assert client.reference_texts(top) == ("base1", "left1", "right2", "top5")
    assert client.reference_texts(top) == ("base1", "left1", "right2", "top5")
    assert len(server.asked) == 4
    assert all(asked.path.endswith("?deleted=true") for asked in server.asked)


def test_references_without_an_end(server: ScriptedRegistry, client: RegistryClient) -> None:
    circle = [{"name": "x", "subject": "x", "version": 1}]
    server.script = lambda _: Answer({**VERSION, "references": circle})
    with pytest.raises(SerializationError, match="no end: x in version 1 of x"):
        client.reference_texts(Schema("?", (Reference("x", "x", 1),)))

    def longer(asked: Asked) -> Answer:
        number = int(asked.path.split("/")[4].partition("?")[0]) + 1
        return Answer({**VERSION, "references": [{"name": "x", "subject": "x", "version": number}]})

    server.script = longer
    with RegistryClient(server.url) as fresh, pytest.raises(SerializationError, match="no end"):
        fresh.reference_texts(Schema("?", (Reference("x", "x", 1),)))
    assert len(server.asked) < 1100


def test_a_guid(server: ScriptedRegistry, client: RegistryClient) -> None:
    server.script = lambda _: Answer({"schema": '"int"', "guid": "of-8"})
    assert client.guid(1) == "of-8"

    def of_7(asked: Asked) -> Answer:
        known = asked.path in (
            "/schemas/ids/2",
            "/schemas/guids/ef524ea1-b91e-7317-3d93-8ade36c1db32",
        )
        return Answer({"schema": '"int"'}) if known else Answer({"message": "no"}, 404)

    server.script = of_7
    assert client.guid(2) == "ef524ea1-b91e-7317-3d93-8ade36c1db32"
    server.script = lambda asked: Answer(
        {"schema": '"long"'} if "/ids/" in asked.path else None, 200
    )
    with pytest.raises(SerializationError, match="does not say the guid of schema 3"):
        client.guid(3)
