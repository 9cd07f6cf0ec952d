"""What describes the registry itself, and what holds for every path."""

from __future__ import annotations

import threading
import time

import pytest
from rest_api import CLASHING, GROWN, Api, covers

from tallymark_schema_registry.web.negotiate import V1


@covers("GET /", 200)
@covers("GET /healthz", 200)
@covers("GET /_health", 200)
@covers("GET /master_available", 200)
@covers("GET /schemas/types", 200)
@covers("GET /v1/metadata/id", 200)
@covers("GET /v1/metadata/version", 200)
@covers("GET /v1/metadata/deployment", 200)
@covers("GET /deployment", 200)
def test_how_the_registry_is(api: Api) -> None:
    assert api.get("/").json() == {}
    assert api.get("/healthz").json() == {"status": "ok"}
    assert api.get("/_health").json()["healthy"] is True
    assert api.get("/master_available").json() == {"master_available": True}
    assert api.get("/schemas/types").json() == ["AVRO"]
    assert api.get("/v1/metadata/id").json()["scope"]["path"] == []
    assert set(api.get("/v1/metadata/version").json()) == {"version", "commitId", "server"}
    for path in ("/deployment", "/v1/metadata/deployment"):
        assert api.get(path).json() == {"attributes": []}


@covers("GET /associations/{path}", 200)
def test_clients_that_ask_for_associations_first_get_none(api: Api) -> None:
    query = "resourceType=topic&associationType=value"
    assert api.get(f"/associations/resources/-/orders?{query}").json() == []


def test_unknown_routes_and_methods_answer_in_the_registrys_shape(api: Api) -> None:
    api.refused(api.get("/nowhere"), 404, "HTTP 404 Not Found")
    answer = api.delete("/subjects")
    api.refused(answer, 405, "HTTP 405 Method Not Allowed")
    assert answer.headers["allow"] == "GET, HEAD"
    assert api.ask("PATCH", "/config").headers["allow"] == "DELETE, GET, HEAD, PUT"
    api.refused(api.post("/associations/x/y", {}), 405)


@covers("GET /changes", 200)
def test_the_feed_of_changes(api: Api) -> None:
    def numbers(query: str) -> list[int]:
        return [change["number"] for change in api.get(f"/changes?{query}").json()]

    api.register()
    last = numbers("since=0&limit=0")[-1]
    while more := numbers(f"since={last}"):
        last = more[-1]
    assert numbers(f"since={last}") == []
    api.register(GROWN)
    found = api.get(f"/changes?since={last}").json()
    assert [change["number"] for change in found] == list(range(last + 1, last + 1 + len(found)))
    assert found[-1]["subject"] == api.subject
    assert numbers(f"since={last}&limit=1") == [last + 1]


@covers("GET /changes", 200)
def test_a_change_is_waited_for(api: Api) -> None:
    api.register()
    last = 0
    while more := api.get(f"/changes?since={last}").json():
        last = more[-1]["number"]
    later = threading.Timer(0.3, lambda: api.register(GROWN))
    began = time.monotonic()
    later.start()
    found = api.get(f"/changes?since={last}&wait=20").json()
    later.join()
    assert found
    assert found[0]["number"] == last + 1
    assert 0.2 < time.monotonic() - began < 15
    last = api.get(f"/changes?since={last}").json()[-1]["number"]
    assert api.get(f"/changes?since={last}&wait=1").json() == []


def test_what_a_client_may_keep(api: Api) -> None:
    """A schema by its id never changes. What may change is asked for again, and is a 304 as long
    as it is the same."""
    schema_id = api.register()
    by_id = api.get(f"/schemas/ids/{schema_id}")
    assert by_id.headers["cache-control"] == "private, max-age=31536000, immutable"
    latest = f"/subjects/{api.subject}/versions/latest"
    for path in (latest, f"/subjects/{api.subject}/versions", "/subjects", "/config", "/mode"):
        first = api.get(path)
        assert first.headers["cache-control"] == "private, no-cache"
        same = api.get(path, headers={"if-none-match": first.headers["etag"]})
        assert (same.status_code, same.content) == (304, b"")
        assert same.headers["etag"] == first.headers["etag"]
    held = {"if-none-match": f'W/"x", {api.get(latest).headers["etag"]}'}
    assert api.get(latest, headers=held).status_code == 304
    api.register(GROWN)
    assert api.get(latest, headers=held).json()["version"] == 2
    more = api.get(f"/schemas/ids/{schema_id}?fetchMaxId=true")
    assert more.headers["cache-control"] == "private, no-cache"
    refused = api.post(f"/subjects/{api.subject}/versions", {"schema": CLASHING})
    assert "etag" not in refused.headers


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("*/*", V1),
        ("*/anything", V1),
        ("*/json;q=0.2, text/html", V1),
        ("application/*", V1),
        ("application/json", "application/json"),
        (
            "application/json;q=0.5, application/vnd.schemaregistry+json",
            "application/vnd.schemaregistry+json",
        ),
        ("text/html, */*;q=0.1", V1),
        ("application/json; q=x", "application/json"),
    ],
)
def test_the_answers_content_type(api: Api, accept: str, media: str) -> None:
    """``*/anything`` was a 406."""
    answer = api.get("/subjects", headers={"accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (200, media)
    error = api.get("/nowhere", headers={"accept": accept})
    assert (error.status_code, error.headers["content-type"]) == (404, media)


def test_an_answer_that_the_client_does_not_take(api: Api) -> None:
    for accept in ("text/html", "*/*;q=0"):
        api.refused(api.get("/subjects", headers={"accept": accept}), 406)


def test_the_pages_of_the_api_load_nothing(api: Api) -> None:
    document = api.get("/openapi.json", headers={"accept": "text/html"})
    assert document.headers["content-type"] == "application/json"
    page = api.get("/docs", headers={"accept": "text/html"})
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "<script" not in page.text
    assert "http://" not in page.text
    assert "https://" not in page.text
    for path in document.json()["paths"]:
        assert f"<code>{path}</code>" in page.text
