"""A level of features rises: one transaction that no broker can slip past.

::

    read  /brokers/epochs       version s: it rises with every registration
    read  /cluster/features     version v
    read  /brokers/ids/[id]     what each live broker supports; then decide
    check /brokers/epochs       version s  ┐ one transaction
    write /cluster/features     version v  ┘

A broker that registers before the brokers are read is seen. One that registers between that and the
transaction has raised s: the transaction fails, and all is read again. One that registers after it
checks v in its own transaction, reads the new levels, and is refused if it does not support them
(:mod:`.broker_node`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from tallymark.coordination import paths
from tallymark.coordination.cluster.brokers import BrokerRegistry
from tallymark.coordination.cluster.feature_levels import read_features, writing
from tallymark.coordination.session.errors import BadVersionError, NodeExistsError, NoNodeError
from tallymark.coordination.session.nodes import Check
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.errors import CODES, KafkaError
from tallymark.replication.features import Finalized, Supported

DecideLevels: TypeAlias = Callable[[Finalized, Mapping[int, Supported]], Finalized]
"""(levels in force, broker -> what it supports) -> the levels that shall be in force; the same
object where nothing changes. KafkaError where it cannot be."""

_ATTEMPTS: Final = 20


def raise_features(
    zookeeper: ZooKeeper, decide: DecideLevels, *, validate_only: bool = False
) -> Finalized:
    """Decide from what is in force and from all live brokers, and write it unless
    ``validate_only``. Returns the levels that ``decide`` returned.

    KafkaError of ``decide``, or FEATURE_UPDATE_FAILED if brokers come all the time.
    MalformedNodeError where the node of the levels or of a broker cannot be read: nothing is
    decided then.
    """
    zookeeper.ensure(paths.BROKER_EPOCHS)
    zookeeper.ensure(paths.FEATURES.rpartition("/")[0])
    for _ in range(_ATTEMPTS):
        registrations = zookeeper.read(paths.BROKER_EPOCHS).version
        found = read_features(zookeeper)
        brokers = BrokerRegistry(zookeeper).brokers()
        wanted = decide(found, {each.id: each.features for each in brokers.values()})
        if validate_only or wanted is found:
            return wanted
        with contextlib.suppress(BadVersionError, NodeExistsError, NoNodeError):
            zookeeper.commit([Check(paths.BROKER_EPOCHS, registrations), writing(wanted)])
            return wanted
    raise KafkaError(
        CODES["FEATURE_UPDATE_FAILED"],
        f"brokers registered during each of {_ATTEMPTS} attempts: ask again when they are up",
    )
