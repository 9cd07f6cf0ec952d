"""``tallymark up --brokers 3`` where brokers ask for log-ins."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from eventually import eventually
from running_stack import stack_of

from tallymark.cli.main import command as tallymark
from tallymark.client import Admin
from tallymark.client.core.security.deployment import connection_settings
from tallymark.deployment import (
    BrokerAddress,
    Cluster,
    ClusterSecurity,
    DashboardSettings,
    Deployment,
    RegistrySettings,
)
from tallymark.processes.ports import with_free_ports
from tallymark.processes.supervisor.control import NotRunningError, ask
from tallymark.processes.supervisor.run import control_file

USERS: Final = ("ops", "broker")

pytestmark = [pytest.mark.process, pytest.mark.soak, pytest.mark.timeout(300)]


def test_the_first_start_has_replicas_before_there_is_a_user(tmp_path: Path) -> None:
    """``up`` asked the brokers to allow replicas, as a user that is added only while ``up`` runs:
    refused. The collector then made ``__consumer_offsets`` on one broker as soon as that user was
    there, and the death of this broker stopped every group of the cluster."""
    secret = tmp_path / "secret"
    secret.write_text("geheim\n")
    deployment = secured(tmp_path, secret)
    with ThreadPoolExecutor(1) as beside:
        adding = beside.submit(add_users, deployment, tmp_path, secret)
        with stack_of(tmp_path, deployment, "--brokers", "3") as stack:
            adding.result()
            assert not stack.up.said("topics have one replica")
            name = "__consumer_offsets"
            with Admin(**connection_settings(deployment.cluster("dc1"))) as admin:
                eventually(lambda: name in admin.topics(), seconds=60)
                described = admin.describe_topics([name])[name]
                assert {len(part.replicas) for part in described.partitions} == {3}


def secured(folder: Path, secret: Path) -> Deployment:
    """One cluster whose brokers ask for a log-in, and a collector that logs in as ops."""
    cluster = Cluster(
        name="dc1",
        brokers=(BrokerAddress(port=1),),
        broker_settings={
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
            "inter.broker.user": "broker",
            "inter.broker.password": f"${{file:{secret}}}",
            "authorizer.enable": True,
            "super.users": "User:ops;User:broker",
        },
        security=ClusterSecurity(
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-512",
            sasl_username="ops",
            sasl_password_file=str(secret),
        ),
    )
    unused: dict[str, Any] = {
        "registry": RegistrySettings(embedded=False),
        "dashboards": DashboardSettings(embedded=False),
    }
    return with_free_ports(
        Deployment(data_dir=folder / "data", clusters=(cluster,), mirrors=(), **unused)
    )


def add_users(deployment: Deployment, folder: Path, secret: Path) -> None:
    """What a user does in another terminal, once all brokers serve."""
    eventually(lambda: brokers_that_serve(deployment) == 3, seconds=120)
    for user in USERS:
        where = ("--settings", str(folder / "tallymark.toml"))
        add = ("users", "add", user, "--password-file", str(secret), *where)
        done = CliRunner().invoke(tallymark, add)
        assert done.exit_code == 0, done.output


def brokers_that_serve(deployment: Deployment) -> int:
    try:
        answer = ask(control_file(deployment), {"do": "status"})
    except NotRunningError:
        return 0
    return sum(
        one["name"].startswith("broker-") and one["state"] == "ready" for one in answer["processes"]
    )
