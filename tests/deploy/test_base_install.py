"""``pip install tallymark`` without any extra runs a broker, clients, commands and the audit."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from eventually import eventually
from project import ROOT

from tallymark.deployment import Deployment
from tallymark.processes.ports import with_free_ports
from tallymark_audit.proof.harness.commands import Command

pytestmark = pytest.mark.process

WITHOUT_EXTRAS = '''
"""``tallymark`` on a machine that lacks every package of the extras."""
import sys


class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {packages}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Missing())
from tallymark.cli.main import main

main()
'''
EXTRAS = {"fastapi", "starlette", "uvicorn", "jinja2", "pyspark", "pyarrow", "pandas", "psycopg"}
EXTRAS |= {"httptools", "joserfc", "numba", "deltalake", "pyiceberg"}
"""What the extras bring, by the names that are imported."""

SETTINGS = """
data_dir = "{folder}"
[[clusters]]
name = "dc1"
kind = "apache-kafka"  # runs by itself, without ZooKeeper
embedded = false
brokers = [{{ port = {port} }}]
[audit]
window_ms = 1000
settle_min_ms = 500
report_interval_ms = 500
"""

Run = Callable[..., Command]


def test_the_packages_of_the_extras_are_those() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [one for extra in project["optional-dependencies"].values() for one in extra]
    names = {one.split("[")[0].split(">")[0] for one in listed} - {"tallymark"}
    assert names == EXTRAS - {"starlette"}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Starts commands that see no package of an extra; what still runs is stopped at the end."""
    (tmp_path / "without_extras.py").write_text(WITHOUT_EXTRAS.format(packages=EXTRAS))
    settings = tmp_path / "tallymark.toml"
    port = with_free_ports(Deployment()).cluster("dc1").brokers[0].port
    settings.write_text(SETTINGS.format(folder=tmp_path / "data", port=port))
    with ExitStack() as stack, _python_path(tmp_path):

        def start(*arguments: str) -> Command:
            name = "-".join(arguments[:2])
            command = Command(name, arguments, settings, tmp_path / "logs", "without_extras")
            stack.callback(command.stop)
            return command

        yield start


@contextmanager
def _python_path(folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        before = os.environ.get("PYTHONPATH")
        patch.setenv("PYTHONPATH", f"{folder}:{before}" if before else str(folder))
        yield


def test_publish_consume_and_judge(run: Run, tmp_path: Path) -> None:
    port = tomllib.loads((tmp_path / "tallymark.toml").read_text())["clusters"][0]["brokers"][0]
    config = tmp_path / "broker.properties"
    config.write_text(
        f"listeners=PLAINTEXT://127.0.0.1:{port['port']}\nenable.zookeeper=false\n"
        f"log.dirs={tmp_path / 'logs-of-broker'}\n"
    )
    broker = run("broker", "--config", str(config))
    broker.wait_for(lambda: broker.said(": ready"), "start", 60)
    collector = run("audit", "collect", "--cluster", "dc1")
    collector.wait_for(lambda: collector.said(": ready"), "start", 60)
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo\nthree\n")
    assert run("produce", "clicks", "--input", str(lines)).wait(60) == 0
    consumed = run("consume", "clicks", "--from-beginning", "--max-messages", "3")
    assert consumed.wait(60) == 0
    assert consumed.log.read_text().splitlines()[:3] == ["one", "two", "three"]

    def judged() -> bool:
        verdicts = run("audit", "verdicts", "--topic", "clicks")
        return verdicts.wait(60) == 0 and "COMPLETE" in verdicts.log.read_text()

    eventually(judged, seconds=60, what="the three messages are found complete")


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["registry"], "registry"),
        (["dashboards"], "dashboards"),
        (["reconcile"], "spark"),
        (["load"], "lake"),
        (["load", "--here"], "lake"),
        (["stream-load"], "lake"),
        (["lake", "tables"], "lake"),
    ],
)
def test_a_command_that_lacks_its_extra_says_so(
    run: Run, tmp_path: Path, arguments: list[str], extra: str
) -> None:
    """``tallymark dashboards`` without jinja2 was "unexpected ImportError ... this is a bug", and
    so was a load without pyarrow."""
    with (tmp_path / "tallymark.toml").open("a", encoding="utf-8") as settings:
        settings.write("[lake]\n")
    command = run(*arguments)
    assert command.wait(60) == 1
    said = command.log.read_text()
    assert f"pip install 'tallymark[{extra}]'" in said
    assert said.count("\n") == 1
