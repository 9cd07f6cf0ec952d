"""docs/security.md: its settings, commands and snippets work as they are printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from eventually import eventually
from project import ROOT
from running_stack import stack_of
from security_world import Certificates, make_certificates
from token_world import Issuer

from tallymark import Producer
from tallymark.broker.settings.properties_file import read_properties
from tallymark.broker.settings.text import parse
from tallymark.client import connection_settings
from tallymark.client.core.security.security import client_security
from tallymark.coordination import NotAuthorizedError, ZooKeeper
from tallymark.deployment import dump_toml, load
from tallymark.processes.ports import with_free_ports
from tallymark.testing import BrokerThread
from tallymark.testing.zookeeper import free_port
from tallymark_schema_registry.access.access_file import AccessFile
from tallymark_schema_registry.access.grants import Right
from tallymark_schema_registry.catalog.subject import Subject

PAGE = (ROOT / "docs" / "security.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
SHELL = [text for _, text in BLOCKS if text.startswith("tallymark ")]
SETTINGS = [text for kind, text in BLOCKS if not kind and not text.startswith(("tallymark ", "{"))]
TOML = [text for kind, text in BLOCKS if kind == "toml"]
SNIPPETS = [text for kind, text in BLOCKS if kind == "python"]
FOLDER = "/etc/tallymark"
SECRET = "geheim"


@dataclass(frozen=True)
class Place:
    """A broker that was started with all settings of the page, and what the page's files are."""

    folder: Path
    certificates: Certificates
    issuer: Issuer
    address: str
    port: int

    def here(self, text: str) -> str:
        """A block of the page with this test's files, addresses and data folder."""
        stands = {
            FOLDER: str(self.folder),
            "broker-7.example:9094": self.address,
            "broker-7.example": "127.0.0.1",
            "9094": str(self.port),
            "--cluster dc1": f"--data {self.folder / 'broker'}",
            "users add alice --": "users add alice --password-file secret.txt --",  # no terminal
        }
        for printed, is_here in stands.items():
            text = text.replace(printed, is_here)
        return text


