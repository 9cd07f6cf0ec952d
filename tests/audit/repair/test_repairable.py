"""What a page says about repair. The page of a loss of which nothing was left upstream offered
``repair --apply``, without the topic and the settings; it did nothing, for whoever tried it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_audit.collector.replication_incidents import incident_of
from tallymark_audit.judge.verdicts import CellVerdict, State
from tallymark_audit.model.cells import EXPIRED, CellKey, Edge, Explanation
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.repair.gone import LogStarts
from tallymark_audit.repair.next_steps import Known
from tallymark_audit.repair.repairable import Repairability, repairable
from tallymark_audit.store.counted.incidents import GIVEN_UP
from tallymark_audit.store.reading.window_evidence import Evidence
from tallymark_audit.store.schema.rows import cell_to_json

NOON = 1_767_268_800_000  # 2026-01-01T12:00:00Z
KEY = CellKey("clicks", 2, NOON, "web-1", "00112233445566aa")
MIRROR = Edge("dc1-to-aggregate", "dc1", "aggregate", "mirror")
PRODUCERS = Edge("producer-to-dc1", "producer", "dc1", "producer")
KNOWN = Known(60_000, "prod.toml", NOON - 1000)
PLAN = (
    "tallymark audit repair --edge dc1-to-aggregate --topic clicks --from 2026-01-01T12:00:00Z "
    "--to 2026-01-01T12:01:00Z --settings prod.toml"
)
ACCEPT = "tallymark audit accept --settings prod.toml dc1-to-aggregate clicks 2026-01-01T12:00:00Z"
MISSING = RangeSet.single(10, 13)


def cell(missing: RangeSet = MISSING, **others: Any) -> CellVerdict:
    return CellVerdict(KEY, State.LOSS, 100, 96, missing, missing.size, **others)


def place(offset: int, sequence: int, count: int = 1) -> dict[str, Any]:
    last = {"last_offset": offset + count - 1, "last_sequence": sequence + count - 1}
    first = {"first_offset": offset, "first_sequence": sequence}
    return {"cluster": "dc1", "topic": "clicks", "partition": 2, **first, **last}


def row(judged: CellVerdict, **others: Any) -> dict[str, Any]:
    told = {name: others.pop(name) for name in ("located", "searched") if name in others}
    verdict = {"edge": "dc1-to-aggregate", "topic": "clicks", "window": NOON, "source": "collector"}
    verdict |= {"state": "LOSS", "judged_at": NOON, "accepted_by": "", "reasons": []}
    counts = {"missing": judged.missing_count, "duplicates": 0, "unclaimed": 0}
    return {**verdict, **counts, "cells": [cell_to_json(judged) | told], **others}


def evidence(verdict: dict[str, Any], **others: Any) -> Evidence:
    seen = {"partition": 2, "server": "web-1", "instance": KEY.instance}
    above = {**seen, "seen_partition": 2, "first_offset": 500, "last_offset": 599}
    found = Evidence((verdict,), (above,), (), (), (), (), ())
    return replace(found, **others)


def event(kind: str, start: int, end: int, at: int = NOON + 1, number: int = 1) -> dict[str, Any]:
    place = {"cluster": "dc1", "topic": "clicks", "partition": 2, "id": number, "at": at}
    return {**place, "kind": kind, "from_offset": start, "to_offset": end}


def of(found: Evidence, edge: Edge = MIRROR, **starts: int) -> Repairability:
    begins = LogStarts({int(name[1:]): start for name, start in starts.items()}, NOON + 5)
    return repairable(found, edge, KNOWN, begins)


def test_what_was_found_upstream_can_be_copied() -> None:
    found = of(evidence(row(cell(), located=[place(510, 10, 4)], searched=True)))
    assert (found.repairable, found.of, found.unsure, found.reasons) == (4, 4, 0, ())
    assert found.commands == (PLAN, f"{PLAN} --apply", ACCEPT)
    said = "the readers of clicks on aggregate: 4 messages come late, by the repair"
    assert found.tell == (said,), "of a loss that can be repaired nobody was named"


def test_what_is_not_searched_yet_is_not_certain() -> None:
    found = of(evidence(row(cell())))
    assert (found.repairable, found.of, found.unsure) == (4, 4, 4)


def test_nothing_is_left_upstream() -> None:
    found = of(evidence(row(cell(), searched=True)))
    assert (found.repairable, found.of) == (0, 4)
    assert "dc1 does not have them any more: sequences 10-13 of web-1" in found.reasons[0]
    assert found.commands == (ACCEPT,)
    assert any("4 messages will not come" in one for one in found.tell)


@pytest.mark.parametrize(
    ("events", "left"),
    [
        ([event("expired", 0, 512)], 2),
        ([event("truncated", 511, 600)], 1),
        ([event("truncated", 511, 600, at=NOON - 1)], 4),  # found there since
        ([event("recreated", 0, 600)], 0),
        ([event("expired", 0, 512), event("recreated", 0, 0, NOON - 1, 0)], 2),
        ([event("expired", 0, 900, NOON - 5), event("recreated", 0, 0, NOON - 1)], 4),
        ([event("gap", 0, 600)], 4),
    ],
)
def test_what_happened_to_the_log_since(events: list[dict[str, Any]], left: int) -> None:
    verdict = row(cell(), located=[place(510, 10, 4)], searched=True)
    found = of(evidence(verdict, incidents=tuple(events)))
    assert (found.repairable, found.of) == (left, 4)
    assert sum(one.count for one in found.others) == 4 - left


def test_where_the_log_begins_by_now() -> None:
    verdict = row(cell(), located=[place(510, 10, 2), place(560, 12, 2)], searched=True)
    assert of(evidence(verdict), p2=511).repairable == 3
    assert of(evidence(verdict), p2=600).repairable == 0
    assert of(evidence(verdict), p1=600).repairable == 4
    assert of(evidence(row(cell())), p2=600).repairable == 0
    assert of(evidence(row(cell())), p2=550).unsure == 4
    told = of(evidence(verdict), p2=511)
    assert (told.starts_of, told.starts_at) == ("dc1", NOON + 5)
    told = repairable(evidence(verdict), MIRROR, KNOWN)
    assert (told.starts_of, told.starts_at, told.repairable) == ("dc1", 0, 4)
    assert of(evidence(verdict), PRODUCERS).starts_of == ""


def test_what_retention_deleted_before_it_was_copied() -> None:
    why = (Explanation(EXPIRED, RangeSet.single(10, 11)),)
    verdict = row(cell(explanations=why), located=[place(512, 12, 2)], searched=True)
    found = of(evidence(verdict))
    assert (found.repairable, found.of) == (2, 4)
    assert [one.count for one in found.others] == [2]
    assert "expired" in found.reasons[0]


def test_of_a_producer_there_is_only_the_claim() -> None:
    who = {"reporter": "r", "instance": KEY.instance, "application": "shop", "closed": True}
    found = of(evidence(row(cell(), edge="producer-to-dc1"), reporters=(who,)), PRODUCERS)
    assert (found.repairable, found.of) == (0, 4)
    assert "send them again" in found.reasons[0]
    assert found.tell[0].startswith("the owners of shop on web-1: 4 of the messages")
    assert not any("repair" in one for one in found.commands)


def cut(start: int, end: int, folder: str = "/d/broker-2/clicks-2-truncated", **others: Any) -> Any:
    """A broker's report that it cut these offsets (end excluded), as the collector stores it."""
    told = {
        "kind": GIVEN_UP, "topic": "clicks", "partition": 2, "at": NOON + 30_000, "broker": 2,
        "leader_epoch": 7, "from_offset": start, "to_offset": end, "high_watermark": end,
        "epochs": [[6, 0]], "folder": folder, "why": "" if folder else "the disk is full",
    }  # fmt: skip
    found = incident_of(json.dumps({**told, **others}).encode())
    assert found is not None
    return {**asdict(found[1]), "cluster": "dc1", "id": 1, "at": found[0]}


