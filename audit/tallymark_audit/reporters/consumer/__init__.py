"""The audit of a consumer group: reports what was processed.

Read :mod:`.audit` first (what applications and our connector call), then :mod:`.reporter`, which
publishes. What they count is in :mod:`tallymark_audit.reporters.processing`.
"""

from tallymark_audit.reporters.consumer.audit import ConsumerAudit

__all__ = ["ConsumerAudit"]
