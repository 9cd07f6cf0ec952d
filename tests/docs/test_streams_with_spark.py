"""The snippets of docs/streams-with-spark.md, run by Spark as they stand there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from project import ROOT

from tallymark import Producer
from tallymark.testing import MemoryBroker
from tallymark_spark_jobs.engine.session import spark_session

pytestmark = [pytest.mark.spark, pytest.mark.soak]
PAGE = ROOT / "docs" / "streams-with-spark.md"
START = 1_769_860_800_000  # 2026-01-31T12:00:00Z
MINUTE = 60_000

VIEWS = [  # minute, member, page
    (0.1, "ann", "/home"),
    (0.5, "bob", "/home"),
    (0.9, "ann", "/home"),
    (1.2, "ann", "/jobs"),
    (9.0, "bob", "/jobs"),
    (30.0, "eve", "/late"),
]
CLICKS = [(2.0, "ann", "ad-1"), (12.0, "bob", "ad-2"), (20.0, "ann", "ad-3")]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    with spark_session("streams", log, "local[2]") as session:
        yield session


@pytest.fixture(scope="module")
def broker() -> Iterator[MemoryBroker]:
    with MemoryBroker(num_partitions=2) as running:
        with Producer(bootstrap_servers=running.bootstrap_servers, audit=False) as producer:
            for topic, field, events in (("views", "page", VIEWS), ("clicks", "ad", CLICKS)):
                for minute, member, what in events:
                    value = json.dumps({"member": member, field: what}).encode()
                    at = START + int(minute * MINUTE)
                    producer.send(topic, value, key=member.encode(), timestamp=at)
        yield running


def test_windows_and_joins(spark: Any, broker: MemoryBroker) -> None:
    snippets = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(snippets) == 3
    world = {"spark": spark, "start_ms": START, "end_ms": START + 30 * MINUTE}
    for snippet in snippets:
        exec(snippet.replace("127.0.0.1:9092", broker.bootstrap_servers), world)
    rows = world["per_minute"].collect()
    counted = [(row.minute.timestamp() * 1000 - START, *row[1:]) for row in rows]
    assert counted == [
        (0, "/home", 3, 2),
        (1 * MINUTE, "/jobs", 1, 1),
        (9 * MINUTE, "/jobs", 1, 1),
    ]
    paths = world["click_paths"].collect()
    found = sorted((row.member, row.ad, row.page or "") for row in paths)
    assert found == [
        ("ann", "ad-1", "/home"),
        ("ann", "ad-1", "/home"),
        ("ann", "ad-1", "/jobs"),
        ("ann", "ad-3", ""),
        ("bob", "ad-2", "/jobs"),
    ]
