"""The ZooKeeper that ``tallymark up`` starts, in a deployment that is secured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
import pytest
from running_stack import Stack, stack_of

from tallymark.client import Admin
from tallymark.coordination import NotAuthorizedError, ZooKeeper
from tallymark.coordination.session.access import PASSWORD_VARIABLE, USER_VARIABLE
from tallymark.deployment import (
    BrokerAddress,
    Cluster,
    DashboardSettings,
    Deployment,
    RegistrySettings,
)
from tallymark.processes.ports import with_free_ports
from tallymark.processes.zookeeper_credentials import password_file

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

PLANTED = b'{"version":1,"acls":[{"principal":"User:*","permissionType":"Allow"}]}'


def create(stack: Stack, topic: str) -> None:
    with Admin(bootstrap_servers=stack.deployment.cluster("dc1").bootstrap_servers) as admin:
        admin.create_topic(topic)


def said_anywhere(stack: Stack, text: str) -> list[str]:
    """Logs, settings and command lines of the stack that have ``text`` in them."""
    deployment = stack.deployment
    files = [*deployment.log_dir.iterdir(), deployment.data_dir / "deployment.toml"]
    found = [path.name for path in files if text in path.read_text("utf-8", "replace")]
    processes = psutil.Process(stack.up.pid).children(recursive=True)
    return found + [each.name() for each in processes if text in " ".join(each.cmdline())]


@pytest.mark.soak
def test_it_is_closed_once_a_cluster_is_secured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deployment ran open for a year, then authorizer.enable was switched on. Brokers refused to
    start, for ``up`` started a ZooKeeper that any user of the machine could write to: with
    zookeeper.allow.open whoever could connect to it gave himself every right. Now ``up`` makes a
    password, the brokers close what stood open, commands of the deployment go on as before, and a
    deployment that is opened again still has its topics."""
    for variable in (USER_VARIABLE, PASSWORD_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    cluster = Cluster(name="dc1", brokers=(BrokerAddress(port=1),))
    unused: dict[str, Any] = {
        "registry": RegistrySettings(embedded=False),
        "dashboards": DashboardSettings(embedded=False),
    }
    before = with_free_ports(
        Deployment(data_dir=tmp_path / "data", clusters=(cluster,), mirrors=(), **unused)
    )
    settings = {"authorizer.enable": True, "super.users": "User:ANONYMOUS"}
    secured = before.model_copy(
        update={
            "clusters": (before.cluster("dc1").model_copy(update={"broker_settings": settings}),)
        }
    )
    connect = f"{before.zookeeper.connect}/dc1"
    with stack_of(tmp_path, before) as stack:
        create(stack, "of-before")
        assert not password_file(before).exists()
        with ZooKeeper(connect) as stranger:
            stranger.create("/config/users/eve", b'{"version":1,"config":{}}', parents=True)

    with stack_of(tmp_path, secured) as stack:
        password = password_file(secured).read_text().strip()
        assert password_file(secured).stat().st_mode & 0o777 == 0o600
        create(stack, "of-after")
        with ZooKeeper(connect) as stranger:
            assert {"of-before", "of-after"} <= {*stranger.children("/brokers/topics")}
            for path in ("/kafka-acl/Cluster", "/config/users/eve2", "/brokers/topics/mine"):
                with pytest.raises(NotAuthorizedError):
                    stranger.create(path, PLANTED)
            for path in ("/config/users/eve", "/brokers/topics/of-before", "/cluster/id"):
                with pytest.raises(NotAuthorizedError):
                    stranger.write(path, b"{}")
            with pytest.raises(NotAuthorizedError):
                stranger.read("/config/users/eve")
            stranger.create("/consumers/theirs", parents=True)
        (tmp_path / "secret").write_text("geheim\n")
        add = ("users", "add", "ann", "--password-file", str(tmp_path / "secret"))
        code, said = stack.command(*add, "--cluster", "dc1")
        assert (code, said) == (0, "ann: added\n")
        allow = ("acls", "add", "--allow", "User:ann", "--operation", "read", "--topic", "t")
        code, said = stack.command(*allow, "--cluster", "dc1")
        assert code == 0, said
        code, said = stack.command("users", "list")
        assert said.startswith("ann\t")
        with ZooKeeper(connect) as stranger, pytest.raises(NotAuthorizedError):
            stranger.read("/config/users/ann")
        assert said_anywhere(stack, password) == []

    with stack_of(tmp_path, before) as stack:
        assert password_file(before).read_text().strip() == password
        create(stack, "of-later")
        with ZooKeeper(connect) as stranger, pytest.raises(NotAuthorizedError):
            stranger.create("/brokers/topics/mine")
