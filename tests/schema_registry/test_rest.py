"""The REST contract, over a real socket: shapes, codes, and the traps that break clients."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tallymark.errors import UserError
from tallymark_schema_registry.embedded import RegistryServer

V1 = "application/vnd.schemaregistry.v1+json"
RECORD = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
GROWN = (
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int"}]}'
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    folder = tmp_path_factory.mktemp("registry")
    with RegistryServer(f"sqlite:///{folder / 'registry.db'}") as server:
        yield server


@pytest.fixture(scope="module")
def http(server: RegistryServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url) as client:
        yield client


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> str:
    """A subject of the test's own."""
    return "".join(char if char.isalnum() else "-" for char in request.node.name)


def register(http: httpx.Client, subject: str, schema: str, **more: Any) -> httpx.Response:
    return http.post(f"/subjects/{subject}/versions", json={"schema": schema, **more})


def assert_fault(response: httpx.Response, status: int, code: int, text: str = "") -> None:
    body = response.json()
    assert (response.status_code, body["error_code"]) == (status, code)
    assert set(body) == {"error_code", "message"}
    assert text in body["message"]
    assert response.headers["content-type"] == V1


def test_register_and_read_back(http: httpx.Client, subject: str) -> None:
    answer = register(http, subject, '{ "type": "record", "name": "R", "fields": [] }')
    schema_id = answer.json()["id"]
    assert answer.json() == {"id": schema_id}
    text = '{"type":"record","name":"R","fields":[]}'
    version = {"subject": subject, "version": 1, "id": schema_id, "schema": text}
    assert http.get(f"/schemas/ids/{schema_id}").json() == {"schema": text}
    # The second time from memory.
    assert http.get(f"/schemas/ids/{schema_id}?subject=x").json() == {"schema": text}
    assert http.get(f"/schemas/ids/{schema_id}/schema").text == text
    assert http.get(f"/schemas/ids/{schema_id}/versions").json() == [
        {"subject": subject, "version": 1}
    ]
    assert http.get(f"/schemas/ids/{schema_id}/subjects").json() == [subject]
    assert http.get(f"/subjects/{subject}/versions").json() == [1]
    for spec in ("1", "latest", "-1"):
        assert http.get(f"/subjects/{subject}/versions/{spec}").json() == version
    assert http.get(f"/subjects/{subject}/versions/1/schema").text == text
    assert http.post(f"/subjects/{subject}", json={"schema": text}).json() == version
    assert subject in http.get("/subjects").json()


def test_what_is_not_there(http: httpx.Client, subject: str) -> None:
    unknown = {"schema": '"double"'}
    assert_fault(http.get("/schemas/ids/99999"), 404, 40403, "Schema 99999 not found")
    assert_fault(http.get("/schemas/ids/99999/versions"), 404, 40403)
    missing = f"Subject '{subject}' not found."
    assert_fault(http.get(f"/subjects/{subject}/versions"), 404, 40401, missing)
    assert_fault(http.get(f"/subjects/{subject}/versions/1"), 404, 40401, missing)
    assert_fault(http.post(f"/subjects/{subject}", json=unknown), 404, 40401, missing)
    register(http, subject, RECORD)
    assert_fault(http.get(f"/subjects/{subject}/versions/2"), 404, 40402, "Version 2 not found.")
    assert_fault(http.get(f"/subjects/{subject}/versions/0"), 422, 42202, "not a valid version id")
    assert_fault(http.post(f"/subjects/{subject}", json=unknown), 404, 40403, "Schema not found")


def test_an_incompatible_schema(http: httpx.Client, subject: str) -> None:
    register(http, subject, RECORD)
    answer = register(http, subject, GROWN)
    assert_fault(answer, 409, 409, "Schema being registered is incompatible with an earlier schema")
    for part in ("READER_FIELD_MISSING_DEFAULT_VALUE", "{oldSchemaVersion: 1}", "BACKWARD"):
        assert part in answer.json()["message"]


def test_checking_without_registering(http: httpx.Client, subject: str) -> None:
    path = f"/compatibility/subjects/{subject}/versions"
    assert http.post(f"{path}/latest", json={"schema": RECORD}).json() == {"is_compatible": True}
    register(http, subject, RECORD)
    assert http.post(f"{path}/latest", json={"schema": GROWN}).json() == {"is_compatible": False}
    verbose = http.post(f"{path}/?verbose=TRUE", json={"schema": GROWN}).json()
    assert verbose["is_compatible"] is False
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in verbose["messages"][0]
    assert_fault(http.post(f"{path}/7", json={"schema": RECORD}), 404, 40402)
    assert_fault(http.post(f"{path}/latest", json={"schema": "x"}), 422, 42201)
    invalid = http.post(f"{path}/latest?verbose=true", json={"schema": "x"}).json()
    assert invalid["is_compatible"] is False
    assert http.get(f"/subjects/{subject}/versions").json() == [1]


def test_levels(http: httpx.Client, subject: str) -> None:
    own = f"/config/{subject}"
    assert http.get("/config").json() == {"compatibilityLevel": "BACKWARD"}
    assert_fault(http.get(own), 404, 40408, "does not have subject-level compatibility configured")
    assert_fault(http.delete(own), 404, 40401)
    assert http.get(f"{own}?defaultToGlobal=true").json() == {"compatibilityLevel": "BACKWARD"}
    assert http.put(own, json={"compatibility": "none"}).json() == {"compatibility": "NONE"}
    assert http.get(own).json() == {"compatibilityLevel": "NONE"}
    assert [register(http, subject, text).status_code for text in (RECORD, GROWN, '"int"')] == [
        200
    ] * 3
    assert http.delete(own).json() == {"compatibilityLevel": "NONE"}
    assert register(http, subject, '"string"').status_code == 409
    assert_fault(http.put(own, json={"compatibility": "SIDEWAYS"}), 422, 42203, "Valid values are")
    assert http.put(own, json={}).status_code == 200


