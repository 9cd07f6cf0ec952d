"""The pure parts of ``bench/paper.py``: plan of the runs, checks, tables, settings of servers."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.paper.java_client import checked_jars
from support.paper.message_queues import Confirms
from support.paper.meter import Meter
from support.paper.runs import (
    PRODUCTS,
    CountError,
    Measured,
    Run,
    check_count,
    disk_bytes,
    planned,
)
from support.paper.servers import activemq_xml
from support.paper.tables import checked, tables

from tallymark.errors import UserError

ONE = Measured(
    product="Tallymark",
    client="kafka-clients",
    language="java",
    batch=50,
    job="produce",
    messages=1000,
    seconds=0.5,
    client_cpu=0.25,
    broker_cpu=0.125,
    disk_bytes=210_220,
    marks=(0.25, 0.5),
)
ACTIVEMQ = replace(
    ONE, product="ActiveMQ", batch=0, seconds=4.0, broker_cpu=5.0, disk_bytes=344_000
)


def test_products_take_turns() -> None:
    runs = list(planned(PRODUCTS, {"java": 100, "python": 10}))
    assert [(run.product.key, run.batch) for run in runs[:7]] == [
        ("tallymark", 1),
        ("kafka", 1),
        ("activemq", 0),
        ("rabbitmq", 0),
        ("nats", 0),
        ("tallymark", 50),
        ("kafka", 50),
    ]
    assert [(run.language, run.count) for run in runs] == [("java", 100)] * 7 + [("python", 10)] * 7
    assert {run.client for run in runs[7:]} == {
        *("tallymark", "confluent-kafka", "stomp.py", "pika", "nats-py")
    }


def test_batches_of_one_message_may_have_a_share_of_the_messages() -> None:
    counts = {run.batch: run.count for run in planned(PRODUCTS[:3], {"java": 1000}, 0.2)}
    assert counts == {1: 200, 50: 1000, 0: 1000}


def test_a_run_that_lost_a_message_is_an_error() -> None:
    run = Run(PRODUCTS[0], "java", 50, 10)
    check_count(run, "consume", {"messages": 10, "bytes": 2000})
    for messages, size in ((9, 1800), (11, 2200), (10, 1999)):
        with pytest.raises(CountError, match="Tallymark, kafka-clients: consume counted"):
            check_count(run, "consume", {"messages": messages, "bytes": size})


def test_the_tables_show_rates_costs_and_bytes() -> None:
    text = tables([ONE, replace(ONE, job="consume", language="python", client="tallymark")])
    produced, consumed = (line for line in text.splitlines() if "| Tallymark |" in line)
    cells = [cell.strip() for cell in produced.strip("|").split("|")]
    assert cells == [
        *("Tallymark", "kafka-clients (Java)", "50", "1,000"),
        *("2,000", "0.4", "125.0", "250.0", "210.2"),
    ]
    assert "tallymark (Python)" in consumed
    assert "210.2" not in consumed


def test_the_aims_compare_with_the_java_clients() -> None:
    found = {aim.name: aim for aim in checked([ONE, ACTIVEMQ])}
    rate = found["producing, times the rate of ActiveMQ"]
    assert (rate.found, rate.by_cpu, rate.word) == (8.0, 40.0, "missed")
    overhead = found["bytes on disk beside the payload"]
    assert (round(overhead.found, 2), overhead.word) == (10.22, "met")
    assert len(found) == 2  # nothing is known of RabbitMQ and of consuming
    assert not list(checked([replace(ONE, language="python")]))


def test_a_broker_whose_processor_time_is_below_a_tick_divides_by_no_zero() -> None:
    (rate, _) = checked([replace(ONE, broker_cpu=0.0), ACTIVEMQ])
    assert rate.by_cpu == pytest.approx(500)


def test_a_meter_notes_each_twentieth_and_the_end() -> None:
    meter = Meter(100)
    meter.begin()
    for part in meter.parts():
        meter.add(part, part * 200)
    meter.add(1, 0)  # one that is too many
    assert len(meter.marks) == 20
    assert meter.done
    assert meter.result()["messages"] == 101
    assert meter.result()["bytes"] == 20_000
    assert meter.seconds > 0


def test_parts_cover_a_count_that_twenty_does_not_divide() -> None:
    assert sum(Meter(1037).parts()) == 1037
    assert list(Meter(3).parts()) == [1, 1, 1]


def test_confirms_in_any_order_count_each_message_once() -> None:
    """RabbitMQ may confirm 3 alone, and then all up to 4: four messages, not five."""
    confirms = Confirms()
    for tag, multiple, expected in ((1, False, 1), (3, False, 2), (4, True, 4), (6, False, 5)):
        confirms.add(tag, multiple)
        assert confirms.count == expected
    confirms.add(2, True)  # an old one
    assert confirms.count == 5
    confirms.add(5, False)
    assert confirms.count == 6


def test_sparse_files_count_what_is_written(tmp_path: Path) -> None:
    """ActiveMQ makes journals of 32 MB: their holes are no bytes of messages."""
    with (tmp_path / "journal").open("wb") as file:
        file.write(b"x" * 4096)
        file.truncate(1 << 20)
    (tmp_path / "small").write_bytes(b"abc")
    assert disk_bytes(tmp_path) == 4096 + 3


def test_the_settings_of_activemq_are_xml_for_any_folder() -> None:
    folder = Path('/tmp/a & "b"')
    root = ElementTree.fromstring(activemq_xml(folder, 1234, 1235))
    (store,) = (each for each in root.iter() if each.tag.endswith("kahaDB"))
    assert store.get("directory") == f"{folder}/kahadb"
    assert store.get("journalDiskSyncStrategy") == "never"


def test_other_jars_than_the_listed_ones_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jar").write_bytes(b"good")
    sums = f"{hashlib.sha256(b'good').hexdigest()}  a.jar\n"
    checked_jars(tmp_path, sums)
    (tmp_path / "b.jar").write_bytes(b"more")
    with pytest.raises(UserError, match=r"b\.jar"):
        checked_jars(tmp_path, sums)
