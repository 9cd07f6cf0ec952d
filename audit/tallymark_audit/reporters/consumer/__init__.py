"""What a consumer group has processed, told to the audit.

``in_flight`` holds what was handed out and is not processed yet, ``ack_batcher`` what an
application says one by one, ``books`` what was processed, ``processing`` all three (pure);
``reporter`` publishes it, ``audit`` is what applications and our connector use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallymark_audit.reporters.consumer.audit import ConsumerAudit

__all__ = ["ConsumerAudit"]


def __getattr__(name: str) -> Any:
    """Loaded when asked for: it needs the journal, which needs what is pure here."""
    if name == "ConsumerAudit":
        from tallymark_audit.reporters.consumer.audit import ConsumerAudit

        return ConsumerAudit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
