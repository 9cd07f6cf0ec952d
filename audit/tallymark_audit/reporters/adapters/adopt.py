"""``audited()``: with these two lines an application on an existing Kafka cluster is audited."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tallymark.client.producing.settings import server_name
from tallymark.client.producing.stamps import INSTANCE_BYTES, MAX_SERVER_BYTES
from tallymark.deployment import Deployment
from tallymark.errors import UserError
from tallymark_audit.reporters.adapters.adoption import Adoption
from tallymark_audit.reporters.effective_settings import settings_in_force, with_window
from tallymark_audit.reporters.producer.interceptor import (
    interceptor_for,
    state_journal,
)


def audited(
    producer: Any,
    config: Mapping[str, Any] | None = None,
    *,
    deployment: Deployment | str | Path | None = None,
    window_ms: int | None = None,
    server: str | None = None,
    application: str = "",
    backfill: bool = False,
    journal_dir: str | Path | None = None,
) -> Any:
    """The same producer, with every record of it audited::

        from tallymark_audit import audited
        producer = audited(confluent_kafka.Producer(config), config)

    or ``audited(kafka.KafkaProducer(...))``. Use it as before. Each record gets a stamp (one
    header, about 18 bytes and the server's name) and its partition before it is sent; reports go
    to the topic ``_tallymark_audit`` of the same cluster.

    ``config``: that of a ``confluent_kafka.Producer``, which does not return it. It is needed if it
    names a partitioner, callbacks, a transactional id, or credentials; without it librdkafka's
    defaults are assumed, and the producer itself sends the reports.

    ``deployment``: the settings (or their file) that the audit of the cluster runs with; default:
    those that are in force here. Without settings ``window_ms`` must be the window of the collector
    (default 60,000). ``server`` is the name in stamps (default: this host's), ``application`` a
    name for readers of the reports. ``backfill``: the records may have any timestamp.
    ``journal_dir``: where this process keeps its journal, so that ``kill -9`` loses no claim.

    Raises UserError for a producer of another kind, and for invalid settings.
    """
    if len((server or "").encode()) > MAX_SERVER_BYTES:
        raise UserError(
            f"audited(): the server's name has {len((server or '').encode())} bytes",
            f"a stamp has room for {MAX_SERVER_BYTES}",
        )
    settings = settings_in_force(deployment)
    rules = with_window(settings, window_ms, "audited()")
    interceptor = interceptor_for(rules, _journals(journal_dir, settings))
    adoption = Adoption(
        interceptor,
        os.urandom(INSTANCE_BYTES),
        server_name(server),
        application,
        backfill,
        rules.audit.topics,
    )
    return _wrap(producer, config, adoption)


def _wrap(producer: Any, config: Mapping[str, Any] | None, adoption: Adoption) -> Any:
    kinds = type(producer).mro()
    names = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in kinds}
    if "confluent_kafka.SerializingProducer" in names:
        raise UserError(
            "audited(): a SerializingProducer makes the key's bytes after the partition is needed",
            "give confluent_kafka.Producer, and what your serializers return",
        )
    if "cimpl.Producer" in names:
        from tallymark_audit.reporters.adapters.confluent_adopt import adopt_confluent

        return adopt_confluent(producer, config, adoption)
    if "kafka.KafkaProducer" in names:
        from tallymark_audit.reporters.adapters.kafka_python import adopt_kafka_python

        return adopt_kafka_python(producer, adoption)
    raise UserError(
        f"audited(): {type(producer).__module__}.{type(producer).__name__} is not known here",
        "give a confluent_kafka.Producer or a kafka.KafkaProducer; a tallymark.Producer is audited "
        "by itself",
    )


def _journals(given: str | Path | None, settings: Deployment | None) -> Path | None:
    if given is not None:
        return Path(given)
    return None if settings is not None else state_journal()