def test_the_global_level(http: httpx.Client, subject: str) -> None:
    assert http.put("/config", json={"compatibility": "FORWARD"}).json() == {
        "compatibility": "FORWARD"
    }
    assert http.get("/config/").json() == {"compatibilityLevel": "FORWARD"}
    assert http.delete("/config").json() == {"compatibilityLevel": "FORWARD"}
    assert http.get("/config").json() == {"compatibilityLevel": "BACKWARD"}


def test_how_the_registry_is(http: httpx.Client) -> None:
    assert http.get("/").json() == {}
    assert http.get("/healthz").json() == {"status": "ok"}
    assert http.get("/mode").json() == {"mode": "READWRITE"}
    assert http.get("/mode/x?defaultToGlobal=true").json() == {"mode": "READWRITE"}
    assert_fault(http.get("/mode/x"), 404, 40409)
    assert http.get("/schemas/types").json() == ["AVRO"]
    assert http.get("/contexts").json() == ["."]
    assert http.get("/v1/metadata/id").json()["scope"]["path"] == []
    associations = "/associations/resources/-/orders?resourceType=topic&associationType=value"
    assert http.get(associations).json() == []


def test_unknown_routes_and_methods_answer_in_the_registrys_shape(http: httpx.Client) -> None:
    assert_fault(http.get("/nowhere"), 404, 404, "HTTP 404 Not Found")
    assert_fault(http.get("/schemas/ids/abc"), 404, 404, "HTTP 404 Not Found")
    assert_fault(http.delete("/subjects"), 405, 405, "HTTP 405 Method Not Allowed")
    assert_fault(http.get("/subjects?limit=x"), 404, 404)


def test_subjects_with_slashes_and_percents(http: httpx.Client) -> None:
    for sent, name in (("a%2Fb", "a/b"), ("%25", "%"), ("a%20b%C3%A9", "a bé")):
        register(http, sent, RECORD)
        assert http.get(f"/subjects/{sent}/versions/1/").json()["subject"] == name


def test_paging(http: httpx.Client) -> None:
    for name in ("page-1", "page-2", "page-3"):
        register(http, name, RECORD)
    assert http.get("/subjects?subjectPrefix=page-&offset=1&limit=1").json() == ["page-2"]
    assert http.get("/subjects?subjectPrefix=page_").json() == []


def test_unknown_properties_and_odd_flags_are_ignored(http: httpx.Client, subject: str) -> None:
    answer = http.post(
        f"/subjects/{subject}/versions?normalize=Perhaps&deleted=",
        json={
            "schema": RECORD,
            "metadata": {"x": 1},
            "ruleSet": None,
            "schemaType": "AVRO",
            "references": [],
            "schemaTags": 5,
        },
    )
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, 400),
        (b"[]", 400, 400),
        (b"\xff", 400, 400),
        (b"[" * 100_000, 400, 400),
        (b"{}", 422, 42201),
        (b'{"schema": 5}', 422, 42201),
        (b'{"schema": ""}', 422, 42201),
        (json.dumps({"schema": RECORD, "schemaType": "JSON"}).encode(), 422, 42201),
        (json.dumps({"schema": RECORD, "references": [{"name": "x"}]}).encode(), 422, 42201),
        (json.dumps({"schema": RECORD, "id": 7}).encode(), 422, 42205),
        (json.dumps({"schema": '{"type":"array","items":' * 5000}).encode(), 422, 42201),
        (b" " * 1_100_000, 413, 413),
    ],
)
def test_bad_bodies(http: httpx.Client, body: bytes, status: int, code: int) -> None:
    headers = {"content-type": V1}
    assert_fault(http.post("/subjects/bad/versions", content=body, headers=headers), status, code)


def test_a_body_without_an_announced_length_is_bounded_too(http: httpx.Client) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(30):
            yield b" " * 65_536

    assert_fault(http.post("/subjects/bad/versions", content=endless()), 413, 413)


def test_content_types_that_are_refused(http: httpx.Client) -> None:
    assert_fault(http.get("/subjects", headers={"accept": "text/html"}), 406, 406)
    assert_fault(http.get("/subjects", headers={"accept": "*/*;q=0"}), 406, 406)
    headers = {"content-type": "text/plain"}
    assert_fault(http.post("/subjects/x/versions", content=b"{}", headers=headers), 415, 415)


def test_the_port_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port}"):
            RegistryServer(f"sqlite:///{tmp_path / 'registry.db'}", port=port)


def test_requests_are_logged(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "access.log"
    with RegistryServer(f"sqlite:///{tmp_path / 'registry.db'}", access_log=log) as server:
        httpx.get(f"{server.url}/subjects?x=1")
    assert '"GET /subjects?x=1 HTTP/1.1" 200 2 "-" "python-httpx/' in log.read_text()


def test_a_body_that_is_cut_off_is_a_line_and_no_traceback(
    server: RegistryServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever closed the connection amid a body left a traceback of two pages in the log."""
    port = int(server.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as cut:
        cut.sendall(
            b"POST /subjects/cut/versions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b'Content-Length: 100\r\n\r\n{"schema":'
        )
        cut.shutdown(socket.SHUT_WR)
        while cut.recv(1000):
            pass
    assert httpx.get(f"{server.url}/subjects").is_success
    assert "Traceback" not in caplog.text
    assert "Exception in ASGI" not in caplog.text
