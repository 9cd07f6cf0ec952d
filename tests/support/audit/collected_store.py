"""A store that collectors write to while a test runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from tallymark.deployment import Deployment
from tallymark_audit.service import CollectorService
from tallymark_audit.store import Store, open_store


@contextmanager
def collected_store(deployment: Deployment, clusters: Iterable[str]) -> Iterator[Store]:
    """The deployment's store, with a collector for each cluster. At the end each collector raises
    what it died of."""
    with ExitStack() as stack:
        opened = stack.enter_context(open_store(deployment.audit_store))
        services = [CollectorService(deployment, name) for name in clusters]
        for service in services:
            stack.callback(service.close)
        yield opened
        for service in services:
            service.check()
