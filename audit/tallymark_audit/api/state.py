"""What the routes need."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request

from tallymark.deployment import Deployment
from tallymark_audit.api.waiting import Waits
from tallymark_audit.repair.gone import LogStartsOf
from tallymark_audit.store import Store


@dataclass(frozen=True)
class AuditApi:
    """One per application, in ``app.state.audit_api``."""

    deployment: Deployment
    store: Store
    waits: Waits
    settings: str = ""
    """The path of the settings file, for the commands in answers."""
    log_starts: LogStartsOf | None = None
    """The part that watches where logs begin."""

    @classmethod
    def of(
        cls,
        deployment: Deployment,
        store: Store,
        settings: str = "",
        log_starts: LogStartsOf | None = None,
    ) -> AuditApi:
        """The API of a deployment over its audit store."""
        return cls(deployment, store, Waits(store), settings, log_starts)


def api_of(request: Request) -> AuditApi:
    """The one of the application that serves the request."""
    api: AuditApi = request.app.state.audit_api
    return api
