"""One cluster with its audit: settings in a file, and the collector."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tallymark.client import SimpleConsumer
from tallymark.deployment import (
    AuditSettings,
    BrokerAddress,
    Cluster,
    Deployment,
    LakeSettings,
    dump_toml,
)
from tallymark.protocol.records.batch import Record
from tallymark_audit.service import CollectorService

WINDOW_MS = 1000


def one_cluster(bootstrap_servers: str, folder: Path, lake: LakeSettings | None) -> Deployment:
    """The settings of a deployment of the cluster ``dc1`` with windows of a second, also written to
    :func:`settings_of` the folder, for commands."""
    ports = [int(address.rsplit(":", 1)[1]) for address in bootstrap_servers.split(",")]
    brokers = tuple(BrokerAddress(id=number, port=port) for number, port in enumerate(ports))
    made = Deployment(
        data_dir=folder / "data",
        clusters=(Cluster(name="dc1", brokers=brokers),),
        mirrors=(),
        audit=AuditSettings(
            window_ms=WINDOW_MS, settle_min_ms=500, report_interval_ms=100, silence_ms=60_000
        ),
        lake=lake,
    )
    settings_of(folder).write_text(dump_toml(made))
    return made


def settings_of(folder: Path) -> Path:
    return folder / "tallymark.toml"


@contextmanager
def collecting(deployment: Deployment) -> Iterator[CollectorService]:
    """The collector of ``dc1`` while it runs. It must not have died by the end."""
    service = CollectorService(deployment, "dc1")
    try:
        yield service
    finally:
        service.close()
    service.check()


def records_of(bootstrap_servers: str, topic: str, partition: int) -> list[Record]:
    """All that a partition holds now."""
    found: list[Record] = []
    with SimpleConsumer(bootstrap_servers=bootstrap_servers) as consumer:
        (end,) = consumer.get_offsets_before(topic, partition, -1)
        offset = 0
        while offset < end:
            fetched = consumer.fetch(topic, partition, offset, max_bytes=1 << 20)
            found += [record for batch in fetched.batches for record in batch.records()]
            offset = fetched.next_offset
    return found
