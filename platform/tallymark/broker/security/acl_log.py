"""The log of denials: ``tallymark.authorizer``, one line for each denied operation, at most one in
a few seconds, however often a client tries."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from tallymark.net.limits.log_rate import LogRate
from tallymark.protocol.acls.words import Operation, ResourceType

log: Final = logging.getLogger("tallymark.authorizer")


class DenialLog:
    """Counts and logs denials."""

    def __init__(self, limit: LogRate | None = None) -> None:
        self.counts: Counter[tuple[Operation, ResourceType]] = Counter()
        """The number of denials since the start."""
        self._limit = limit or LogRate()

    def note(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> None:
        """A client was denied an operation."""
        self.counts[operation, kind] += 1
        held = self._limit.passes((principal, host, operation, kind, name))
        if held is not None:
            log.warning(
                "denied principal=%s host=%s operation=%s resource=%s:%r repeated=%d",
                principal,
                host,
                operation.name,
                kind.name,
                name,
                held,
                extra={
                    "principal": principal,
                    "host": host,
                    "operation": operation.name,
                    "resource_type": kind.name,
                    "resource": name,
                    "repeated": held,
                },
            )
