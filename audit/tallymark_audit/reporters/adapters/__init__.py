"""The audit for producers of others: :func:`audited` wraps one that an application has already.

``placing`` chooses partitions as librdkafka does, ``lanes`` numbers records and keeps what became
of them (both pure); ``run`` feeds that to the interceptor that our own producer has. Around it:
``confluent*`` and ``kafka_python``, one wrapper each.
"""

from tallymark_audit.reporters.adapters.adopt import audited

__all__ = ["audited"]
