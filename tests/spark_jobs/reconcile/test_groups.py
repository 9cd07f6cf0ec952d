"""Groups: topics that mirrors rename into one another stay together, and a part judged alone is
judged as in the whole."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tallying import DEPLOYMENT, W, claim_of, key_of, knowing, shared_of, tally_of

from tallymark.deployment import Deployment, Mirror
from tallymark_audit.model.edges import derive_edges
from tallymark_spark_jobs.reconcile.judging.groups import families, judge_group
from tallymark_spark_jobs.reconcile.judging.in_tasks import CELLS_A_GROUP, span_of
from tallymark_spark_jobs.reconcile.judging.judged_lines import judged_of, lines_of
from tallymark_spark_jobs.reconcile.shapes.tallies import Seen

RENAMING = Deployment(
    audit=DEPLOYMENT.audit,
    mirrors=(
        Mirror(source="dc1", target="aggregate", rename="{source}.{topic}"),
        Mirror(source="dc2", target="aggregate", renames={"t": "u"}),
    ),
)


def test_a_family_is_all_names_that_mirrors_give_a_topic() -> None:
    found = families(["t", "x"], derive_edges(RENAMING))
    assert found["t"] == found["dc1.t"] == found["u"]
    assert found["x"] == found["dc1.x"] != found["t"]
    assert families(["t", "x"], derive_edges(DEPLOYMENT)) == {"t": "t", "x": "x"}


def test_a_group_has_about_so_many_cells() -> None:
    assert span_of(10, 1, W) == CELLS_A_GROUP // 10 * W
    assert span_of(CELLS_A_GROUP * 100, 100, W) == W
    assert span_of(CELLS_A_GROUP * 10, 100, W) == 10 * W
    assert span_of(0, 0, W) >= W


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 4))
@pytest.mark.slow
def test_windows_judged_apart_are_judged_as_together(seed: int, cut: int) -> None:
    """What a task judges of some windows is what the driver judges of all; through the lines that
    a task returns."""
    keys = [key_of(window * W, instance) for window in range(5) for instance in (1, 2)]
    claims = [claim_of("dc1", key, [(key.window, key.window + 19)]) for key in keys]
    seen: list[Seen] = []
    rng = Random(seed)
    for key in keys:
        for cluster in ("dc1", "aggregate"):
            first = key.window  # a run numbers all its messages in one row
            held = [one for one in range(first, first + 20) if rng.random() > 0.05]
            held += rng.choices(held, k=rng.randrange(3))
            seen.append(Seen(cluster, tally_of(key, held, key.window)))
    shared = knowing(shared_of(claims), seen)
    whole = judge_group(shared, ["t"], seen, claims)
    parts = [
        judge_group(
            shared,
            ["t"],
            [one for one in seen if (one.tally.key.window >= cut * W) is later],
            [one for one in claims if (one.part.key.window >= cut * W) is later],
        )
        for later in (False, True)
    ]
    lines = [line for part in parts for line in lines_of(part)]
    together = judged_of(lines)
    place = [(one.edge, one.window) for one in whole.verdicts]
    assert sorted(together.verdicts, key=lambda one: place.index((one.edge, one.window))) == list(
        whole.verdicts
    )
    assert together.search == judged_of(lines_of(whole)).search
    assert together.search.keys() == whole.search.keys()
