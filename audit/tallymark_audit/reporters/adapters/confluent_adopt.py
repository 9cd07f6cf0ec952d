"""Puts the parts of an audited confluent-kafka producer together."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from typing import Any, Final

from tallymark.client.core.forks import tell_in_child
from tallymark.client.producing.interceptors.producer_interceptor import ProducerContext
from tallymark.errors import UserError
from tallymark_audit.reporters.adapters.adoption import Adoption
from tallymark_audit.reporters.adapters.confluent import AuditedProducer
from tallymark_audit.reporters.adapters.confluent_delivery import delivery_reports
from tallymark_audit.reporters.adapters.confluent_reports import ConfluentReports, PollWatch
from tallymark_audit.reporters.adapters.confluent_topics import AuditedTopics
from tallymark_audit.reporters.adapters.partitioners import partitioner_named
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
    tell = _check(config)
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
    late.topics = topics = AuditedTopics(
        producer, run, partitioner, adoption.topics, delivery_reports
    )
    wrapper = AuditedProducer(producer, run, topics, poll_watch, tell)
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


def _check(config: Mapping[str, Any]) -> Callable[[Any, Any], None] | None:
    """The delivery callback, if there is one. UserError for what cannot be audited."""
    if str(config.get("delivery.report.only.error", False)).lower() in ("true", "1"):
        raise UserError(
            "audited(): with delivery.report.only.error nobody hears what was delivered",
            "leave it out",
        )
    return next((config[name] for name in _DELIVERED if config.get(name)), None)


def _acks(config: Mapping[str, Any]) -> int:
    given = config.get("acks", config.get("request.required.acks", "all"))
    return _ACKS.get(str(given), -1)
