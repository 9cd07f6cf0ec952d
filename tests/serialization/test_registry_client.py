"""The client against the real registry, and against servers that misbehave."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tallymark.errors import ConnectError, TimedOutError, UserError
from tallymark.processes.free_ports import free_ports
from tallymark.serialization import (
    AvroDecoder,
    AvroEncoder,
    RegistryClient,
    RegistryError,
    SerializationError,
)
from tallymark.serialization.http_retry import Http
from tallymark_schema_registry.embedded import RegistryServer

ONE = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
TWO = '{"type":"record","name":"R","fields":[{"name":"b","type":"int"}]}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    store = tmp_path_factory.mktemp("registry") / "registry.db"
    with RegistryServer(f"sqlite:///{store}") as server:
        yield server


@pytest.fixture
def client(server: RegistryServer) -> Iterator[RegistryClient]:
    with RegistryClient(server.url + "/") as client:
        yield client


def test_everything_it_can_ask(client: RegistryClient) -> None:
    subject = "odd/näme %-value"
    assert client.latest(subject) is None
    assert client.versions(subject) == []
    schema_id = client.register(subject, ONE)
    assert client.schema(schema_id) == ONE
    found = client.lookup(subject, ONE)
    assert found is not None
    assert found == client.latest(subject) == client.version(subject, 1)
    assert (found.subject, found.version, found.schema_id, found.text) == (
        subject,
        1,
        schema_id,
        ONE,
    )
    assert client.lookup(subject, '"int"') is None
    assert client.versions(subject) == [1]
    assert subject in client.subjects()
    assert client.conflicts(subject, ONE) == []
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in client.conflicts(subject, TWO)[0]
    with pytest.raises(RegistryError, match="incompatible with an earlier schema") as refused:
        client.register(subject, TWO)
    assert (refused.value.status, refused.value.code) == (409, 409)
    assert client.level(subject) == client.level() == "BACKWARD"
    client.set_level("NONE", subject)
    assert client.level(subject) == "NONE"
    assert client.register(subject, TWO) == schema_id + 1
    with pytest.raises(RegistryError) as missing:
        client.schema(4711)
    assert missing.value.status == 404


def test_encoder_and_decoder(client: RegistryClient) -> None:
    encoder = AvroEncoder(client, ONE)
    data = encoder("orders", {"a": 5})
    assert data[0] == 0
    assert client.lookup("orders-value", ONE) is not None
    decoder = AvroDecoder(client)
    assert decoder("orders", memoryview(data)) == decoder.decode(data) == {"a": 5}
    AvroEncoder(client, ONE, subject="other")("orders", {"a": 5})
    assert client.versions("other") == [1]
    with pytest.raises(RegistryError, match="not found"):
        decoder.decode(b"\x00\x00\x00\xff\xff\x02")
    with pytest.raises(SerializationError):
        decoder.decode(b"hello")


def test_a_value_that_does_not_fit_registers_nothing(client: RegistryClient) -> None:
    with pytest.raises(SerializationError):
        AvroEncoder(client, ONE)("nothing", {"a": "x"})
    assert client.versions("nothing-value") == []


def test_ids_and_schemas_are_asked_for_once(tmp_path: Path) -> None:
    """By many threads at once, too: consumers start together."""
    log = tmp_path / "access.log"
    store = f"sqlite:///{tmp_path / 'r.db'}"
    with RegistryServer(store, access_log=log) as server, RegistryClient(server.url) as client:
        with ThreadPoolExecutor(8) as pool:
            texts = pool.map(lambda _: client.schema(client.register("s", ONE)), range(8))
        assert set(texts) == {ONE}
    assert len(log.read_text().splitlines()) == 2


def test_nobody_listens() -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with RegistryClient(url, attempts=2) as client, pytest.raises(ConnectError) as error:
        client.subjects()
    assert url in str(error.value)
    assert "tallymark registry" in str(error.value)


def test_no_answer_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        client = RegistryClient(url, timeout=0.05, attempts=1)
        with client, pytest.raises(TimedOutError, match="did not answer GET /subjects within"):
            client.subjects()


class Scripted(BaseHTTPRequestHandler):
    """Answers with the next (status, body) of the script, the last one for ever."""

    script: list[tuple[int, bytes]]

    def do_GET(self) -> None:
        status, body = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def scripted() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Scripted) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_trouble_of_the_registry_is_waited_out(scripted: str) -> None:
    Scripted.script = [(503, b"<html>"), (500, b'{"error_code":50001,"message":"x"}'), (200, b"[]")]
    slept: list[float] = []
    http = Http(scripted, 5, attempts=4, back_off_s=1.0, sleep=slept.append)
    assert http.request("GET", "/subjects") == []
    http.close()
    assert 0.5 <= slept[0] <= 1.5
    assert 1.0 <= slept[1] <= 3.0


def test_trouble_that_stays_is_told(scripted: str) -> None:
    Scripted.script = [(500, b'{"error_code":50001,"message":"Error in the backend data store"}')]
    http = Http(scripted, 5, attempts=3, sleep=lambda _: None)
    with pytest.raises(
        RegistryError, match=r"50001: Error in the backend data store.*; the log of"
    ):
        http.request("GET", "/subjects")
    http.close()


@pytest.mark.parametrize("answer", [(200, b"<html>"), (404, b"nope"), (200, b'{"x": 1}')])
def test_a_server_that_is_no_registry(scripted: str, answer: tuple[int, bytes]) -> None:
    Scripted.script = [answer]
    with RegistryClient(scripted) as client, pytest.raises(RegistryError, match="schema registry"):
        client.schema(1)


@pytest.mark.parametrize("url", ["", "localhost:8081", "ftp://x", "http://"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(UserError, match="not the address of a schema registry"):
        RegistryClient(url)
