"""Commits the translated offsets of the source's groups at the target, so that the groups can
continue there.

It runs in a thread of its own, since it sends requests to both clusters and waits for them. The
offsets of a group at the target only move forward, and they stay while a member of the group
consumes there: then the group commits its own offsets.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Final, Protocol

from tallymark.client.admin.admin import Admin
from tallymark.client.admin.zookeeper_groups import ZooKeeperGroups
from tallymark.client.core.security.deployment import connection_settings
from tallymark.coordination import CoordinationError, SessionLostError, ZooKeeper
from tallymark.deployment import Cluster, Deployment
from tallymark.errors import CODES, KafkaError, TallymarkError
from tallymark.mirror.offsets.translator import REQUEST_TIMEOUT_MS, OffsetTranslator
from tallymark.mirror.progress import Partition
from tallymark.mirror.settings import find_mirror

INTERVAL_SECONDS: Final = 5.0
_BUSY: Final = frozenset(CODES[name] for name in ("NON_EMPTY_GROUP", "UNKNOWN_MEMBER_ID"))
_log: Final = logging.getLogger("mirror")


class Groups(Protocol):
    """A cluster's groups: those that brokers coordinate, or those in ZooKeeper."""

    def names(self) -> list[str]: ...

    def offsets(self, group: str) -> Mapping[Partition, int]: ...

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> None: ...


class BrokerGroups:
    """Those that the brokers coordinate."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    def names(self) -> list[str]:
        return sorted(self._admin.list_groups().groups)

    def offsets(self, group: str) -> Mapping[Partition, int]:
        return {at: one.offset for at, one in self._admin.group_offsets(group).check().items()}

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        self._admin.alter_group_offsets(group, offsets).check()


class RegisteredGroups:
    """Those that coordinate themselves in ZooKeeper."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._groups = ZooKeeperGroups(zookeeper)

    def names(self) -> list[str]:
        return sorted(self._groups.list_groups())

    def offsets(self, group: str) -> Mapping[Partition, int]:
        try:
            return self._groups.group_offsets(group)
        except KafkaError as error:
            if error.code == CODES["GROUP_ID_NOT_FOUND"]:
                return {}
            raise

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        self._groups.alter_group_offsets(group, offsets)


class Checkpoints:
    """Translates and commits offsets of groups, from :meth:`start` to :meth:`close`."""

    def __init__(self, deployment: Deployment, source: str, target: str) -> None:
        self._deployment = deployment
        self._settings = find_mirror(deployment, source, target)
        self._stopped = threading.Event()
        self._said = ""
        self._thread = threading.Thread(
            target=self._run, name=f"checkpoints-{self._settings.name}", daemon=True
        )

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Stop soon, and wait for that a moment. Idempotent."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(15.0)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with ExitStack() as opened:
                    carry = self._opened(opened)
                    while not self._stopped.is_set():
                        carry()
                        self._said = ""
                        self._stopped.wait(INTERVAL_SECONDS)
            except (TallymarkError, CoordinationError, SessionLostError) as error:
                if str(error) != self._said:
                    self._said = str(error)
                    _log.warning("cannot carry offsets of groups over, trying on: %s", error)
                self._stopped.wait(INTERVAL_SECONDS)

    def _opened(self, opened: ExitStack) -> Callable[[], None]:
        settings = self._settings
        translator = opened.enter_context(
            OffsetTranslator(self._deployment, settings.source, settings.target)
        )
        pairs = list(
            zip(
                open_groups(opened, self._deployment, settings.source),
                open_groups(opened, self._deployment, settings.target),
                strict=True,
            )
        )

        def carry() -> None:
            translator.refresh()
            for here, there in pairs:
                for group in here.names():
                    own = group == f"mirror-{settings.name}"
                    if not own and re.fullmatch(settings.checkpoint_groups, group):
                        translate_group(translator, here, there, group)

        return carry


def translate_group(translator: OffsetTranslator, here: Groups, there: Groups, group: str) -> int:
    """Commit the group's offsets at the target where they are ahead. Returns for how many
    partitions. Commits nothing while the group consumes there."""
    wanted = translator.target_offsets(translator.translate_all(here.offsets(group)))
    known = there.offsets(group) if wanted else {}
    ahead = {at: offset for at, offset in wanted.items() if offset > known.get(at, -1)}
    if ahead:
        try:
            there.commit(group, ahead)
        except KafkaError as error:
            if error.code not in _BUSY:
                raise
            return 0
    return len(ahead)


def open_groups(opened: ExitStack, deployment: Deployment, name: str) -> tuple[Groups, Groups]:
    """A cluster's groups, of both kinds; closed with ``opened``."""
    cluster: Cluster = deployment.cluster(name)
    admin = opened.enter_context(
        Admin(request_timeout_ms=REQUEST_TIMEOUT_MS, **connection_settings(cluster))
    )
    session = ZooKeeper(f"{deployment.zookeeper.connect}{cluster.root}")
    session.start(create_root=cluster.kind == "apache-kafka")
    opened.callback(session.close)
    return BrokerGroups(admin), RegisteredGroups(session)
