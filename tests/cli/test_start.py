"""What commands import before they do anything.

A person typed ``tallymark topics list`` against an idle broker and it took 1.1 s of processor time,
``doctor --reach``, which containers run every five seconds, 0.6 s: each command loaded Spark's,
pydantic's and the broker's parts of Tallymark, every request of the protocol and rich, whatever it
did. Nobody times a test here; each command is run in a process of its own, and what it must not
have imported by its end is looked for in ``sys.modules``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from project import ROOT

from tallymark import __version__
from tallymark.cli.commands import COMMANDS
from tallymark.testing import ScriptedBroker

RUN = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
from tallymark.cli.main import main
sys.argv[0] = "tallymark"
main()
"""

HEAVY = {
    *("numpy", "sqlalchemy", "httpx", "rich", "pydantic", "kazoo", "fastavro", "avro", "psutil"),
    *("cramjam", "crc32c", "pyarrow", "pandas", "pyspark", "fastapi", "uvicorn", "jinja2"),
    *("prometheus_client", "importlib.metadata"),
}
"""Packages that cost more than any command that does not need them."""
SERVERS = ("tallymark.broker", "tallymark.log", "tallymark.coordination", "tallymark.groups")
"""Rooms that only processes need which serve."""


def modules_of(*arguments: str, cwd: Path) -> set[str]:
    """What ``tallymark ARGUMENTS`` has imported by its end."""
    environment = {n: v for n, v in os.environ.items() if n != "TALLYMARK_SETTINGS"}
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
        env=environment,
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.split(".")[0].startswith("tallymark")}


def test_version_imports_the_entrance_and_click(tmp_path: Path) -> None:
    modules = modules_of("--version", cwd=tmp_path)
    assert not modules & (HEAVY | {"asyncio"})
    assert ours(modules) == {
        "tallymark",
        "tallymark.cli",
        "tallymark.cli.commands",
        "tallymark.cli.main",
        "tallymark.shell",
        "tallymark.shell.lazy_group",
        "tallymark.shell.std_streams",
        "tallymark.shell.umask",
        "tallymark.errors",
        "tallymark.untrusted",
    }


def test_a_health_check_imports_addresses_and_a_socket(tmp_path: Path) -> None:
    modules = modules_of("doctor", "--reach", "registry", cwd=tmp_path)
    assert not modules & (HEAVY | {"asyncio", "multiprocessing", "subprocess"})
    assert ours(modules) == {
        "tallymark",
        "tallymark.cli",
        "tallymark.cli.commands",
        "tallymark.cli.main",
        "tallymark.cli.stack",
        "tallymark.cli.stack.doctor",
        "tallymark.processes.checks.reach",
        "tallymark.shell",
        "tallymark.shell.lazy_group",
        "tallymark.shell.output",
        "tallymark.shell.std_streams",
        "tallymark.shell.umask",
        "tallymark.processes",
        "tallymark.processes.checks",
        "tallymark.processes.supervisor",
        "tallymark.processes.supervisor.plan",
        "tallymark.deployment",
        "tallymark.deployment.load",
        "tallymark.deployment.places",
        "tallymark.errors",
        "tallymark.untrusted",
    }


def test_listing_topics_imports_the_requests_it_sends(tmp_path: Path) -> None:
    with ScriptedBroker(topics={"clicks": 2}) as broker:
        modules = modules_of(
            "topics", "list", "--bootstrap-server", str(broker.address), cwd=tmp_path
        )
    assert not modules & HEAVY
    assert not [name for name in modules if name.startswith(SERVERS)]
    requests = {name for name in modules if name.startswith("tallymark.protocol.messages.")}
    assert {name.rpartition(".")[2] for name in requests} == {"k03_metadata", "k18_api_versions"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["topics", "groups", "users", "acls", "cluster", "log-dirs", "quotas"]
)
def test_commands_about_a_cluster_serve_nothing(command: str, tmp_path: Path) -> None:
    """The help of a group of commands imports all of them."""
    modules = modules_of(command, "--help", cwd=tmp_path)
    assert not modules & HEAVY
    names = [name for name in ours(modules) if name.startswith(SERVERS)]
    assert not names or command in ("users", "acls")  # who reads entries by the broker's rules
    assert not {"tallymark.broker.settings.broker", "tallymark.broker.server"} & modules


@pytest.mark.slow
def test_the_overview_needs_the_store_and_no_collector(tmp_path: Path) -> None:
    modules = modules_of("audit", "overview", cwd=tmp_path)
    assert "sqlalchemy" in modules
    assert not modules & {"numpy", "httpx", "kazoo", "pyspark", "pandas", "fastapi", "psutil"}
    assert not [
        name
        for name in ours(modules)
        if name.startswith(("tallymark_audit.collector", "tallymark_audit.proof.drill", *SERVERS))
    ]


def test_attaching_imports_nothing_before_its_options_are_read(tmp_path: Path) -> None:
    modules = modules_of("attach", "--help", cwd=tmp_path)
    assert not modules & (HEAVY | {"asyncio"})
    assert {n for n in ours(modules) if n.startswith("tallymark_audit.attach")} == {
        "tallymark_audit.attach",
        "tallymark_audit.attach.cli",
    }


def test_the_written_list_of_commands_is_that_of_the_entry_points() -> None:
    """No command reads the entry points of all installed packages to find itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    points: dict[str, str] = project["entry-points"]["tallymark.commands"]
    assert {name: one.target for name, one in COMMANDS.items()} == points
    assert project["version"] == __version__
