"""The verdict after a member of a group was killed: broker, collector process, store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eventually import eventually
from sqlalchemy import select

from tallymark.client import ConsumerConnector, Producer
from tallymark.deployment import (
    AuditedGroup,
    AuditSettings,
    BrokerAddress,
    Cluster,
    Deployment,
    dump_toml,
)
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit import ConsumerAudit
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted import claims
from tallymark_audit.store.schema import tables

pytestmark = pytest.mark.process

EDGE = "dc1-to-group:billing"
COUNT = 100
MAIN = "import sys; from tallymark.cli.main import main; sys.argv[0] = 'tallymark'; main()"
MEMBER = """
import os, signal, sys, time
from tallymark.client import ConsumerConnector
from tallymark_audit import ConsumerAudit
servers, settings, folder = sys.argv[1:]
audit = ConsumerAudit(group="billing", bootstrap_servers=servers, deployment=settings,
                      journal_dir=folder, server="lost")
while not os.path.exists(audit._journal.path):
    time.sleep(0.01)
consumer = ConsumerConnector(group="billing", bootstrap_servers=servers, hooks=[audit],
                             session_timeout_ms=1500, auto_commit_interval_ms=3_600_000)
for message in consumer.create_message_streams({"orders": 1})["orders"][0]:
    if message.offset == 20:
        consumer.commit_offsets({("orders", 0): 20})
    if message.offset == 78:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    with BrokerThread(
        tmp_path / "broker",
        num_partitions=1,
        group_initial_rebalance_delay_ms=0,
        group_min_session_timeout_ms=500,
    ) as running:
        yield running


@pytest.fixture
def settings(broker: BrokerThread, tmp_path: Path) -> Path:
    port = int(broker.bootstrap_servers.rsplit(":", 1)[1])
    made = Deployment(
        data_dir=tmp_path / "data",
        clusters=(Cluster(name="dc1", brokers=(BrokerAddress(port=port),)),),
        mirrors=(),
        audit=AuditSettings(
            window_ms=1000,
            settle_min_ms=500,
            report_interval_ms=200,
            silence_ms=3000,
            consumers=(AuditedGroup(cluster="dc1", group="billing"),),
        ),
    )
    path = tmp_path / "tallymark.toml"
    path.write_text(dump_toml(made))
    with open_store(made.audit_store):
        pass
    return path


@pytest.fixture
def store(settings: Path, tmp_path: Path) -> Iterator[Store]:
    """Judged by a collector process."""
    command = [sys.executable, "-c", MAIN, "audit", "collect", "--cluster", "dc1"]
    with (tmp_path / "collector.log").open("wb") as output:
        collector = subprocess.Popen(
            command, stderr=output, env={**os.environ, "TALLYMARK_SETTINGS": str(settings)}
        )
    try:
        with open_store(f"sqlite:///{tmp_path / 'data' / 'audit.db'}") as opened:
            yield opened
    finally:
        collector.terminate()
        collector.wait()


def one_is_killed_and_another_goes_on(
    broker: BrokerThread, settings: Path, folder: Path, elsewhere: Path
) -> None:
    """58 messages and one in hand were processed by the first since it stored its offset; the
    other one, on another host, processes them again."""
    servers = broker.bootstrap_servers
    with Producer(bootstrap_servers=servers, server="web", audit=False, stamp=True) as producer:
        for number in range(COUNT):
            producer.send("orders", b"v%d" % number)
    command = [sys.executable, "-c", MEMBER, servers, str(settings), str(folder)]
    died = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    audit = ConsumerAudit(
        group="billing", bootstrap_servers=servers, deployment=settings, journal_dir=elsewhere
    )
    consumer = ConsumerConnector(
        group="billing", bootstrap_servers=servers, hooks=[audit], consumer_timeout_ms=30_000
    )
    stream = consumer.create_message_streams({"orders": 1})["orders"][0]
    while next(stream).offset < COUNT - 1:
        pass
    stream.poll()
    consumer.close()


def verdicts(store: Store) -> list[dict[str, Any]]:
    query = select(tables.verdicts).where(tables.verdicts.c.edge == EDGE)
    with store.read() as connection:
        return [dict(row) for row in connection.execute(query).mappings()]


def states(store: Store) -> set[str]:
    return {row["state"] for row in verdicts(store)}


def test_what_was_processed_twice_is_said_by_the_verdict(
    broker: BrokerThread, settings: Path, store: Store, tmp_path: Path
) -> None:
    """A member was killed with 58 messages processed and not reported, the next one processed them
    again: COMPLETE. Its host's collector has its journal."""
    one_is_killed_and_another_goes_on(
        broker, settings, tmp_path / "data" / "journal", tmp_path / "elsewhere"
    )
    eventually(lambda: "DUPLICATION" in states(store), seconds=60, what="the repeats are found")
    eventually(
        lambda: sum(row["duplicates"] for row in verdicts(store)) == 58, what="all of them are"
    )
    assert sum(row["explained"] for row in verdicts(store)) == 1, "the one in hand"


@pytest.mark.soak
def test_with_its_journal_lost_nothing_is_complete_until_it_is_retired(
    broker: BrokerThread, settings: Path, store: Store, tmp_path: Path
) -> None:
    """The member's host is gone, and its journal with it."""
    one_is_killed_and_another_goes_on(broker, settings, tmp_path / "gone", tmp_path / "elsewhere")
    eventually(lambda: states(store) == {"UNKNOWN"}, seconds=60, what="it is known to be silent")
    eventually(
        lambda: all("on lost is silent since" in row["reasons"][0] for row in verdicts(store))
    )
    query = select(tables.reporters.c.reporter).where(tables.reporters.c.server == "lost")
    with store.write() as connection:
        claims.retire(connection, connection.scalar(query) or "", time.time_ns() // 1_000_000)
    eventually(lambda: states(store) == {"COMPLETE"}, seconds=60, what="a person has ended it")
