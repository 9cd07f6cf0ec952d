"""The levels of features that are in force: ``/cluster/features``.

``{"version":1,"features":{"replication.version":1}}``. The version of the node is the epoch that
ApiVersions returns. Without the node no feature is in force. Fields that this release does not know
are written back as they were read. It changes by compare-and-set (:mod:`.raising`):
:mod:`tallymark.replication.features` decides which levels may rise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tallymark.coordination import paths
from tallymark.coordination.session import documents
from tallymark.coordination.session.client import WatchCallback
from tallymark.coordination.session.errors import MalformedNodeError
from tallymark.coordination.session.nodes import Create, SetData
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.replication.features import Finalized

_OURS: Final = frozenset({"version", "features"})


def read_features(zookeeper: ZooKeeper, watch: WatchCallback | None = None) -> Finalized:
    """The levels in force; ``watch`` fires once when they change. MalformedNodeError."""
    node = zookeeper.find(paths.FEATURES, watch)
    if node is None:
        return Finalized()
    document = documents.load(paths.FEATURES, node.data)
    levels = documents.field(paths.FEATURES, document, "features", dict)
    for name, level in levels.items():
        if type(level) is not int or level < 0:
            raise MalformedNodeError(paths.FEATURES, f"{name!r} has the level {level!r}")
    others = {name: value for name, value in document.items() if name not in _OURS}
    return Finalized(levels, node.version, others)


def writing(features: Finalized) -> SetData | Create:
    """The step that replaces the levels that were read as ``features.epoch``. A broker that
    registers checks this node in its transaction: one that read the levels of before is refused."""
    levels = dict(sorted(features.levels.items()))
    content = documents.dump({**features.others, "version": 1, "features": levels})
    if features.epoch < 0:
        return Create(paths.FEATURES, content)
    return SetData(paths.FEATURES, content, features.epoch)


def write_features(zookeeper: ZooKeeper, features: Finalized) -> Finalized:
    """Replace the levels that were read as ``features.epoch``; returns them with the new epoch.
    BadVersionError or NodeExistsError where another broker has changed them meanwhile. It asks no
    broker whether it supports them: :mod:`.raising` does."""
    zookeeper.ensure(paths.FEATURES.rpartition("/")[0])
    zookeeper.commit([writing(features)])
    return replace(features, epoch=features.epoch + 1)
