"""``tallymark registry`` as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

pytestmark = pytest.mark.process


@contextmanager
def started(folder: Path, port: int = 0, more: str = "") -> Iterator[subprocess.Popen[str]]:
    """The process, killed at the end whatever happened. ``more``: in its settings."""
    settings = folder / "deployment.toml"
    settings.write_text(f'data_dir = "{folder / "data"}"\n[registry]\nport = {port}\n{more}')
    command = [sys.executable, "-m", "tallymark", "registry", "--settings", str(settings)]
    environment = {**os.environ, "PYTHONWARNINGS": "default"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def url_of(process: subprocess.Popen[str]) -> str:
    """Waits for the first line, which says ready and where."""
    assert process.stderr is not None
    line = process.stderr.readline()
    assert " registry: ready http://127.0.0.1:" in line
    return line.split()[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_stopped(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path) as process:
        url = url_of(process)
        answer = httpx.post(f"{url}/subjects/x/versions", json={"schema": '"int"'})
        assert answer.json() == {"id": 1}
        process.send_signal(number)
        _, said = process.communicate(timeout=20)
        assert process.returncode == 0
        assert "Traceback" not in said
        assert "Warning" not in said
    log = tmp_path / "data" / "logs" / "registry-access.log"
    assert '"POST /subjects/x/versions HTTP/1.1" 200 8' in log.read_text()


def test_what_was_registered_survives_a_kill(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        schema = {"schema": '"int"'}
        httpx.post(f"{url_of(process)}/subjects/x/versions", json=schema).raise_for_status()
        process.kill()
    with started(tmp_path) as process:
        assert httpx.get(f"{url_of(process)}/schemas/ids/1").json() == {"schema": '"int"'}
    with started(tmp_path, more="response_profile = 8\n") as process:
        answer = httpx.get(f"{url_of(process)}/subjects/x/versions/1").json()
        assert (answer["schemaType"], answer["deleted"]) == ("AVRO", False)


def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    with started(tmp_path) as first:
        port = int(url_of(first).rpartition(":")[2])
        with started(tmp_path, port) as second:
            _, said = second.communicate(timeout=20)
            assert second.returncode == 1
        assert f"cannot listen on 127.0.0.1:{port}" in said
        assert said.count("\n") == 1
