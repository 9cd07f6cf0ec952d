"""Connects to a cluster of a mirror at its start, or says why that is not possible."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from typing import Final

from tallymark.client.admin.admin import Admin
from tallymark.client.core.security.deployment import connection_settings
from tallymark.deployment import Cluster
from tallymark.errors import ConnectError, KafkaError, TimedOutError, UserError

REQUEST_TIMEOUT_MS: Final = 5000
_PAUSE: Final = 0.25


def connect(
    opened: ExitStack, cluster: Cluster, client_id: str, deadline: float
) -> tuple[Admin, str]:
    """(an admin, closed with ``opened``, and the cluster's id, ``""`` if it has none).

    Waits for brokers that start at the same time, until ``deadline`` (monotonic seconds).
    UserError: no broker of the cluster answers."""
    admin = opened.enter_context(
        closing(
            Admin(
                client_id=client_id,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                **connection_settings(cluster),
            )
        )
    )
    while True:
        try:
            return admin, admin.cluster_id() or ""
        except (ConnectError, TimedOutError, KafkaError) as error:
            if time.monotonic() + _PAUSE >= deadline:
                raise UserError(
                    f"no broker of {cluster.name} answers: {error}",
                    "start its brokers, or mend their addresses in the settings",
                ) from error
        time.sleep(_PAUSE)
