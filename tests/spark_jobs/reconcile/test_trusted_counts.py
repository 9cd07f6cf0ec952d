"""The counts of a load in place of a count: the same cells, and only what lies behind is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tallymark import Admin, Producer
from tallymark.deployment import (
    AuditSettings,
    BrokerAddress,
    Cluster,
    Deployment,
    LakeSettings,
    dump_toml,
)
from tallymark.errors import UserError
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.reporters.producer.interceptor import AuditInterceptor
from tallymark_spark_jobs.cli.load import load
from tallymark_spark_jobs.counting.tally import CellTally, merged
from tallymark_spark_jobs.reconcile.reading.count_tasks import (
    Counting,
    count_spans,
    notes_of,
    read_cells,
)
from tallymark_spark_jobs.reconcile.reading.loaded_counts import covered, loaded_counts
from tallymark_spark_jobs.reconcile.reading.read_plan import Bounds, ReadPlan, read_plan
from tallymark_spark_jobs.reconcile.reading.survey import survey
from tallymark_spark_jobs.reconcile.shapes.period import Period

W = 5_000
START = 1_769_817_600_000
PERIOD = Period(START, START + 4 * W)
pytestmark = pytest.mark.socket


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    with BrokerThread(tmp_path / "dc1") as broker:
        found = Deployment(
            data_dir=tmp_path / "data",
            clusters=(Cluster(name="dc1", brokers=(BrokerAddress(port=broker.settings.port),)),),
            mirrors=(),
            audit=AuditSettings(window_ms=W, settle_min_ms=0),
            lake=LakeSettings(),
        )
        with Admin(bootstrap_servers=found.clusters[0].bootstrap_servers) as admin:
            admin.create_topic("views", 2)
        yield found


def send(deployment: Deployment, first: int, count: int) -> None:
    servers = deployment.clusters[0].bootstrap_servers
    with Producer(
        bootstrap_servers=servers, server="web-1", interceptors=[AuditInterceptor(W)]
    ) as producer:
        for n in range(first, first + count):
            at = START + n * 100
            producer.send("views", b"%d" % n, partition=n % 2, timestamp=at)


def load_here(deployment: Deployment, tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(dump_toml(deployment))
    done = CliRunner().invoke(load, ["--settings", str(settings), "--here"])
    assert done.exit_code in (0, 4), done.output


def whole_plan(deployment: Deployment) -> ReadPlan:
    return read_plan(survey(deployment), Bounds(PERIOD, None))


def counted(plan: ReadPlan) -> list[CellTally]:
    how = Counting(W, (START, PERIOD.end))
    return [
        one.tally
        for batch in count_spans(plan.spans, plan.connections, how)
        for one in read_cells(batch)
    ]


def test_what_was_loaded_is_not_read_again_and_is_counted_the_same(
    deployment: Deployment, tmp_path: Path
) -> None:
    send(deployment, 0, 90)
    load_here(deployment, tmp_path)
    send(deployment, 90, 30)
    load_here(deployment, tmp_path)
    send(deployment, 120, 40)
    plan = whole_plan(deployment)
    found = loaded_counts(deployment, plan, PERIOD)
    assert (found.offsets, found.plan.offsets) == (120, 40)
    both = [*(one.tally for one in found.seen), *counted(found.plan)]
    assert by_key(merged(both)) == by_key(merged(counted(plan)))
    assert {note.messages for note in notes_of(found.seen)} == {60}


def by_key(tallies: list[CellTally]) -> dict[object, CellTally]:
    return {(one.key, one.aborted): one for one in tallies}


def test_a_topic_that_was_made_anew_is_read(deployment: Deployment, tmp_path: Path) -> None:
    """Offsets of the topic before it say nothing of this one, nor do its counts."""
    send(deployment, 0, 20)
    load_here(deployment, tmp_path)
    with Admin(bootstrap_servers=deployment.clusters[0].bootstrap_servers) as admin:
        admin.delete_topic("views")
        admin.create_topic("views", 2)
    send(deployment, 0, 10)
    plan = whole_plan(deployment)
    found = loaded_counts(deployment, plan, PERIOD)
    assert (found.seen, found.plan.offsets) == ((), 10)


def test_without_a_lake_there_is_nothing_to_trust(deployment: Deployment) -> None:
    alone = deployment.model_copy(update={"lake": None})
    with pytest.raises(UserError, match="no \\[lake\\]"):
        loaded_counts(alone, ReadPlan({}, ()), PERIOD)


@pytest.mark.parametrize(
    ("ranges", "start", "end"),
    [
        ([(0, 10), (10, 20)], 5, 20),
        ([(10, 20), (0, 10)], 0, 20),
        ([(0, 10), (11, 20)], 0, 10),
        ([(5, 10)], 0, 0),
        ([], 3, 3),
    ],
)
def test_a_hole_in_what_was_loaded_ends_the_trust(
    ranges: list[tuple[int, int]], start: int, end: int
) -> None:
    assert covered(ranges, start) == end
