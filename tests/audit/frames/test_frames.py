"""The audit as DataFrames: typed, in UTC, and never rounded up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from judged_world import World, heartbeats, publisher, steady, world_in
from memory_lake import MemoryLake

from tallymark.deployment import LakeSettings
from tallymark.errors import UserError
from tallymark_audit import frames
from tallymark_audit.frames.columns import frame_of_dicts
from tallymark_audit.frames.reports import VERDICTS
from tallymark_audit.judge.cell_verdicts import CellVerdict
from tallymark_audit.judge.states import State
from tallymark_audit.judge.verdicts import Verdict
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.store import open_store
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.store.schema.rows import cell_to_json

pd: Any = pytest.importorskip("pandas")
NOON = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp() * 1000)
HOUR = 3_600_000


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two producers, a mirror that loses nothing, and a load that loses three rows."""
    lake = LakeSettings(overdue_ms=600_000)
    with world_in(tmp_path_factory.mktemp("frames"), lake=lake) as made:
        made.now = NOON
        one, two = publisher(made, "dc1", b"a"), publisher(made, "dc2", b"b")
        table = MemoryLake(made.clusters["aggregate"], 1000)
        steady(made, one, two)
        table.report(table.load(made.now, lose={12, 13, 40}), made.now)
        heartbeats(made, one, two)
        yield made


def test_verdicts_are_typed_and_in_utc(world: World) -> None:
    with frames.open_audit(world.deployment) as audit:
        found: Any = audit.verdicts()
        assert list(found.columns) == list(VERDICTS)
        assert str(found["window"].dtype) == str(found["judged_at"].dtype) == "datetime64[ms, UTC]"
        assert found["window"].iloc[0] == pd.Timestamp("2026-01-31T12:00:00Z")
        assert found["window"].is_monotonic_increasing
        assert found["claimed"].dtype == "int64"
        assert found["state"].cat.ordered
        assert found["state"].max() == "LOSS"
        assert found.groupby("edge", observed=True)["missing"].sum()["aggregate-to-lake"] == 3
        only: Any = audit.verdicts("dc1-to-aggregate", "t", "2026-01-31T12:00:01", NOON + 2000)
        assert only["window"].tolist() == [pd.Timestamp("2026-01-31T12:00:01Z")]
        later = datetime(2026, 1, 31, 12, 1, tzinfo=UTC)
        assert audit.verdicts(start=later).empty
        assert list(audit.verdicts(start=later).columns) == list(VERDICTS)


def test_findings_name_what_is_missing(world: World) -> None:
    with frames.open_audit(world.store) as audit:
        found: Any = audit.findings("aggregate-to-lake")
    assert found["missing"].sum() == 3
    assert set(found["state"]) == {"LOSS"}
    assert set(found["server"]) == {"web"}
    with world.store.read():
        pass  # the store that was given is still open


def test_cells_count_each_message_once(world: World) -> None:
    with frames.open_audit(world.store) as audit:
        sent: Any = audit.cells("dc1", "t", tier="producer")
        counted: Any = audit.cells("dc1", "t")
        loaded: Any = audit.cells("aggregate", "t", tier="lake")
    assert sent["messages"].sum() == counted["messages"].sum() == 60
    assert loaded["messages"].sum() == 117
    assert counted["copies"].sum() == 0
    assert counted["first_offset"].min() == 0
    assert set(sent["first_offset"]) == {-1}
    assert str(counted["min_timestamp"].dtype) == "datetime64[ms, UTC]"
    assert loaded["p99"].notna().all()


def test_latency_by_tier(world: World) -> None:
    with frames.open_audit(world.store) as audit:
        found: Any = audit.latency("t")
        assert set(found["tier"]) >= {"producer", "cluster", "lake"}
        assert found["start"].unique().tolist() == [pd.Timestamp("2026-01-31T12:00:00Z")]
        of_lake = found[found["tier"] == "lake"]
        assert of_lake["messages"].tolist() == [117]
        assert (of_lake["p50"] <= of_lake["p99"]).all()
        small: Any = audit.latency("t", NOON, NOON + 2000, by="window")
        assert small["start"].nunique() == 2
        assert audit.latency("unknown").empty
        with pytest.raises(UserError, match="give one of 10min"):
            audit.latency("t", by="7min")  # type: ignore[arg-type]  # as a user may


def test_lateness_and_watermarks(world: World) -> None:
    with frames.open_audit(world.store) as audit:
        late: Any = audit.lateness("t")
        marks: Any = audit.watermarks()
    assert set(late["counter"]) <= {"dc1", "dc2", "aggregate"}
    held = marks[marks["edge"] == "aggregate-to-lake"]
    assert (held["holes"] > 0).all()
    assert held["through"].iloc[0] < pd.Timestamp("2026-01-31T12:00:03Z")


