"""``tallymark up``: what it says when it cannot start, and that nothing outlives it."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from eventually import eventually
from project import ROOT
from running_stack import Stack, stack_of

from tallymark.cli.stack.up import WhenAllServe
from tallymark.client import Admin
from tallymark.deployment import (
    BrokerAddress,
    Cluster,
    DashboardSettings,
    Deployment,
    RegistrySettings,
    dump_toml,
)
from tallymark.processes.ports import with_free_ports
from tallymark.processes.supervisor.plan import plan

pytestmark = pytest.mark.process


def up(tmp_path: Path, deployment: Deployment, **environment: str) -> tuple[int, str]:
    settings = tmp_path / "tallymark.toml"
    settings.write_text(dump_toml(deployment))
    done = subprocess.run(
        [sys.executable, "-m", "tallymark", "up", "--settings", str(settings)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )
    return done.returncode, done.stderr


def test_a_taken_port_is_one_clear_line(tmp_path: Path) -> None:
    deployment = with_free_ports(Deployment(data_dir=tmp_path / "data"))
    with socket.create_server(("127.0.0.1", deployment.registry.port)):
        code, said = up(tmp_path, deployment)
    assert code == 1
    assert said.strip() == (
        f"tallymark: cannot start: port: {deployment.registry.port} (registry) is taken; stop what "
        "listens there, change the settings, or start with --free-ports"
    )


def test_no_java_is_one_clear_line(tmp_path: Path) -> None:
    deployment = with_free_ports(Deployment(data_dir=tmp_path / "data"))
    code, said = up(tmp_path, deployment, PATH=str(tmp_path))
    assert code == 1
    assert said.startswith("tallymark: cannot start: Java: there is no java on the PATH; install")
    assert said.count("\n") == 1


def test_groups_have_replicas_from_the_first_one_on_and_all_of_it_is_ended(tmp_path: Path) -> None:
    """With ``--brokers 3`` the collector's group made ``__consumer_offsets`` before topics might
    have replicas: on one broker, whose death stopped every group of the cluster.

    ``up`` printed the address of a registry that it does not start as if it served there. And what
    ran under ``nohup`` could be ended only by who had kept its process id."""
    cluster = Cluster(name="dc1", brokers=(BrokerAddress(port=1),))
    unused: dict[str, Any] = {
        "registry": RegistrySettings(embedded=False),
        "dashboards": DashboardSettings(embedded=False),
    }
    one = Deployment(data_dir=tmp_path / "data", clusters=(cluster,), mirrors=(), **unused)
    with stack_of(tmp_path, with_free_ports(one), "--brokers", "3") as stack:
        servers = stack.deployment.cluster("dc1").bootstrap_servers
        name = "__consumer_offsets"
        with Admin(bootstrap_servers=servers) as admin:
            eventually(lambda: name in admin.topics())
            described = admin.describe_topics([name])[name]
        assert {len(part.replicas) for part in described.partitions} == {3}
        url = stack.deployment.registry.url
        assert stack.up.said(f"schema registry      runs elsewhere: {url}")
        written = stack.deployment.data_dir / "deployment.toml"
        assert stack.up.said(f"in another terminal: tallymark down --settings {written}")

        code, said = stack.command("down")
        assert code == 0, said
        assert "still running: zookeeper, broker-dc1-0" in said
        assert said.endswith(f"the stack on {stack.deployment.data_dir} has stopped\n")
        assert stack.up.wait(30) == 0
        code, said = stack.command("down", "--settings", str(written))
        assert (code, said) == (0, f"no stack is running on {stack.deployment.data_dir}\n")


def test_clusters_are_told_when_all_their_brokers_serve() -> None:
    two = (BrokerAddress(id=0, port=1), BrokerAddress(id=7, port=2))
    ours = Cluster(name="dc1", brokers=two)
    theirs = Cluster(name="dc2", kind="apache-kafka", brokers=two[:1])
    told: list[Cluster] = []
    why = ["no such user", "", "never asked"]

    def do(cluster: Cluster) -> str:
        told.append(cluster)
        return why.pop(0)

    serves = WhenAllServe((ours, theirs), do)
    for name in ("zookeeper", "broker-dc2-0", "broker-dc1-7", "broker-dc1-7"):
        serves(name)
    assert told == []
    serves("broker-dc1-0")
    serves("broker-dc1-0")  # it died, and is back
    assert told == [ours]
    assert serves.again() == {}
    assert told == [ours, ours]


def test_the_ten_lines_of_the_readme(stack: Stack) -> None:
    """As they stand there, but for the ports."""
    deployment = stack.deployment
    (lines,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    for usual, here in {
        "127.0.0.1:9092": deployment.cluster("dc1").bootstrap_servers,
        "127.0.0.1:2181": deployment.zookeeper.connect,
        "http://127.0.0.1:8081": deployment.registry.url,
    }.items():
        assert usual in lines
        lines = lines.replace(usual, here)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", lines],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "TALLYMARK_SETTINGS": str(stack.settings)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "{'page': '/home'}"
    eventually(
        lambda: "clicks" in stack.command("audit", "verdicts")[1],
        seconds=30,
        what="the audit has seen them",
    )


@pytest.mark.soak
def test_status_a_second_start_and_a_killed_supervisor(stack: Stack) -> None:
    code, shown = stack.command("status")
    assert code == 0, shown
    assert all(spec.name in shown for spec in plan(stack.deployment))

    code, said = stack.command("doctor")
    assert code == 0, said
    assert f"dashboards answers on {stack.deployment.dashboards.port}" in said

    code, said = stack.command("up", "--settings", str(stack.settings))
    assert code == 1
    # It said that the port of its own ZooKeeper was taken, by whom was left to find out.
    assert f"the stack of {stack.deployment.data_dir} runs already; tallymark status" in said
    written = stack.deployment.data_dir / "deployment.toml"
    assert f"stop it with tallymark down --settings {written}, or" in said

    made = stack.deployment.data_dir / "zookeeper", *stack.deployment.data_dir.rglob("*")
    wide = [path for path in made if path.lstat().st_mode & 0o077 and not path.is_symlink()]
    # What the test itself starts there writes its own logs.
    own = {path for path in wide if path.name.startswith(("command-", "up.log", "publisher-"))}
    assert set(wide) - own <= {stack.deployment.log_dir}, "others may read it"

    pids = [stack.process(spec.name)["pid"] for spec in plan(stack.deployment)]
    children = [psutil.Process(pid) for pid in pids]
    children += [child for process in list(children) for child in process.children(recursive=True)]
    stack.up.kill()
    eventually(
        lambda: not any(child.is_running() for child in children),
        seconds=30,
        what="no process outlives it",
    )
    code, said = stack.command("status")
    assert code == 1
    assert "no stack is running here" in said
