"""Users, tokens and rights at a server, as clients meet them."""

from __future__ import annotations

import json
import logging
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import trustme
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from eventually import eventually

from tallymark.net.tls.contexts import server_context
from tallymark.net.web.access import WebAccess
from tallymark.net.web.guard import OwnNames
from tallymark.serialization import RegistryClient, RegistryError
from tallymark_schema_registry.access.document import (
    Document,
    GrantsPart,
    TokenPart,
    UserPart,
    changed_document,
    write_document,
)
from tallymark_schema_registry.access.hashes import PasswordHash, new_token, token_digest
from tallymark_schema_registry.access.log_in import registry_log_in
from tallymark_schema_registry.embedded import RegistryServer

TOKENS: Final = {name: new_token() for name in ("boss", "alice", "bob", "nobody")}
GRANTS: Final = {
    "boss": GrantsPart(admin=[":*:*"]),
    "alice": GrantsPart(admin=["mine-*"], read=["open-*"]),
    "bob": GrantsPart(write=["open-*"]),
    "nobody": GrantsPart(),
}
PASSWORD: Final = "correct horse"


class Served:
    """A registry whose users and tokens are in ``file``."""

    def __init__(self, folder: Path, *, tls: ssl.SSLContext | None = None) -> None:
        folder.mkdir(exist_ok=True)
        self.file = folder / "access.json"
        self.log = folder / "access.log"
        hashed = str(PasswordHash.of(PASSWORD, cost=10, passes=1))
        document = Document(
            users={"alice": UserPart(password=hashed, grants=GRANTS["alice"])},
            tokens={
                name: TokenPart(sha256=token_digest(token), grants=GRANTS[name])
                for name, token in TOKENS.items()
            },
        )
        write_document(self.file, document)
        access = WebAccess(OwnNames(("127.0.0.1",)), tls, registry_log_in(str(self.file), ""))
        self.server = RegistryServer(
            f"sqlite:///{folder / 'registry.db'}", access=access, access_log=self.log
        )
        self.url = self.server.url
        self._clients: list[httpx.Client] = []

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()
        self.server.close()

    def as_(self, name: str) -> httpx.Client:
        """A client that sends the token of this name."""
        headers = {"authorization": f"Bearer {TOKENS[name]}"}
        client = httpx.Client(base_url=self.url, headers=headers, timeout=30)
        self._clients.append(client)
        return client


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path / "registry") as found:
        yield found


def schema(name: str, *fields: str) -> dict[str, Any]:
    listed = [{"name": field, "type": "int", "default": 0} for field in fields]
    return {"schema": json.dumps({"type": "record", "name": name, "fields": listed})}


def fill(client: httpx.Client, *, secrets: bool) -> None:
    def put(subject: str, body: dict[str, Any]) -> None:
        answer = client.post(f"/subjects/{subject}/versions", json=body)
        assert answer.is_success, answer.text

    put("mine-a", schema("Mine"))
    put("open-a", schema("Open"))
    put("open-a", schema("Open", "b"))
    if secrets:
        put("secret", schema("Secret"))
        put("secret", {**schema("Secret", "c"), "references": [refers("open-a")]})
        put(":.hidden:a", schema("Hidden"))
        put(":.hidden:open-b", schema("Hidden"))
        assert client.put("/config/secret", json={"compatibility": "FULL"}).is_success
        assert client.put("/mode/secret", json={"mode": "READONLY"}).is_success


def refers(subject: str) -> dict[str, Any]:
    return {"name": "X", "subject": subject, "version": 1}


HIDDEN: Final = ("secret", "absent", ":.hidden:a", ":.absent:a", "open-b", "open-absent")
PATHS: Final = (
    *("/subjects", "/subjects?deleted=true", "/subjects?subjectPrefix=:*:", "/schemas"),
    *("/schemas?subjectPrefix=:*:", "/schemas?limit=1&offset=1", "/schemas?latestOnly=true"),
    *("/contexts", "/config", "/mode", "/schemas/types"),
    *(
        f"/schemas/ids/{number}{rest}"
        for number in (1, 4, 5, 99)
        for rest in ("", "/schema", "/versions", "/subjects", "?subject=secret", "?fetchMaxId=true")
    ),
    *(
        "/contexts/.hidden/schemas/ids/1",
        "/contexts/.hidden/subjects",
        "/contexts/.absent/subjects",
    ),
    *(
        path.format(subject)
        for subject in HIDDEN
        for path in (
            *("/subjects/{}/versions", "/subjects/{}/versions/latest", "/subjects/{}/versions/1"),
            *("/subjects/{}/versions/1/schema", "/subjects/{}/versions/1/referencedby"),
            *("/subjects/{}/metadata?key=a&value=b", "/config/{}", "/mode/{}"),
            *("/config/{}?defaultToGlobal=true", "/mode/{}?defaultToGlobal=true"),
        )
    ),
    "/subjects/open-a/versions/1/referencedby",
)
Asked = tuple[str, str, dict[str, Any] | None]


