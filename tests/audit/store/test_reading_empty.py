"""A store without any verdict: every page shows it, so every reading function must answer."""

from __future__ import annotations

from pathlib import Path

from tallymark.deployment import Deployment
from tallymark_audit.store import open_store
from tallymark_audit.store.reading import (
    age,
    heat,
    incidents,
    latency,
    neighbours,
    pulse,
    series,
    worst,
)
from tallymark_audit.store.reading.sums import Sums

HOUR = 3_600_000
DAY = 24 * HOUR
PLACES: list[tuple[str | None, str | None]] = [(None, None), ("e", None), (None, "t"), ("e", "t")]


def test_an_empty_store_is_read_without_an_error(database: str, tmp_path: Path) -> None:
    with open_store(database) as store, store.read() as connection:
        for start, end in ((0, DAY), (5, 7), (HOUR - 1, 3 * HOUR + 1)):
            assert pulse.pulse(connection, start, end).sums == Sums()
            assert pulse.pulse(connection, start, end, "t").through == -1
            assert worst.worst(connection, start, end, find="x_%") == worst.TopicPage((), 0, 0)
            for bucket in (600_000, HOUR):
                for edge, topic in PLACES:
                    assert series.buckets(connection, edge, topic, start, end, bucket) == []
                assert heat.heat(connection, ["t"], start, end, bucket) == {"t": []}
        which = incidents.WhichIncidents(["OPEN"], ["LOSS"], "e", "t", 0, DAY, "x")
        assert incidents.incident_page(connection, which, (DAY, 1)) == []
        assert incidents.incident_count(connection, which) == 0
        assert incidents.incident(connection, 1) is None
        assert incidents.incidents_of(connection, None, "t", 0) == []
        assert incidents.windows_of(connection, 1, 5) == []
        assert neighbours.neighbours(connection, "e", "t", 0) == neighbours.Neighbours()
        assert neighbours.first_bad(connection, 0, DAY) is None
        assert neighbours.topics_named(connection, "t", 9) == []
        assert neighbours.edges_known(connection) == []
        assert latency.latency_series(connection, ["dc1"], None, 0, DAY, HOUR) == []
        assert latency.latency_of(connection, ["dc1"], "t", 0, DAY) == {}
        assert latency.lateness_series(connection, "dc1", "t", 0, DAY) == []
        deployment = Deployment(data_dir=tmp_path)
        found = age.audit_age(connection, deployment, DAY)
        assert not found.ok, "absence is never well"
        assert {one.why for one in found.behind} == {"never"}
