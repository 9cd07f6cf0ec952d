"""The control socket of a running ``tallymark up`` is sent garbage by many connections at once,
some of which stay for ever: its memory and log are as before, ``status`` is answered meanwhile, and
it ends in its time."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from as_before import assert_as_before
from broker_process import BrokerProcess
from eventually import eventually

from tallymark.deployment import Cluster, Deployment, dump_toml
from tallymark.errors import UserError
from tallymark.processes.supervisor.control import NotRunningError, ask, socket_path
from tallymark.processes.supervisor.run import STOP_SECONDS, control_file

pytestmark = pytest.mark.process

MIB = 1 << 20
SEED = 20_261_122
SOME = (b"", b"\n", b"{", b"[]\n", b'{"do": "status"}\n', b'{"do": "kill"}\n', b"\x00" * 100)


@pytest.fixture
def small_stack(tmp_path: Path) -> Iterator[tuple[Deployment, subprocess.Popen[bytes], Path]]:
    """``up`` with one collector beside a broker that runs elsewhere."""
    with BrokerProcess(tmp_path) as broker:
        brokers = [{"host": "127.0.0.1", "port": broker.port}]
        cluster = {"name": "dc1", "kind": "apache-kafka", "embedded": False, "brokers": brokers}
        deployment = Deployment.model_validate(
            {
                "data_dir": tmp_path / "data",
                "clusters": [Cluster.model_validate(cluster)],
                "zookeeper": {"embedded": False},
                "registry": {"embedded": False},
                "dashboards": {"embedded": False},
            }
        )
        settings, log = tmp_path / "t.toml", tmp_path / "up.log"
        settings.write_text(dump_toml(deployment))
        with log.open("wb") as output:
            command = [sys.executable, "-m", "tallymark", "up", "--settings", str(settings)]
            up = subprocess.Popen(
                command, stdout=output, stderr=output, env={**os.environ, "PYTHONUNBUFFERED": "1"}
            )
        try:
            eventually(lambda: "The stack is up" in log.read_text(), seconds=60, what="it serves")
            yield deployment, up, log
        finally:
            up.kill()
            up.wait()


def garbage(chance: random.Random) -> bytes:
    if chance.random() < 0.4:
        return chance.choice(SOME)
    if chance.random() < 0.5:
        text = json.dumps({"do": "status", "name": "x" * chance.randrange(50)}).encode() + b"\n"
        mutated = bytearray(text)
        mutated[chance.randrange(len(mutated))] = chance.randrange(256)
        return bytes(mutated)
    return chance.randbytes(chance.randrange(1, 200_000))


def status_seconds(address: Path, times: int = 100) -> list[float]:
    found: list[float] = []
    for _ in range(times):
        began = time.monotonic()
        assert ask(address, {"do": "status"})["ok"]
        found.append(time.monotonic() - began)
    return found


def silent(address: Path, count: int) -> list[socket.socket]:
    links: list[socket.socket] = []
    for _ in range(count):
        links.append(socket.socket(socket.AF_UNIX))
        with socket_path(address) as path:
            links[-1].connect(path)
    return links


def attack(
    stack: tuple[Deployment, subprocess.Popen[bytes], Path], connections: int, growth: int
) -> tuple[list[float], list[float]]:
    """Returns the seconds that ``status`` took before and after."""
    deployment, up, log = stack
    chance, address = random.Random(SEED), control_file(deployment)
    before = status_seconds(address)
    memory, said = psutil.Process(up.pid).memory_info().rss, log.stat().st_size
    hanging: list[socket.socket] = []
    answered = asked = 0
    for number in range(connections):
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(5)
        try:
            with socket_path(address) as path:
                link.connect(path)
            link.send(garbage(chance))
        except (BlockingIOError, BrokenPipeError, ConnectionResetError, TimeoutError):
            pass  # its queue is full, or it had enough of it
        hanging.append(link)
        if len(hanging) > 200:
            hanging.pop(chance.randrange(len(hanging))).close()
        if number % 200 == 199:
            asked += 1
            try:
                answered += ask(address, {"do": "status"})["ok"]
            except NotRunningError:
                raise
            except UserError:  # those that came behind it pushed it out
                continue
    assert up.poll() is None, log.read_text()[-3000:]
    assert answered >= asked * 0.9
    collector = ask(address, {"do": "status"})["processes"][0]
    assert collector["state"] == "ready"
    assert collector["restarts"] == 0
    assert psutil.Process(up.pid).memory_info().rss - memory < growth
    assert log.stat().st_size - said < 10_000, log.read_text()[-3000:]
    assert psutil.Process(up.pid).num_fds() < 80
    eventually(lambda: psutil.Process(up.pid).num_fds() < 40, what="those that hang are cut off")
    after = status_seconds(address)
    hanging += silent(address, 20)
    up.send_signal(signal.SIGTERM)
    began = time.monotonic()
    up.wait(2 * STOP_SECONDS + 30)
    print(f"{answered} of {asked} answered; ended after {time.monotonic() - began:.1f} s")
    assert up.returncode == 0, log.read_text()[-3000:]
    for link in hanging:
        with closing(link):
            pass
    return before, after


def test_600_connections_of_garbage(
    small_stack: tuple[Deployment, subprocess.Popen[bytes], Path],
) -> None:
    attack(small_stack, 600, 20 * MIB)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_100_000_connections_of_garbage(
    small_stack: tuple[Deployment, subprocess.Popen[bytes], Path],
) -> None:
    before, after = attack(small_stack, 100_000, 40 * MIB)
    assert_as_before(before, after, 0.002, "status, s")
