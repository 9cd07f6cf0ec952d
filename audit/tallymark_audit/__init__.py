"""The audit: every message accounted for, the missing ones named.

For applications: :func:`audited` wraps the producer of another client,
:class:`ConsumerAudit` reports what a consumer group has processed. They are loaded when they are
asked for, so that a part of the audit can be imported alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallymark_audit.reporters.adapters.adopt import audited
    from tallymark_audit.reporters.consumer.audit import ConsumerAudit

__all__ = ["ConsumerAudit", "audited"]


def __getattr__(name: str) -> Any:
    if name == "audited":
        from tallymark_audit.reporters.adapters.adopt import audited

        return audited
    if name == "ConsumerAudit":
        from tallymark_audit.reporters.consumer.audit import ConsumerAudit

        return ConsumerAudit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
