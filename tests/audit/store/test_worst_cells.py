"""What was wrong stays known when it is mended: which messages, and where they were."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from tallymark_audit.judge.verdicts import CellVerdict, State, Verdict
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.judged.verdicts import COLLECTOR, locate_cells, record_verdicts
from tallymark_audit.store.reading.window_evidence import Was, evidence
from tallymark_audit.store.schema.rows import cell_to_json
from tallymark_audit.store.schema.tables import worst_cells

NOON = 1_767_268_800_000
EDGE, TOPIC = "dc1-to-aggregate", "clicks"
WHERE = {"cluster": "dc1", "partition": 1, "first_offset": 500, "last_offset": 502}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'audit.db'}") as made:
        yield made


def lost(*missing: int, state: State = State.LOSS) -> Verdict:
    ranges = RangeSet.from_list(list(missing))
    key = CellKey(TOPIC, 1, NOON, "web-7", "00112233445566aa")
    cell = CellVerdict(key, state, 100, 90, missing=ranges, missing_count=ranges.size)
    sums: dict[str, Any] = {"claimed": 100, "observed": 100 - ranges.size, "missing": ranges.size}
    return Verdict(EDGE, TOPIC, NOON, state, **sums, cells=(cell,))


GOOD = Verdict(EDGE, TOPIC, NOON, State.COMPLETE, claimed=100, observed=100)


def judge(store: Store, *verdicts: Verdict) -> None:
    with store.write() as connection:
        for later, verdict in enumerate(verdicts):
            record_verdicts(connection, [verdict], COLLECTOR, NOON + later)


def locate(store: Store, verdict: Verdict) -> None:
    row = {
        "edge": EDGE, "topic": TOPIC, "window": NOON, "source": COLLECTOR, "revision": 0,
        "cells": [cell_to_json(cell) for cell in verdict.cells],
    }  # fmt: skip
    with store.write() as connection:
        locate_cells(connection, row, {0: [WHERE]})


def was(store: Store) -> Was | None:
    with store.read() as connection:
        return evidence(connection, EDGE, TOPIC, NOON).was


def test_the_offsets_of_lost_messages_are_known_after_their_repair(store: Store) -> None:
    """A window was repaired at night. In the morning its page said 100 %, and nobody could say
    which messages had been lost, or find them."""
    judge(store, lost(10, 12))
    locate(store, lost(10, 12))
    assert was(store) is None  # the verdict itself has them
    judge(store, lost(10, 12, state=State.SETTLING), GOOD)
    found = was(store)
    assert found is not None
    assert found.state == State.LOSS
    (cell,) = found.cells
    assert cell["missing"] == [10, 12]
    assert cell["located"] == [WHERE]


def test_the_worst_is_kept_however_it_gets_better(store: Store) -> None:
    judge(store, lost(10, 12), lost(12, 12), GOOD, lost(40, 40), GOOD)
    found = was(store)
    assert found is not None
    assert found.cells[0]["missing"] == [10, 12]


def test_a_window_that_gets_worse_is_kept_as_it_was_then(store: Store) -> None:
    judge(store, lost(40, 40), GOOD, lost(10, 12), GOOD)
    found = was(store)
    assert found is not None
    assert found.cells[0]["missing"] == [10, 12]


def test_what_was_only_pending_is_not_kept(store: Store) -> None:
    judge(store, lost(10, 12, state=State.SETTLING), GOOD)
    with store.read() as connection:
        assert not connection.execute(select(worst_cells)).all()
