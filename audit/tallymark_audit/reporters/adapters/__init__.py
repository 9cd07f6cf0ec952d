"""The audit for producers of other libraries: :func:`audited` wraps a producer of an application.

Read :mod:`.adopt` first (what :func:`audited` decides), then :mod:`.partition_tracker` (the records
of one partition) and :mod:`.run` (what is reported of them); then one wrapper for each library:
``confluent*`` and ``kafka_python*``.
"""

from tallymark_audit.reporters.adapters.adopt import audited

__all__ = ["audited"]
