"""Whose credentials a broker and a command have where ``tallymark up`` starts ZooKeeper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallymark.cli.servers.broker import of_deployment
from tallymark.coordination.session.access import PASSWORD_VARIABLE, USER_VARIABLE, Access
from tallymark.deployment import BrokerAddress, Cluster, Deployment, ZooKeeperSettings
from tallymark.errors import UserError
from tallymark.processes.zookeeper_credentials import (
    access_of,
    password_file,
    prepare_credentials,
    wants_credentials,
)


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whoever runs the tests the environment says nothing."""
    monkeypatch.delenv(USER_VARIABLE, raising=False)
    monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)


def deployed(folder: Path, settings: dict[str, Any], **more: Any) -> Deployment:
    """One cluster with these settings of its broker."""
    cluster = Cluster(
        name="dc1", brokers=(BrokerAddress(port=9092),), broker_settings=settings, **more
    )
    return Deployment(data_dir=folder, clusters=(cluster,))


SECURED = {"authorizer.enable": True}


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        (SECURED, {}),
        ({"authorizer_enable": "true"}, {}),
        ({}, {"security": {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}}),
    ],
)
def test_who_secures_a_cluster_gets_a_closed_zookeeper(
    tmp_path: Path, settings: dict[str, Any], more: dict[str, Any]
) -> None:
    """Somebody switched authorizer.enable on in the settings of ``tallymark up``: the brokers did
    not start, since its own ZooKeeper was open to all users of the machine, and nothing made
    credentials. Now there is a password, that its user alone may read, and brokers and commands of
    the deployment use it."""
    deployment = deployed(tmp_path, settings, **more)
    assert prepare_credentials(deployment)
    path = password_file(deployment)
    assert path.stat().st_mode & 0o777 == 0o600
    password = path.read_text().strip()
    assert len(password) >= 32
    given = of_deployment(deployment, "dc1", 0)
    assert (given["zookeeper.user"], given["zookeeper.password"]) == ("tallymark", password)
    access = access_of(deployment, deployment.cluster("dc1"))
    assert access == Access("tallymark", password, closed=True)
    assert not prepare_credentials(deployment)
    assert path.read_text().strip() == password
    assert password not in repr(access)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"authorizer.enable": "false"},
        SECURED | {"zookeeper.user": "me", "zookeeper.password": "${file:/secret}"},
        SECURED | {"zookeeper.allow.open": True},
        SECURED | {"zookeeper.set.acl": "false"},
        SECURED | {"enable.zookeeper": False},
    ],
)
def test_what_somebody_has_settled_stays(tmp_path: Path, settings: dict[str, Any]) -> None:
    deployment = deployed(tmp_path, settings)
    assert not prepare_credentials(deployment)
    assert not password_file(deployment).exists()
    given = of_deployment(deployment, "dc1", 0)
    assert given.get("zookeeper.user") == settings.get("zookeeper.user")


def test_not_where_up_starts_no_zookeeper_or_no_broker(tmp_path: Path) -> None:
    secured = deployed(tmp_path, SECURED)
    elsewhere = secured.model_copy(update={"zookeeper": ZooKeeperSettings(embedded=False)})
    assert not wants_credentials(elsewhere, Access())
    assert not wants_credentials(deployed(tmp_path, SECURED, embedded=False), Access())
    assert not wants_credentials(deployed(tmp_path, SECURED, kind="apache-kafka"), Access())
    assert not wants_credentials(secured, Access("me", "mine", closed=True))
    assert wants_credentials(secured, Access())


def test_a_password_that_was_made_is_used_whatever_the_settings_say_later(tmp_path: Path) -> None:
    """Nodes that were closed with it open for nobody else."""
    prepare_credentials(deployed(tmp_path, SECURED))
    later = deployed(tmp_path, {})
    assert of_deployment(later, "dc1", 0)["zookeeper.user"] == "tallymark"
    assert access_of(later, later.cluster("dc1")).user == "tallymark"


def test_the_environment_then_the_settings_then_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody named zookeeper.user in broker_settings: ``tallymark users add --cluster`` wrote as
    nobody, and was refused."""
    prepare_credentials(deployed(tmp_path, SECURED))
    secret = tmp_path / "secret"
    secret.write_text("mine\n")
    own = {"zookeeper.user": "me", "zookeeper.password": f"${{file:{secret}}}"}
    deployment = deployed(tmp_path, SECURED | own)
    cluster = deployment.cluster("dc1")
    assert access_of(deployment, cluster) == Access("me", "mine", closed=True)
    assert of_deployment(deployment, "dc1", 0)["zookeeper.password"] == own["zookeeper.password"]
    secret.unlink()
    with pytest.raises(UserError, match=r"cannot read .*secret"):
        access_of(deployment, cluster)
    monkeypatch.setenv(USER_VARIABLE, "them")
    monkeypatch.setenv(PASSWORD_VARIABLE, "theirs")
    assert access_of(deployment, cluster).user == "them"
    assert "zookeeper.user" not in of_deployment(deployed(tmp_path, SECURED), "dc1", 0)


def test_a_password_that_cannot_be_read_is_one_clear_line(tmp_path: Path) -> None:
    deployment = deployed(tmp_path, SECURED)
    prepare_credentials(deployment)
    password_file(deployment).write_text("\n")
    with pytest.raises(UserError, match=r"first line of .*password is empty; .*own ZooKeeper"):
        of_deployment(deployment, "dc1", 0)