@pytest.mark.parametrize(
    ("events", "saved"),
    [
        ([cut(90, 200)], 4),
        ([cut(90, 93)], 3),
        ([cut(90, 92), cut(90, 92, "/d/broker-3/x-truncated")], 2),  # two replicas, the same
        ([cut(90, 92), cut(92, 93, "/d/broker-3/x-truncated")], 3),
        ([cut(90, 200, folder="")], 0),
        ([cut(90, 200, partition=1)], 0),
        ([cut(90, 200, topic="views")], 0),
        ([cut(90, 200, at=NOON - 1)], 0),  # before any message of the window was sent
        ([{**cut(90, 200), "cluster": "dc2"}], 0),
    ],
)
def test_what_brokers_have_saved_can_be_repaired(events: list[dict[str, Any]], saved: int) -> None:
    """After an unclean election the page said that nothing can be repaired and that producers
    should send again; ``tallymark audit repair`` would have put back all of it."""
    verdict = row(cell(), edge="producer-to-dc1")
    found = of(evidence(verdict, incidents=tuple(events)), PRODUCERS)
    assert (found.repairable, found.saved, found.of, found.unsure) == (saved, saved, 4, 0)
    assert sum(one.count for one in found.others) == 4 - saved
    plans = [one for one in found.commands if "audit repair" in one]
    assert len(plans) == (2 if saved else 0)
    assert all("--tails /d/broker-2/clicks-2-truncated" in one for one in plans)


