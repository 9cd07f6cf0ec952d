"""Registry, dashboards and metrics with TLS and log-ins, all from ``[security]`` of one file."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from click.testing import CliRunner
from prometheus_client import CollectorRegistry, Gauge

from tallymark.cli.admin.users import command as users_command
from tallymark.client.core.metrics_page import MetricsPage
from tallymark.client.core.security.http import http_access, registry_settings
from tallymark.deployment import Deployment, dump_toml, load
from tallymark.deployment.places import places
from tallymark.errors import ConnectError, UserError
from tallymark.processes.ports import with_free_ports
from tallymark.serialization import RegistryClient, RegistryError
from tallymark.testing.broker_thread import BrokerThread
from tallymark_dashboards.server import DashboardServer
from tallymark_schema_registry.embedded import RegistryServer


@dataclass(frozen=True)
class World:
    """Files of a deployment; ``raw`` is its ``[security]``."""

    folder: Path
    raw: dict[str, Any]
    trusting: ssl.SSLContext

    def deployment(self, **more: Any) -> Deployment:
        return Deployment.model_validate({"data_dir": self.folder, "security": self.raw, **more})

    def client(self, login: tuple[str, str] | None = None) -> httpx.Client:
        return httpx.Client(verify=self.trusting, auth=login, trust_env=False)


@pytest.fixture
def world(tmp_path: Path) -> World:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    key = authority.issue_cert("127.0.0.1", "localhost").private_key_and_cert_chain_pem
    key.write_to_path(tmp_path / "server.pem")
    (tmp_path / "alice.secret").write_text("open sesame\n")
    arguments = ["add", "alice", "--data", str(tmp_path / "web"), "--password-file"]
    done = CliRunner().invoke(users_command, [*arguments, str(tmp_path / "alice.secret")])
    assert done.exit_code == 0, done.output
    raw = {
        "ssl_keystore_location": str(tmp_path / "server.pem"),
        "users_file": str(tmp_path / "web" / "security.json"),
        "ssl_truststore_location": str(tmp_path / "ca.pem"),
        "username": "alice",
        "password_file": str(tmp_path / "alice.secret"),
    }
    return World(tmp_path, raw, ssl.create_default_context(cafile=str(tmp_path / "ca.pem")))


ALICE = ("alice", "open sesame")


@pytest.fixture
def registry(world: World) -> Iterator[RegistryServer]:
    access = http_access(world.deployment().security, "the registry", "0.0.0.0", False, "x")
    store = f"sqlite:///{world.folder / 'registry.db'}"
    with RegistryServer(store, host="0.0.0.0", access=access) as server:
        yield server


def test_the_registry_and_its_clients(world: World, registry: RegistryServer) -> None:
    port = int(registry.url.rpartition(":")[2])
    assert registry.url.startswith("https://")
    deployment = world.deployment(registry={"port": port})
    assert deployment.registry.url == f"https://127.0.0.1:{port}"
    settings = registry_settings(deployment)
    with RegistryClient(**settings) as client:
        assert client.schema(client.register("s", '"int"')) == '"int"'
    with (
        RegistryClient(
            settings["url"],
            attempts=1,
            ssl_truststore_location=settings["ssl_truststore_location"],
            username="alice",
            password="wrong",
        ) as client,
        pytest.raises(RegistryError, match="log in") as refused,
    ):
        client.subjects()
    assert refused.value.status == 401
    with (
        RegistryClient(settings["url"], attempts=1) as client,
        pytest.raises(ConnectError, match="certificate"),
    ):
        client.subjects()
    with world.client() as http:
        answer = http.get(f"https://127.0.0.1:{port}/subjects")
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic ")
        assert http.get(f"https://127.0.0.1:{port}/healthz").is_success
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://127.0.0.1:{port}/healthz")


def test_our_own_clients_may_have_a_token(world: World, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("tmr_x\n")
    security = {"token_file": str(tmp_path / "token")}
    found = registry_settings(Deployment.model_validate({"security": security}))
    assert found == {"url": "http://127.0.0.1:8081", "token": "tmr_x"}
    security |= {key: world.raw[key] for key in ("username", "password_file")}
    found = registry_settings(Deployment.model_validate({"security": security}))
    assert "token" not in found


def test_the_dashboards(world: World) -> None:
    deployment = with_free_ports(world.deployment(dashboards={"port": 0}))
    server = DashboardServer(deployment)
    try:
        url = deployment.dashboards.url
        assert url.startswith("https://")
        with world.client() as http:
            for path in ("/", "/api/v1/audit/overview", "/metrics", "/live", "/static/app.css"):
                assert http.get(url + path).status_code == 401, path
        with world.client(ALICE) as http:
            assert http.get(f"{url}/").is_success
            assert http.get(f"{url}/api/v1/audit/overview").is_success
    finally:
        server.close()
    log = (deployment.log_dir / "dashboards-access.log").read_text()
    assert " - alice [" in log
    assert "sesame" not in log


def test_the_metrics_of_a_process(world: World) -> None:
    registry = CollectorRegistry()
    Gauge("of_a_test", "x", registry=registry).set(7)
    access = http_access(world.deployment().security, "the metrics", "0.0.0.0", False, "x")
    page = MetricsPage(registry, "0.0.0.0", 0, "test", access)
    url = f"https://127.0.0.1:{page.address.port}/metrics"
    try:
        with world.client() as http:
            assert http.get(url).status_code == 401
            assert http.get(url, headers={"Host": "evil.example"}).status_code == 421
        with world.client(ALICE) as http:
            assert "of_a_test 7.0" in http.get(url).text
            foreign = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
            assert http.get(url, headers=foreign).status_code == 403
    finally:
        page.close()


def test_the_metrics_of_a_broker_ask_for_its_users(world: World) -> None:
    folder = world.folder / "broker"
    arguments = ["add", "alice", "--data", str(folder / "broker"), "--password-file", "-"]
    assert CliRunner().invoke(users_command, arguments, input="open sesame").exit_code == 0
    with BrokerThread(
        folder,
        metrics_port=0,
        metrics_host="0.0.0.0",
        ssl_keystore_location=world.raw["ssl_keystore_location"],
    ) as running:
        assert running.broker is not None
        assert running.broker.metrics_address is not None
        url = f"https://127.0.0.1:{running.broker.metrics_address.port}"
        with world.client() as http:
            assert http.get(f"{url}/metrics").status_code == 401
            assert http.get(f"{url}/health").is_success
        with world.client(ALICE) as http:
            assert "tallymark_broker_status" in http.get(f"{url}/metrics").text


@pytest.mark.parametrize(
    ("lacking", "words"),
    [
        ({"ssl_keystore_location": ""}, "without TLS"),
        ({"users_file": ""}, "without log-in"),
        ({"ssl_keystore_location": "", "users_file": ""}, "without TLS and log-in"),
    ],
)
def test_off_loopback_half_of_it_is_not_enough(
    world: World, lacking: dict[str, str], words: str
) -> None:
    security = Deployment.model_validate({"security": {**world.raw, **lacking}}).security
    with pytest.raises(UserError, match=f"{words};"):
        http_access(security, "the registry", "0.0.0.0", False, "x")
    http_access(security, "the registry", "0.0.0.0", True, "x")
    http_access(security, "the registry", "127.0.0.1", False, "x")


@pytest.mark.process
@pytest.mark.parametrize("command", ["registry", "dashboards"])
def test_the_processes_do_not_start_open_to_others(tmp_path: Path, command: str) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(f'data_dir = "{tmp_path}"\n[{command}]\nhost = "0.0.0.0"\nport = 0\n')
    started = [sys.executable, "-m", "tallymark", command, "--settings", str(settings)]
    done = subprocess.run(started, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert f"or say {command}.allow_plaintext = true" in done.stderr
    assert "Traceback" not in done.stderr


def test_files_that_are_not_there_are_named(world: World) -> None:
    for name in ("ssl_keystore_location", "users_file"):
        raw = {**world.raw, name: "/nowhere/file"}
        security = Deployment.model_validate({"security": raw}).security
        with pytest.raises(UserError, match="/nowhere/file"):
            http_access(security, "the registry", "127.0.0.1", False, "x")
    without = world.deployment().model_copy(
        update={"security": world.deployment().security.model_copy(update={"password_file": ""})}
    )
    with pytest.raises(UserError, match="no password of 'alice'"):
        registry_settings(without)


def test_the_scheme_stands_in_every_address(world: World, tmp_path: Path) -> None:
    """Also in what ``up`` writes and other processes read, and without the model."""
    deployment = world.deployment()
    (tmp_path / "written.toml").write_text(dump_toml(deployment))
    read = load(tmp_path / "written.toml")
    assert read == deployment
    assert read.dashboards.url == "https://127.0.0.1:8080"
    assert read.registry.url == "https://127.0.0.1:8081"
    found = places({"security": world.raw})
    assert found is not None
    assert (found.registry.url, found.dashboards.url) == (read.registry.url, read.dashboards.url)
    assert Deployment().registry.url == "http://127.0.0.1:8081"


def test_handshakes_that_never_end_do_not_fill_the_metrics(world: World) -> None:
    registry = CollectorRegistry()
    access = http_access(world.deployment().security, "the metrics", "127.0.0.1", False, "x")
    page = MetricsPage(registry, "127.0.0.1", 0, "test", access)

    async def silent() -> int:
        opened = [await asyncio.open_connection("127.0.0.1", page.address.port) for _ in range(40)]
        refused = 0
        for reader, _ in opened[32:]:
            try:
                refused += await asyncio.wait_for(reader.read(1), 20) == b""
            except ConnectionError:
                refused += 1
        for _, writer in opened:
            writer.transport.abort()
        return refused

    try:
        assert asyncio.run(silent()) == 8
    finally:
        page.close()
