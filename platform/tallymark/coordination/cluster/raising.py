"""Raises the level of a feature, when all registered brokers support it.

::

    read /cluster/features ─▶ read /brokers/ids ─▶ write, by compare-and-set ─▶ read /brokers/ids
          ▲                                                                       │
          └── another broker has changed it                 a broker that cannot: back to before

A broker that registers checks the node in its transaction, so after the write none that does not
support the level gets in. One that came between the two readings of the brokers may be of an older
release: then the level goes back, and the request is refused.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from tallymark.coordination import paths
from tallymark.coordination.cluster.brokers import BrokerRegistry
from tallymark.coordination.cluster.feature_levels import read_features, write_features
from tallymark.coordination.malformed_nodes import MalformedNodes
from tallymark.coordination.session.errors import (
    BadVersionError,
    CoordinationError,
    NodeExistsError,
)
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.errors import KafkaError
from tallymark.replication.features import Finalized, Supported, raised

log: Final = logging.getLogger(__name__)
_ATTEMPTS: Final = 10


def raise_level(zookeeper: ZooKeeper, feature: str, level: int) -> Finalized:
    """The levels in force afterwards; as they were where the feature is at the level already.

    KafkaError FEATURE_UPDATE_FAILED with the brokers that do not support the level (of brokers
    without a readable node nothing is known: they do not), INVALID_UPDATE_VERSION for a level below
    the one in force. CoordinationError where others change the levels all the time; ConnectError
    and SessionLostError: it may have been done, read it again.
    """
    for _ in range(_ATTEMPTS):
        before = read_features(zookeeper)
        wanted = raised(before, feature, level, _supports(zookeeper))
        if wanted == before:
            return before
        try:
            done = write_features(zookeeper, wanted)
        except (BadVersionError, NodeExistsError):
            continue
        try:
            raised(before, feature, level, _supports(zookeeper))
        except KafkaError as error:
            log.warning("level %d of %s is taken back: %s", level, feature, error)
            try:
                write_features(zookeeper, replace(done, levels=before.levels))
            except BadVersionError:
                continue  # it is read and looked at again
            raise
        log.info("feature raised name=%s level=%d epoch=%d", feature, level, done.epoch)
        return done
    raise CoordinationError(paths.FEATURES, "others change the levels all the time")


def _supports(zookeeper: ZooKeeper) -> dict[int, Supported]:
    """What each registered broker supports; nothing for one whose node cannot be read."""
    ids = [name for name in zookeeper.children(paths.BROKER_IDS) if name.isdecimal()]
    known = BrokerRegistry(zookeeper).brokers(malformed=MalformedNodes())
    found: dict[int, Supported] = {int(name): {} for name in ids if len(name) <= 10}
    return found | {broker: info.features for broker, info in known.items()}
