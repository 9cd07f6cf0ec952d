"""The id of a cluster: ``/cluster/id`` holds ``{"version":"1","id":"..."}`` for ever."""

from __future__ import annotations

import base64
import uuid

from tallymark.coordination import paths
from tallymark.coordination.session import documents
from tallymark.coordination.session.errors import NodeExistsError
from tallymark.coordination.session.zookeeper import ZooKeeper


def cluster_id(zookeeper: ZooKeeper) -> str:
    """The id of the cluster; the first call creates it."""
    while True:
        node = zookeeper.find(paths.CLUSTER_ID)
        if node is not None:
            document = documents.load(paths.CLUSTER_ID, node.data)
            return documents.field(paths.CLUSTER_ID, document, "id", str)
        proposal = documents.dump({"version": "1", "id": new_cluster_id()})
        try:
            zookeeper.create(paths.CLUSTER_ID, proposal, parents=True)
        except NodeExistsError:
            continue


def new_cluster_id() -> str:
    """A random id as Apache Kafka makes them: 22 characters of url-safe base64, without a leading
    ``-``, which command lines would read as an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text
