"""Bad input is answered with the documented code, by every operation that names it, and changes
nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from rest_api import RECORD, Api, operations

from tallymark_schema_registry.web.described import CODES
from tallymark_schema_registry.web.negotiate import V1

BODIES: list[tuple[bytes, int]] = [
    (b"", 400),
    (b"{", 400),
    (b"[]", 400),
    (b"null", 400),
    (b'"x"', 400),
    (b"\xff\xfe", 400),
    (b'{"schema": "\xc3"}', 400),
    (b"[" * 100_000, 400),
    (b'{"schema": "\\ud800"}', 400),
    (b'{"schema": "\\"int\\"", "x": [' + b"[]," * 70_000 + b"[]]}", 400),
    (b'{"schema": "\\"int\\"", "x": [' + b"1e9," * 140_000 + b"1]}", 400),
    (b" " * 1_100_000, 413),
]


@pytest.fixture
def naming(api: Api) -> Iterator[Any]:
    """The operations (method, path with the test's subject) that name a code."""
    named = operations(api.http.get("/openapi.json").json())

    def those(code: int) -> list[tuple[str, str]]:
        return [
            (name.split()[0], _filled(name.split()[1], api.subject))
            for name, operation in named.items()
            if code in operation[CODES]
        ]

    before = _everything(api)
    yield those
    assert _everything(api) == before


def _filled(template: str, subject: str) -> str:
    values = {"subject": subject, "version": "1", "schema_id": "1", "guid": "x", "context": ".x"}
    for name, value in values.items():
        template = template.replace(f"{{{name}}}", value)
    return template


def _everything(api: Api) -> Any:
    return [api.http.get(path).json() for path in ("/subjects?deleted=true", "/config", "/mode")]


@pytest.mark.parametrize(("body", "code"), BODIES, ids=range(len(BODIES)))
def test_bodies_that_are_no_json_objects(api: Api, naming: Any, body: bytes, code: int) -> None:
    asked = naming(code)
    assert len(asked) == 8
    for method, path in asked:
        api.refused(api.ask(method, path, body, headers={"content-type": V1}), code)


def test_bodies_of_a_foreign_type(api: Api, naming: Any) -> None:
    for method, path in naming(415):
        answer = api.ask(method, path, b"{}", headers={"content-type": "text/plain"})
        api.refused(answer, 415, "HTTP 415 Unsupported Media Type")


def test_numbers_that_are_none(api: Api, naming: Any) -> None:
    asked = naming(404)
    assert len(asked) > 8
    for method, path in asked:
        name = "since" if path == "/changes" else "limit"
        at = path.replace("/ids/1", "/ids/x")
        api.refused(api.ask(method, f"{at}?{name}=x"), 404, "HTTP 404 Not Found")


@pytest.mark.parametrize("name", ["%00", "%0A", ":x", ":.x", "a" * 1_500], ids=range(5))
def test_subjects_that_are_no_names(api: Api, naming: Any, name: str) -> None:
    asked = naming(42208)
    assert len(asked) > 20
    for method, path in asked:
        at = path.replace(api.subject, name).replace("/.x", f"/{name}")
        if "/schemas/ids/" in path:
            at = f"{path}?subject={name}"
        if path == "/contexts/.x" and name == ":.x":
            continue  # a context as tools write it
        body = {"schema": RECORD} if method in ("POST", "PUT") else None
        if path.startswith("/mode") and body:
            body = {"mode": "READONLY"}
        if path.startswith("/config") and body:
            body = {"compatibility": "FULL"}
        api.refused(api.ask(method, at, body), 42208)


WRONG_TYPES = [
    {"references": "x"},
    {"references": {}},
    {"references": [[]]},
    {"metadata": 5},
    {"metadata": {"tags": 5}},
    {"metadata": {"properties": []}},
    {"ruleSet": []},
    {"ruleSet": {"domainRules": 5}},
    {"ruleSet": {"domainRules": [5]}},
    {"id": "x"},
    {"id": 1.5},
    {"id": True},
    {"version": {}},
    {"version": 2**31},
    {"schemaType": 5},
    {"schema": []},
    {"schema": {"type": "string"}},
]


@pytest.mark.parametrize("wrong", WRONG_TYPES, ids=lambda wrong: json.dumps(wrong)[:40])
def test_properties_of_a_wrong_type(api: Api, naming: Any, wrong: dict[str, Any]) -> None:
    for method, path in naming(42201):
        answer = api.ask(method, path, {"schema": RECORD, **wrong})
        assert 400 <= answer.status_code < 500, (path, answer.text)
        assert answer.json()["error_code"] in (400, 42201, 42210), (path, answer.text)


@pytest.mark.parametrize(
    "wrong", [{"normalize": 5}, {"alias": []}, {"alias": {}}, {"defaultMetadata": 5}]
)
def test_config_of_a_wrong_type(api: Api, naming: Any, wrong: dict[str, Any]) -> None:
    for method, path in naming(42203):
        answer = api.ask(method, path, wrong)
        assert 400 <= answer.status_code < 500, (path, answer.text)


def test_a_body_without_an_announced_length_is_bounded_too(api: Api) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(30):
            yield b" " * 65_536

    answer = api.http.post(f"/subjects/{api.subject}/versions", content=endless())
    api.refused(answer, 413)


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"array","items":' * 5_000,
        '{"type":"record","name":"R","fields":[{"name":"a-b","type":"int"}]}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}',
        '{"type":"record","name":"a-b.R","fields":[]}',
        '["int","int"]',
        '"' + "x" * 100_000 + '"',
        '{"type":"record","name":"R","doc":"\\ud800","fields":[]}',
    ],
    ids=range(7),
)
def test_schemas_that_are_refused(api: Api, text: str) -> None:
    path = f"/subjects/{api.subject}"
    answer = api.post(f"{path}/versions", {"schema": text})
    if "ud800" in text:
        assert answer.status_code in (200, 400, 422), answer.text
        return
    api.refused(answer, 42201, "Invalid schema")
    api.refused(api.get(f"{path}/versions"), 40401)