def test_what_was_saved_is_counted_once_for_all_runs() -> None:
    """Two runs lack four messages each, and six were saved."""
    other = replace(cell(), key=KEY._replace(server="web-2"))
    verdict = row(cell(), edge="producer-to-dc1", missing=8)
    verdict["cells"].append(cell_to_json(other) | {"located": [], "searched": False})
    found = of(evidence(verdict, incidents=(cut(90, 96),)), PRODUCERS)
    assert (found.saved, found.of, [one.count for one in found.others]) == (6, 8, [2])
    assert "brokers have saved 2 records of partition 2" in found.reasons[0]


def test_a_folder_is_quoted_for_the_shell() -> None:
    verdict = row(cell(), edge="producer-to-dc1")
    hostile = "/d/a b; rm -rf ~-truncated"
    found = of(evidence(verdict, incidents=(cut(90, 99, hostile),)), PRODUCERS)
    assert f"--tails '{hostile}'" in found.commands[0]


def test_saved_records_of_the_cluster_upstream_do_not_help_a_mirror() -> None:
    verdict = row(cell(), searched=True)
    found = of(evidence(verdict, incidents=(cut(90, 200),)))
    assert (found.repairable, found.saved, found.of) == (0, 0, 4)


def test_a_silent_reporter_is_retired_by_name() -> None:
    told = {"instance": "i", "application": "shop", "closed": False, "retired_at": 0}
    told["server"] = "web-1"
    silent = {**told, "reporter": "shop; rm -rf /", "last_heard": NOON - 9_000}
    alive = {**told, "reporter": "alive", "last_heard": NOON}
    verdict = row(cell(), state="UNKNOWN", cells=[])
    found = of(evidence(verdict, reporters=(silent, alive)))
    assert (found.repairable, found.of) == (0, 0)
    retire = "tallymark audit retire --settings prod.toml 'shop; rm -rf /'"
    assert found.commands == (retire, ACCEPT)
    said = "the owners of shop on web-1: it says nothing since 2026-01-01T11:59:51Z"
    assert found.tell == (said,), "nobody was named who could start it again"


def test_of_copies_it_is_said_that_no_repair_takes_them_away() -> None:
    """The page of a duplication only offered to accept it."""
    doubled = row(cell(), state="DUPLICATION", missing=0, duplicates=3)
    doubled["cells"] = []
    found = of(evidence(doubled))
    assert "cannot be taken out of a log" in found.steps[0].text
    assert found.commands == (ACCEPT,)
    assert found.tell == ("the readers of clicks on aggregate: 3 messages came twice",)


@pytest.mark.parametrize("state", ["OPEN", "SETTLING", "COMPLETE"])
def test_of_a_window_that_is_well_or_too_young_there_is_nothing_to_do(state: str) -> None:
    verdict = row(cell(), state=state, missing=0 if state == "COMPLETE" else 4)
    verdict["cells"] = [] if state == "COMPLETE" else verdict["cells"]
    assert of(evidence(verdict)) == Repairability()


def test_cells_that_are_not_kept_are_told_of() -> None:
    found = of(evidence(row(cell(), located=[place(510, 10, 4)], missing=50)))
    assert (found.repairable, found.of) == (4, 50)
    assert [one.count for one in found.others] == [46]


def test_a_thousand_runs_are_a_few_lines() -> None:
    verdict = row(cell(), missing=4_000)
    verdict["cells"] = [
        cell_to_json(replace(cell(), key=KEY._replace(instance=f"{n:016x}"))) for n in range(1_000)
    ]
    found = of(evidence(verdict, upstream=()), PRODUCERS)
    assert (found.repairable, found.of) == (0, 4_000)
    assert len(found.others) == 1
    assert "999 more runs" in found.reasons[0]
    assert max(map(len, found.tell)) < 200


@given(
    missing=st.sets(st.integers(0, 30), min_size=1),
    located=st.sets(st.integers(0, 30)),
    searched=st.booleans(),
    start=st.integers(490, 540),
)
def test_every_missing_message_is_told_of_once(
    missing: set[int], located: set[int], searched: bool, start: int
) -> None:
    judged = cell(RangeSet.of(missing))
    places = [place(500 + one, one) for one in sorted(located & missing)]
    found = of(evidence(row(judged, located=places, searched=searched)), p2=start)
    assert found.repairable + sum(one.count for one in found.others) == found.of == len(missing)
    kept = {one for one in located & missing if 500 + one >= start}
    assert found.repairable - found.unsure == len(kept)
    if searched:
        assert not found.unsure