def test_completeness_is_rounded_down(tmp_path: Path) -> None:
    """One of a hundred million is missing: 99.999999 % would show as all at six digits."""
    key = CellKey("t", 0, NOON, "web", "ab" * 8)
    lost = CellVerdict(
        key, State.LOSS, 10**8, 10**8 - 1, RangeSet.single(7, 7), 1, reason="not there"
    )
    judged = [
        Verdict("dc1-to-aggregate", "t", NOON, State.LOSS, 10**8, 10**8 - 1, 1, cells=(lost,)),
        Verdict("dc1-to-aggregate", "t", NOON + 60_000, State.COMPLETE, 10, 10),
        Verdict("dc1-to-aggregate", "t", NOON + 120_000, State.DUPLICATION, 10, 10, 0, 5),
        Verdict("dc1-to-aggregate", "t", NOON + HOUR, State.COMPLETE, 10, 10),
        Verdict("dc1-to-aggregate", "t", NOON + HOUR + 60_000, State.SETTLING, 10, 4, 6),
        Verdict("dc1-to-aggregate", "t", NOON + 2 * HOUR, State.OPEN, 10, 4),
        Verdict("dc1-to-aggregate", "t", -60_000, State.COMPLETE, 5, 5),
    ]
    with open_store(f"sqlite:///{tmp_path / 'a.db'}") as store:
        with store.write() as connection:
            record_verdicts(connection, judged, COLLECTOR, NOON + 3 * HOUR)
        with frames.open_audit(store) as audit:
            verdicts: Any = audit.verdicts()
            found: Any = frames.completeness(verdicts)
    assert verdicts["window"].isna().sum() == 1
    hours = found.loc[("dc1-to-aggregate", "t")]
    assert hours["windows"].tolist() == [3, 2, 1]
    assert hours["undecided"].tolist() == [0, 1, 1]
    assert hours["state"].tolist() == ["LOSS", "SETTLING", "OPEN"]
    shares = hours["share"].tolist()
    assert shares[0] == 0.999999
    assert shares[1] == 1.0
    assert shares[2] != shares[2]  # nothing is decided
    assert frames.completeness(verdicts, by="1D")["windows"].tolist() == [6]


def report(folder: Path) -> Path:
    key = CellKey("t", 2, NOON, "web", "ab" * 8)
    lost = CellVerdict(key, State.LOSS, 10, 8, RangeSet([(3, 3), (7, 7)]), 2, reason="gone")
    raw = {
        "as_of": NOON + HOUR,
        "edges": [{"edge": "dc1-to-aggregate", "topic": "t", "windows": 2, "missing": 2}],
        "verdicts": [
            {
                "edge": "dc1-to-aggregate",
                "topic": "t",
                "window": NOON,
                "state": "LOSS",
                "claimed": 10,
                "observed": 8,
                "missing": 2,
                "reasons": ["gone"],
                "cells": [cell_to_json(lost)],
            }
        ],
    }
    path = folder / "report.json"
    path.write_text(json.dumps(raw))
    return path


def test_a_report_has_the_same_columns_as_the_store(tmp_path: Path, world: World) -> None:
    told = frames.read_report(report(tmp_path))
    found: Any = told.verdicts()
    with frames.open_audit(world.store) as audit:
        stored: Any = audit.verdicts()
        cells: Any = audit.findings()
    assert found.dtypes.astype(str).tolist() == stored.dtypes.astype(str).tolist()
    assert found["judged_at"].iloc[0] == pd.Timestamp("2026-01-31T13:00:00Z")
    assert found["source"].tolist() == ["spark"]
    wrong: Any = told.findings()
    assert wrong.columns.tolist() == cells.columns.tolist()
    assert wrong["sequences"].tolist() == ["3, 7"]
    assert wrong[["partition", "missing"]].to_numpy().tolist() == [[2, 2]]
    edges: Any = told.edges()
    assert edges["windows"].tolist() == [2]
    share = frames.completeness(found)["share"]
    assert share.tolist() == [0.8]


@pytest.mark.parametrize("text", ["", "[]", "{}", "no json"])
def test_what_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(UserError, match=r"r\.json"):
        frames.read_report(tmp_path / "r.json")
    with pytest.raises(UserError, match="cannot read"):
        frames.read_report(tmp_path / "nothing.json")


def test_verdicts_of_a_table_of_the_lake() -> None:
    pa = pytest.importorskip("pyarrow")
    row = {"edge": "aggregate-to-lake", "topic": "t", "state": "COMPLETE", "claimed": 7}
    whole: Any = frames.verdicts_of([{**row, "window": NOON, "judged_at": NOON + 5}])
    table = pa.table(
        {
            **{name: [value] for name, value in row.items()},
            "window": pa.array([NOON * 1000], pa.timestamp("us", tz="UTC")),
            "judged_at": pa.array([(NOON + 5) * 1000], pa.timestamp("us", tz="UTC")),
        }
    )
    pd.testing.assert_frame_equal(frames.verdicts_of(table), whole)
    pd.testing.assert_frame_equal(frames.verdicts_of(table.to_pandas()), whole)
    assert whole["claimed"].tolist() == [7]
    with pytest.raises(UserError, match="without state"):
        frames.verdicts_of([{"edge": "e", "topic": "t", "window": 0}])
    assert frames.verdicts_of([]).empty


def test_a_stamp_far_away_has_a_time() -> None:
    """Nanoseconds end in 2262: such a stamp made the whole frame fail."""
    (at,) = frame_of_dicts(("window",), [{"window": 1 << 44}])["window"].tolist()
    assert at.year == 2527


def test_without_pandas_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(UserError, match="pandas is not installed"):
        frames.verdicts_of([])


@pytest.mark.slow
def test_the_import_alone_does_not_import_pandas() -> None:
    import subprocess
    import sys

    code = "import sys, tallymark_audit.frames; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
