"""The audit of transactions around a real broker: commits, aborts, and a producer that is killed in
a transaction. Nothing is lost, what was aborted is counted apart, and who waits says for what."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from eventually import eventually
from one_cluster import collecting, one_cluster, settings_of

from tallymark.client import Producer
from tallymark.deployment import Deployment, dump_toml
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.collector import open_transactions as waiting_for
from tallymark_audit.judge.verdicts import State
from tallymark_audit.model.open_transaction import OpenTransaction
from tallymark_audit.service import CollectorService
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted.open_transactions import open_transactions
from tallymark_audit.store.reading import queries
from tallymark_audit.store.schema.rows import Row

pytestmark = pytest.mark.process
EDGE, ID = "producer-to-dc1", "orders"
KILLED_IN_A_TRANSACTION = """
    import sys, time
    from tallymark.client import Producer
    producer = Producer(bootstrap_servers=sys.argv[1], server="doomed", transactional_id="orders")
    producer.init_transactions()
    with producer.transaction():
        for number in range(30):
            producer.send("views", b"committed")
    producer.begin_transaction()
    for number in range(20):
        producer.send("views", b"open")
    producer.flush()
    print("open", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path, num_partitions=1) as running:
        yield running


@pytest.fixture
def deployment(
    broker: BrokerThread, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Deployment:
    monkeypatch.setenv("TALLYMARK_SETTINGS", str(settings_of(tmp_path)))
    made = one_cluster(broker.bootstrap_servers, tmp_path, lake=None)
    audit = made.audit.model_copy(update={"store": database})
    stored = made.model_copy(update={"audit": audit})
    settings_of(tmp_path).write_text(dump_toml(stored))
    return stored


@pytest.fixture
def store(deployment: Deployment) -> Iterator[Store]:
    with open_store(deployment.audit_store) as opened:
        yield opened


@pytest.fixture
def collector(deployment: Deployment) -> Iterator[CollectorService]:
    with collecting(deployment) as service:
        yield service


def rows(store: Store) -> list[Row]:
    with store.read() as connection:
        return queries.windows(connection, EDGE)


def counted(store: Store) -> tuple[int, int, int]:
    """Records that are claimed, seen and explained; -1 while something is not decided."""
    found = rows(store)
    waiting = {State.OPEN, State.SETTLING, State.UNKNOWN}
    if not found or any(State(row["state"]) in waiting for row in found):
        return -1, -1, -1
    claimed, observed, explained = (
        sum(row[name] for row in found) for name in ("claimed", "observed", "explained")
    )
    return claimed, observed, explained


def check(store: Store) -> None:
    found = rows(store)
    assert {row["state"] for row in found} <= {State.COMPLETE, State.EXPLAINED}
    assert sum(row["missing"] + row["unclaimed"] + row["duplicates"] for row in found) == 0
    reasons = {
        str(why) for row in found for cell in row["cells"] for why in cell.get("explanations", ())
    }
    assert reasons == {"aborted"}


def fail_in_a_transaction(producer: Producer) -> None:
    with producer.transaction():
        producer.send("views", b"aborted by the exception")
        producer.send("views", b"%d" % (1 // 0))


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_what_was_committed_is_claimed_and_what_was_aborted_is_counted_apart(
    broker: BrokerThread, collector: CollectorService, store: Store
) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=ID) as producer:
        producer.init_transactions()
        for _ in range(3):
            with producer.transaction():
                for _ in range(100):
                    producer.send("views", b"committed")
        producer.begin_transaction()
        for _ in range(40):
            producer.send("views", b"written and aborted")
        producer.flush()
        producer.abort_transaction()
        with pytest.raises(ZeroDivisionError):
            fail_in_a_transaction(producer)
    eventually(lambda: counted(store) == (300, 300, 41))
    check(store)


@pytest.mark.soak
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_producer_that_is_killed_in_a_transaction_has_lost_nothing(
    broker: BrokerThread,
    collector: CollectorService,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its journal says what it had committed and that the rest can only be aborted. While that is
    open its windows are not complete, and name the transaction that they wait for."""
    monkeypatch.setattr(waiting_for, "SOON_MS", 500)
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(KILLED_IN_A_TRANSACTION),
            broker.bootstrap_servers,
        ],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONWARNINGS": "default"},
    )
    assert process.stdout is not None
    with process, process.stdout:
        assert process.stdout.readline() == b"open\n"
        os.kill(process.pid, signal.SIGKILL)
    eventually(lambda: any("waits at offset 31" in str(row["reasons"]) for row in rows(store)))
    assert counted(store) == (-1, -1, -1)

    def opened() -> tuple[OpenTransaction, ...]:
        with store.read() as connection:
            return open_transactions(connection, "dc1", "views")

    (found,) = opened()
    assert found.producer >= 0
    eventually(
        lambda: [one.timeout for one in opened()] == [60_000], what="its coordinator says it"
    )
    with Producer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id=ID, audit=False
    ) as following:
        following.init_transactions()  # which aborts it; else its coordinator does after its time
    eventually(lambda: counted(store) == (30, 30, 20))
    check(store)
    assert opened() == ()
