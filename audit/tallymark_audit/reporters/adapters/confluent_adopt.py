"""Puts the parts of an audited confluent-kafka producer together."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from tallymark.client.core.forks import tell_in_child
from tallymark.client.producing.interceptors.producer_interceptor import ProducerContext
from tallymark.errors import UserError
from tallymark_audit.reporters.adapters.adoption import Adoption
from tallymark_audit.reporters.adapters.confluent import AuditedProducer
from tallymark_audit.reporters.adapters.confluent_delivery import (
    DeferredCallback,
    delivery_reports,
)
from tallymark_audit.reporters.adapters.confluent_reports import ConfluentReports, PollWatch
from tallymark_audit.reporters.adapters.confluent_topics import AuditedTopics
from tallymark_audit.reporters.adapters.partitioners import partitioner_named
from tallymark_audit.reporters.adapters.record_path import counts_references
from tallymark_audit.reporters.adapters.run import AdapterRun

_DELIVERED: Final = ("on_delivery", "dr_cb", "dr_msg_cb")
_ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}


def adopt_confluent(
    producer: Any, config: Mapping[str, Any] | None, adoption: Adoption
) -> AuditedProducer:
    """See :func:`tallymark_audit.reporters.adapters.adopt.audited`."""
    if config is None and any(map(callable, gc.get_referents(producer))):
        raise UserError(
            "audited(): the producer has callbacks that it does not tell",
            "give its configuration too: audited(producer, config)",
        )
    config = dict(config or {})
    only_errors = _reports_only_errors(config)
    tell = next((config[name] for name in _DELIVERED if config.get(name)), None)
    partitioner = partitioner_named(config.get("partitioner", "consistent_random"))
    poll_watch = PollWatch(allowed=not any(map(callable, config.values())))
    late = _LateTopics()
    reports = ConfluentReports(producer, config or None, poll_watch, late.refresh)
    context = ProducerContext(
        instance=adoption.instance,
        server=adoption.server,
        client_id=adoption.application or str(config.get("client.id", "confluent-kafka")),
        acks=_acks(config),
        backfill=adoption.backfill,
        publish=reports.queue.publish,
        create_topic=reports.queue.create_topic,
        read_cluster_id=late.cluster_id,
    )
    run = AdapterRun(adoption.interceptor, context, reports.queue)
    pending: deque[DeferredCallback] = deque()
    deliver = partial(delivery_reports, pending.append)
    late.topics = topics = AuditedTopics(
        producer, run, partitioner, adoption.topics, deliver, only_errors
    )
    wrapper = AuditedProducer(producer, run, topics, poll_watch, tell, pending)
    tell_in_child(wrapper)
    return wrapper


class _LateTopics:
    """The topics: the run's context needs them, and they need the run."""

    topics: AuditedTopics | None = None

    def cluster_id(self) -> str | None:
        return self.topics.cluster_id if self.topics is not None else None

    def refresh(self) -> None:
        if self.topics is not None:
            self.topics.refresh()


def _reports_only_errors(config: Mapping[str, Any]) -> bool:
    """Whether the producer reports failures only. UserError: then this wrapper could not notice
    what was delivered, see :func:`.record_path.counts_references`."""
    only_errors = str(config.get("delivery.report.only.error", False)).lower() in ("true", "1")
    if only_errors and not counts_references():
        raise UserError(
            "audited(): with delivery.report.only.error it is not known what was delivered",
            "leave it out; this Python does not free objects at once",
        )
    return only_errors


def _acks(config: Mapping[str, Any]) -> int:
    given = config.get("acks", config.get("request.required.acks", "all"))
    return _ACKS.get(str(given), -1)
