"""How a producer of another library is to be audited: what :func:`.adopt.audited` decides once."""

from __future__ import annotations

from typing import NamedTuple

from tallymark_audit.reporters.producer.interceptor import AuditInterceptor


class Adoption(NamedTuple):
    """How a producer is audited; ``topics`` is a regular expression on whole names."""

    interceptor: AuditInterceptor
    instance: bytes
    server: str
    application: str
    backfill: bool
    topics: str