def encrypted(keystore: Path) -> bytes:
    """The same with a private key that asks for :data:`SECRET`."""
    data = keystore.read_bytes()
    key = serialization.load_pem_private_key(data, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(SECRET.encode()),
    )
    return key + data[data.index(b"-----BEGIN CERTIFICATE") :]


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run by bash, without a terminal, with our ``tallymark`` on the PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(folder)}
    return subprocess.run(
        ["bash", "-ec", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        start_new_session=True,
    )


def settings_of_the_page(place: Place) -> dict[str, Any]:
    """Of all blocks, one after the other, as somebody who follows the page writes them."""
    text = place.here("".join(SETTINGS)).replace(
        "https://idp.example/keys", f"file://{place.folder}/keys.json"
    )
    plain = text.replace("127.0.0.1:9092", "127.0.0.1:0")
    return dict(read_properties(plain, "docs/security.md").values)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("etc")
    certificates = make_certificates(folder / "certificates")
    issuer, port = Issuer(), free_port()
    for name in ("key.secret", "broker.secret", "zookeeper.secret", "secret.txt", "mirror.secret"):
        (folder / name).write_text(f"{SECRET}\n")
    (folder / "broker.pem").write_bytes(encrypted(certificates.broker))
    (folder / "keys.json").write_bytes(issuer.key_set())
    for name in ("ca.pem", "clients-ca.pem"):
        (folder / name).write_bytes(certificates.authority.read_bytes())
    (folder / "me.pem").write_bytes(certificates.alice.read_bytes())
    found = Place(folder, certificates, issuer, f"127.0.0.1:{port}", port)
    settings = settings_of_the_page(found)
    settings["sasl.enabled.mechanisms"] += ",SCRAM-SHA-512"
    data = f"--data {folder / 'broker'}"
    others = f"""
        tallymark users add mirror --password-file secret.txt {data}
        tallymark acls add --allow 'User:*' --operation all --topic '*' {data}"""
    done = shell("".join(map(found.here, SHELL[:2])) + others, folder)
    assert done.returncode == 0, done.stderr
    fields = parse(settings | {"enable.zookeeper": False}).model_dump(exclude_unset=True)
    with BrokerThread(folder, **fields):
        yield found


def test_the_page_has_what_is_tried_here() -> None:
    assert (len(SHELL), len(SETTINGS), len(TOML), len(SNIPPETS)) == (5, 6, 6, 2)


def test_brokers_of_one_machine_ask_for_a_log_in_each_on_its_port(tmp_path: Path) -> None:
    (tmp_path / "broker.secret").write_text(SECRET)
    text = TOML[4].replace("/path/to", str(tmp_path))
    settings = parse(
        tomllib.loads(text)["clusters"]["broker_settings"]
        | {"zookeeper.user": "brokers", "zookeeper.password": SECRET, "port": 9093}
    )
    assert [(one.protocol, one.port) for one in settings.listening()] == [("SASL_PLAINTEXT", 9093)]


def test_settings_can_be_copied() -> None:
    """Somebody copied the page's settings of tokens into server.properties. Behind the audience
    stood what it is for, behind a ``#``; in such a file that is a part of the value, as with Kafka.
    The broker started, and refused every token for another audience."""
    for block in SETTINGS:
        for name, value in read_properties(block, "docs/security.md").values.items():
            assert "#" not in value, name


@pytest.mark.process
def test_the_commands_and_clients_of_the_page_get_in(place: Place) -> None:
    """Users and entries were made by the commands; certificates, token and password let in."""
    given: list[dict[str, Any]] = []
    world = {
        "Producer": lambda *_, **settings: given.append(settings),
        "password": SECRET,
        "secret": SECRET,
        "my_token": lambda: place.issuer.token("etl", iss="https://idp.example"),
    }
    for snippet in SNIPPETS:
        exec(place.here(snippet).replace("from tallymark import Producer", ""), world)
    endpoint, provider, user = given
    assert client_security({"security_protocol": "SASL_SSL"} | endpoint, Producer).sasl is not None
    files = {
        name: place.folder / value for name, value in user.items() if name.endswith("_location")
    }
    usual = user | files
    tls = {name: usual[name] for name in ("bootstrap_servers", "security_protocol")}
    tls |= {"ssl_truststore_location": usual["ssl_truststore_location"]}
    (place.folder / "tallymark.toml").write_text(place.here(TOML[5]))
    deployed = load(place.folder / "tallymark.toml").cluster("dc1")
    assert deployed.bootstrap_servers == place.address
    logins: list[dict[str, Any]] = [usual, tls | provider, {**connection_settings(deployed)}]
    for settings in logins:
        with Producer(audit=False, **settings) as producer:
            assert producer.send("clicks", b"x").result(20).offset >= 0


def test_the_settings_of_what_speaks_http(place: Place) -> None:
    (place.folder / "http.toml").write_text(place.here(TOML[0]))
    found = load(place.folder / "http.toml")
    assert found.registry.url == "https://registry.example:8081"
    assert set(tomllib.loads(TOML[0])) == {"security", "registry"}


@pytest.mark.process
def test_the_rights_in_the_registry(tmp_path: Path) -> None:
    """The commands, with the file that the page's settings name."""
    (tmp_path / "secret.txt").write_text(f"{SECRET}\n")
    (tmp_path / "tallymark.toml").write_text(TOML[1].replace(FOLDER, str(tmp_path)))
    script = SHELL[2].replace("add-user alice", "add-user alice --password-file secret.txt")
    done = shell(script, tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "user:alice: added"
    assert lines[1].startswith("tmr_")
    assert "yes" in lines
    accounts = AccessFile(tmp_path / "registry-access.json")
    assert accounts.fits("alice", SECRET)
    assert accounts.token(lines[1].encode()) is None
    alice = accounts.user("alice")
    assert alice is not None
    assert alice.may(Right.ADMIN, Subject(".sandbox", "a"))
    assert alice.may(Right.READ, Subject(".", "orders-value"))
    assert not alice.may(Right.WRITE, Subject(".", "orders-value"))


def test_the_tokens_of_an_issuer(tmp_path: Path) -> None:
    (tmp_path / "tokens.toml").write_text(TOML[2])
    found = load(tmp_path / "tokens.toml").registry.tokens
    assert (found.jwks, found.audience) == ("https://idp.example/keys", ("tallymark",))


@pytest.mark.process
def test_try_it(tmp_path: Path) -> None:
    """The block at the page's end, by a new user in a fresh folder."""
    script = SHELL[3].replace("/tmp/secured", str(tmp_path / "secured"))
    script = script.replace("127.0.0.1:9092", f"127.0.0.1:{free_port()}")
    done = shell(script + "wait\n", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "hello\n" in done.stdout


@pytest.mark.process
@pytest.mark.timeout(300)
def test_try_it_with_the_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``tallymark up`` of a deployment that is secured from the beginning: what it starts waits for
    its user, whom only a ZooKeeper that runs can be told of."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ops.secret").write_text(f"{SECRET}\n")
    (tmp_path / "tallymark.toml").write_text(TOML[3])
    deployment = with_free_ports(load(tmp_path / "tallymark.toml"))
    port = deployment.cluster("dc1").brokers[0].port
    text = dump_toml(deployment).replace("127.0.0.1:9092", f"127.0.0.1:{port}")
    (tmp_path / "tallymark.toml").write_text(text)
    with stack_of(tmp_path, load(tmp_path / "tallymark.toml")) as stack:
        done = shell(SHELL[4], tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == "ops: added\nclicks: created\n"
        with ZooKeeper(f"{deployment.zookeeper.connect}/dc1") as stranger:
            assert "clicks" in stranger.children("/brokers/topics")
            with pytest.raises(NotAuthorizedError):
                stranger.read("/config/users/ops")
        eventually(lambda: stack.process("collector-dc1")["state"] == "ready", seconds=60)
