"""The credentials of the ZooKeeper that ``tallymark up`` starts, and which ones a cluster's are.

ZooKeeper holds the users and access-control lists of all clusters, and listens on loopback: any
process that is on this machine could write himself every right. So once a cluster of the deployment
is secured, ``up`` makes a password, before anything starts; the first brokers that start with it
close what stands open from before (:mod:`tallymark.coordination.cluster.restricting`)::

    <data_dir>/zookeeper/password     one line, mode 0600; the user is called tallymark

From then on it is used as long as it is there, whatever the settings say later: what was closed by
it opens for no other user. Nothing is made where the user has set credentials, by
``zookeeper.user`` or in the environment, or said that ZooKeeper may be open.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tallymark.coordination.session.access import Access
from tallymark.deployment import Cluster, Deployment
from tallymark.deployment.secret_text import first_line, resolve
from tallymark.errors import UserError
from tallymark.private_files import write_private

OWN_USER: Final = "tallymark"
_YES: Final = ("true", "1", "yes", "on", "t", "y")
_SETTING: Final = "the password of this deployment's own ZooKeeper"


def password_file(deployment: Deployment) -> Path:
    """Where the password is, if there is one: beside the data that it opens."""
    return deployment.data_dir.absolute() / "zookeeper" / "password"


def prepare_credentials(deployment: Deployment) -> bool:
    """Make the password where one is wanted and there is none; whether that was so. UserError: it
    cannot be written."""
    path = password_file(deployment)
    if path.exists() or not wants_credentials(deployment, Access.from_environment()):
        return False
    try:
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        write_private(path, secrets.token_urlsafe(32) + "\n")
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror}",
            "make its folder writable, or give another data_dir in the settings",
        ) from error
    return True


def wants_credentials(deployment: Deployment, environment: Access) -> bool:
    """Whether the deployment's own ZooKeeper is to be closed: it starts one, brokers that it starts
    are secured, and the settings name no user and do not say that it may be open. Pure."""
    if environment.user or not deployment.zookeeper.embedded:
        return False
    return any(
        cluster.kind == "tallymark" and cluster.embedded and _is_secured(cluster)
        for cluster in deployment.clusters
    )


def access_of(deployment: Deployment, cluster: Cluster) -> Access:
    """How a command that writes where the cluster's brokers do is known to ZooKeeper: by the
    environment, by ``zookeeper.user`` of the cluster's settings, by the deployment's own password,
    or not at all. UserError: a password cannot be read."""
    known = Access.from_environment()
    if known.user:
        return known
    given = _given(cluster)
    if user := str(given.get("zookeeper.user", "")):
        password = resolve(str(given.get("zookeeper.password", "")), "zookeeper.password")
        return Access(user, password, closed=not _says(given, "zookeeper.set.acl", "no"))
    return _own_access(deployment)


def broker_credentials(deployment: Deployment, cluster: Cluster) -> dict[str, str]:
    """The settings by which a broker of the cluster uses the deployment's own password; none where
    the environment or its own settings name its user."""
    if Access.from_environment().user or _given(cluster).get("zookeeper.user"):
        return {}
    own = _own_access(deployment)
    return {"zookeeper.user": own.user, "zookeeper.password": own.password} if own.user else {}


def _own_access(deployment: Deployment) -> Access:
    path = password_file(deployment)
    if not (deployment.zookeeper.embedded and path.exists()):
        return Access()
    return Access(OWN_USER, first_line(path, _SETTING), closed=True)


def _is_secured(cluster: Cluster) -> bool:
    given = _given(cluster)
    if given.get("zookeeper.user") or _says(given, "zookeeper.allow.open", "yes"):
        return False
    if _says(given, "zookeeper.set.acl", "no") or _says(given, "enable.zookeeper", "no"):
        return False
    logs_in = cluster.security.security_protocol != "PLAINTEXT"
    return logs_in or _says(given, "authorizer.enable", "yes")


def _given(cluster: Cluster) -> Mapping[str, Any]:
    return {name.replace("_", "."): value for name, value in cluster.broker_settings.items()}


def _says(given: Mapping[str, Any], name: str, answer: str) -> bool:
    """Whether a setting is there and says so."""
    return name in given and (str(given[name]).lower() in _YES) == (answer == "yes")