def requests() -> Iterator[Asked]:
    for path in PATHS:
        yield "GET", path, None
        yield "HEAD", path, None
    for subject in HIDDEN:
        yield "POST", f"/subjects/{subject}", schema("Secret")
        yield "POST", f"/subjects/{subject}/versions", schema("Other", "z")
        yield "POST", f"/subjects/{subject}/versions?dryRun=true", schema("Other", "z")
        yield "POST", f"/compatibility/subjects/{subject}/versions", schema("Other", "z")
        yield "POST", f"/compatibility/subjects/{subject}/versions/latest", schema("Other", "z")
        yield "POST", f"/subjects/{subject}/versions/1/restore", None
        yield "DELETE", f"/subjects/{subject}/versions/1", None
        yield "DELETE", f"/subjects/{subject}", None
        yield "DELETE", f"/config/{subject}", None
        yield "DELETE", f"/mode/{subject}", None
        yield "PUT", f"/config/{subject}", {"compatibility": "NONE"}
        yield "PUT", f"/mode/{subject}", {"mode": "READONLY"}
        body = {**schema("Mine", "z"), "references": [refers(subject)]}
        yield "POST", "/subjects/mine-a/versions", body
        yield "POST", "/subjects/mine-a", body
    yield "DELETE", "/contexts/.hidden", None
    yield "DELETE", "/contexts/.absent", None


def test_nothing_that_is_answered_tells_what_is_hidden(tmp_path: Path) -> None:
    """Status, body and every header, of all requests, are those of a server that does not have
    it."""
    with (
        Served(tmp_path / "with") as with_it,
        Served(tmp_path / "without") as without,
    ):
        fill(with_it.as_("boss"), secrets=True)
        fill(without.as_("boss"), secrets=False)
        one, other = with_it.as_("alice"), without.as_("alice")
        for method, path, body in requests():
            for _ in range(2):  # the second answer may be one that is remembered
                found, expected = (each.request(method, path, json=body) for each in (one, other))
                assert seen(found) == seen(expected), (method, path)
                assert found.status_code < 500
                assert "Secret" not in found.text
                assert "Hidden" not in found.text


def seen(answer: httpx.Response) -> tuple[Any, ...]:
    headers = {name: value for name, value in answer.headers.items() if name != "date"}
    return answer.status_code, answer.text, headers


def test_who_lacks_a_right_is_told_where_the_subject_may_be_read(served: Served) -> None:
    fill(served.as_("boss"), secrets=True)
    answer = served.as_("alice").post("/subjects/open-a/versions", json=schema("Open"))
    assert answer.status_code == 403
    assert answer.json() == {
        "error_code": 40301,
        "message": "token:alice may not write 'open-a'",
    }
    assert served.as_("bob").get("/subjects").json() == ["open-a"]
    assert served.as_("nobody").get("/subjects").json() == []
    assert served.as_("nobody").get("/schemas/ids/1").json()["error_code"] == 40403


def test_what_is_remembered_for_one_is_not_answered_to_another(served: Served) -> None:
    """Answers are kept by the bytes of a request; those of two users differ in one header only."""
    boss, alice, bob = (served.as_(name) for name in ("boss", "alice", "bob"))
    fill(boss, secrets=True)
    for _ in range(4):
        assert boss.get("/schemas/ids/4").status_code == 200
        assert alice.get("/schemas/ids/4").status_code == 404
        assert boss.get("/subjects/secret/versions/latest").status_code == 200
        assert alice.get("/subjects/secret/versions/latest").status_code == 404
        assert alice.get("/subjects/open-a/versions/latest").status_code == 200
        assert len(boss.get("/subjects").json()) > len(alice.get("/subjects").json())
        again = bob.post("/subjects/open-a/versions", json=schema("Open"))
        assert again.json()["id"] == 2
        assert alice.post("/subjects/open-a/versions", json=schema("Open")).status_code == 403


