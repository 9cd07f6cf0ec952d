"""What /metrics says of transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hung import open_transaction
from transactional_appends import end, on_the_loop, put

from tallymark.broker.monitoring.families import families
from tallymark.broker.monitoring.transactions import OpenInLogs
from tallymark.client import Admin, Producer
from tallymark.testing.broker_thread import BrokerThread


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    folder = tmp_path_factory.mktemp("data")
    with BrokerThread(folder, transaction_state_log_num_partitions=1) as running:
        yield running


def scraped(broker: BrokerThread) -> dict[tuple[str, tuple[str, ...]], float]:
    assert broker.broker is not None
    assert broker.broker.state is not None
    found = broker.call(families(broker.broker.state))
    return {
        (sample.name.removeprefix("tallymark_broker_"), tuple(sample.labels.values())): sample.value
        for family in found
        for sample in family.samples
    }


def test_an_open_transaction_is_counted_where_it_is_open_and_where_it_is_coordinated(
    broker: BrokerThread,
) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic("open")
    open_transaction(broker, "open", "id", b"a", b"b")
    with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
        producer.send("open", b"behind")
    found = scraped(broker)
    assert found["open_transactions", ()] == 1
    assert found["stable_offset_lag_messages", ("open",)] == 3
    assert found["partitions_with_late_transactions", ()] == 0
    assert found["transactional_ids", ("Ongoing",)] == 1
    assert ("oldest_transaction_seconds", ()) in found
    assert found["given_up_markers", ()] == 0


def test_a_transaction_is_late_when_it_is_open_for_longer_than_coordinators_let_it(
    broker: BrokerThread,
) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic("late")

    def story(partition: Any) -> list[tuple[int, int, dict[str, int]]]:
        put(partition, b"a", b"b")
        wrote = partition.log.producers.get(7).updated_ms
        found: list[tuple[int, int, dict[str, int]]] = []
        for now in (wrote + 1_000, wrote + 1_001):
            logs = OpenInLogs(now, late_ms=1_000)
            logs.add(partition, "late")
            found.append((logs.opened, logs.late, logs.behind))
        end(partition, commit=False)
        logs = OpenInLogs(wrote + 1_001, late_ms=1_000)
        logs.add(partition, "late")
        return [*found, (logs.opened, logs.late, logs.behind)]

    found = on_the_loop(broker, "late", story)
    assert found == [(1, 0, {"late": 2}), (1, 1, {"late": 2}), (0, 0, {})]
