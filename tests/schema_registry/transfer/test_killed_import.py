"""The import as a process: killed, stopped, started again; and ten thousand schemas."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from commands import run_command
from eventually import eventually
from memory_registry import exported, version

from tallymark_schema_registry.cli import command as schema
from tallymark_schema_registry.embedded import RegistryServer
from tallymark_schema_registry.transfer.snapshot import Snapshot

pytestmark = pytest.mark.process


def text_of(number: int) -> str:
    """About 2 kB."""
    fields = ",".join(
        f'{{"name":"f{at}","type":["null","string"],"doc":"what it is","default":null}}'
        for at in range(28)
    )
    return f'{{"type":"record","name":"R{number}","namespace":"x","fields":[{fields}]}}'


def many(count: int) -> Snapshot:
    """Five versions a subject; each tenth is deleted softly, a few share a schema."""
    made = Snapshot(configs={"": {"compatibilityLevel": "FULL"}}, modes={"": "READWRITE"})
    for number in range(count):
        subject = f"subject-{number // 5}"
        place = f"{subject}/{number % 5 + 1}"
        schema_id = number + 1 if number % 7 else 1_000_000 + number % 35
        made.add(version(place, schema_id, text_of(schema_id), deleted=number % 10 == 9))
    made.configs["subject-3"] = {"compatibilityLevel": "NONE"}
    made.modes["subject-4"] = "READONLY"
    return made


@contextmanager
def importing(file: Path, url: str) -> Iterator[subprocess.Popen[str]]:
    """``tallymark schema import``, killed at the end whatever happened."""
    command = [sys.executable, "-m", "tallymark", "schema", "import", str(file)]
    with subprocess.Popen(
        [*command, "--registry", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def registered(url: str) -> int:
    return len(httpx.get(f"{url}/schemas?deleted=true").json())


def has_at_least(url: str, count: int) -> bool:
    return registered(url) >= count


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with RegistryServer(f"sqlite:///{tmp_path / 'registry.db'}") as server:
        yield server.url


def check_whole(url: str, file: Path) -> None:
    run_command(schema, "import", str(file), "--registry", url)
    again = file.with_name("again.jsonl")
    run_command(schema, "export", str(again), "--registry", url)
    assert again.read_bytes() == file.read_bytes()


@pytest.mark.soak
def test_a_killed_import_goes_on(url: str, tmp_path: Path) -> None:
    """The mode stays IMPORT, since nobody is there to put it back; the next import does."""
    file = tmp_path / "all.jsonl"
    file.write_bytes(exported(many(600)))
    for enough in (20, 150):
        with importing(file, url) as process:
            eventually(has_at_least, url, enough)
            process.kill()
            assert process.wait() == -signal.SIGKILL
        assert registered(url) < 600, "it was too late to kill it"
        assert httpx.get(f"{url}/mode").json() == {"mode": "IMPORT"}
    check_whole(url, file)
    assert httpx.get(f"{url}/mode").json() == {"mode": "READWRITE"}


def test_ctrl_c_puts_the_mode_back(url: str, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    file.write_bytes(exported(many(1500)))
    with importing(file, url) as process:
        eventually(has_at_least, url, 20)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said == "tallymark: stopped before the end; start it again, it goes on\n"
    assert registered(url) < 1500, "it was too late to stop it"
    assert httpx.get(f"{url}/mode").json() == {"mode": "READWRITE"}
    check_whole(url, file)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_ten_thousand_schemas_are_the_same_export_elsewhere(url: str, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    file.write_bytes(exported(many(10_000)))
    with importing(file, url) as process:
        eventually(has_at_least, url, 500)
        process.kill()
    check_whole(url, file)
    with RegistryServer(f"sqlite:///{tmp_path / 'other.db'}") as other:
        run_command(schema, "import", "--from-registry", url, "--registry", other.url)
        check_whole(other.url, file)