def test_a_right_that_is_taken_away_is_gone_within_a_second(served: Served) -> None:
    """Also what was remembered, on connections that stay open."""
    fill(served.as_("boss"), secrets=False)
    bob = served.as_("bob")
    for _ in range(3):
        assert bob.get("/schemas/ids/2").is_success
        assert bob.get("/subjects/open-a/versions/latest").is_success
    with changed_document(served.file) as document:
        document.tokens["bob"].grants = GrantsPart(read=["mine-*"])
    eventually(lambda: bob.get("/schemas/ids/2").status_code == 404)
    assert bob.get("/subjects/open-a/versions/latest").status_code == 404
    assert bob.get("/subjects").json() == ["mine-a"]
    with changed_document(served.file) as document:
        del document.tokens["bob"]
    eventually(lambda: bob.get("/schemas/ids/1").status_code == 401)


def test_who_did_it_stands_on_each_version(served: Served) -> None:
    boss, alice = served.as_("boss"), served.as_("alice")
    fill(boss, secrets=False)
    with httpx.Client(base_url=served.url, auth=("alice", PASSWORD)) as person:
        assert person.post("/subjects/mine-b/versions", json=schema("Mine", "x")).is_success
    assert alice.delete("/subjects/mine-a").json() == [1]
    added = [
        (change["subject"], change["by"])
        for change in boss.get("/changes").json()
        if change["record"] == "version-added"
    ]
    assert added[0] == ("mine-a", "token:boss")
    assert added[-1] == ("mine-b", "alice")
    assert boss.get("/changes").json()[-1]["by"] == "token:alice"


def test_no_secret_is_written_anywhere(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    secret, wrong = TOKENS["boss"], "tmr_wrong-token"
    with caplog.at_level(logging.DEBUG):
        for header in (f"Bearer {secret}", f"Bearer {wrong}", "Basic !", "Bearer"):
            answer = httpx.get(f"{served.url}/subjects", headers={"authorization": header})
            assert secret not in answer.text
            assert wrong not in answer.text
        httpx.get(f"{served.url}/subjects", auth=("alice", "not the password"))
        httpx.get(f"{served.url}/subjects", auth=("alice", PASSWORD))
    served.server.close()
    logged = served.log.read_text() + caplog.text
    assert " - alice [" in logged
    for each in (secret, wrong, PASSWORD, "not the password"):
        assert each not in logged
    assert TOKENS["boss"] not in served.file.read_text()


def test_health_needs_no_log_in_and_shows_nothing(served: Served) -> None:
    for path in ("/healthz", "/_health", "/master_available"):
        assert httpx.get(served.url + path).is_success, path
        assert httpx.get(f"{served.url}{path}/").status_code == 401, path
    for path in ("/", "/subjects", "/metrics", "/openapi.json", "/healthz/../subjects"):
        assert httpx.get(served.url + path).status_code == 401, path


def test_clients_of_the_ecosystem_log_in_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    key = authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem
    key.write_to_path(tmp_path / "server.pem")
    ca = str(tmp_path / "ca.pem")
    text = schema("Mine")["schema"]
    with Served(tmp_path / "served", tls=server_context(tmp_path / "server.pem", "")) as served:
        assert served.url.startswith("https://")
        usual = {"url": served.url, "ssl.ca.location": ca}
        with SchemaRegistryClient(usual | {"basic.auth.user.info": f"alice:{PASSWORD}"}) as theirs:
            assert theirs.register_schema("mine-value", Schema(text, "AVRO")) == 1
        bearer = {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": TOKENS["boss"],
            "bearer.auth.logical.cluster": "x",
            "bearer.auth.identity.pool.id": "y",
        }
        with SchemaRegistryClient(usual | bearer) as theirs:
            assert theirs.get_subjects() == ["mine-value"]
        with RegistryClient(
            served.url, ssl_truststore_location=ca, username="alice", password=PASSWORD
        ) as ours:
            assert ours.register("mine-value", text) == 1
        with RegistryClient(served.url, ssl_truststore_location=ca, token=TOKENS["nobody"]) as ours:
            assert ours.subjects() == []
            with pytest.raises(RegistryError) as refused:
                ours.register("mine-value", text)
            assert refused.value.code == 40301


def test_many_first_requests_at_once_all_get_in(served: Served) -> None:
    """A service opens its connections at once, and each hashed the password; most were told 429."""
    found: list[int] = []

    def ask() -> None:
        answer = httpx.get(f"{served.url}/subjects", auth=("alice", PASSWORD), timeout=60)
        found.append(answer.status_code)

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [200] * 20
