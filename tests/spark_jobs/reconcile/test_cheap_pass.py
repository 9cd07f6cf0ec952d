"""The cheap pass compares digests. It never comes to another verdict than the exact one, and what
it cannot tell it leaves to that."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tallying import W, cheap, claim_of, key_of, knowing, shared_of, tally_of

from tallymark_audit.judge.verdicts import State
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import Claim
from tallymark_spark_jobs.counting.tally import CellTally
from tallymark_spark_jobs.reconcile.judging.groups import judge_group
from tallymark_spark_jobs.reconcile.judging.judged_lines import judged_of, lines_of
from tallymark_spark_jobs.reconcile.shapes.resolve import Stretch, joined, resolve, shortened
from tallymark_spark_jobs.reconcile.shapes.search import Identity, LogSpan, located
from tallymark_spark_jobs.reconcile.shapes.tallies import Seen

KEY = key_of()


@st.composite
def damaged(draw: st.DrawFn, sent: int) -> list[int]:
    """Sequences 0 to ``sent``, of which some are lost and others repeated, mostly as many."""
    lost = draw(st.sets(st.integers(0, sent - 1), max_size=6))
    left = [one for one in range(sent) if one not in lost]
    if not left:
        return []
    again = draw(st.lists(st.sampled_from(left), min_size=0, max_size=len(lost) + 1))
    foreign = draw(st.lists(st.integers(sent, sent + 5), max_size=1))
    return draw(st.permutations([*left, *again, *foreign]))


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.data(), st.integers(1, 40), st.integers(1, 3), st.integers(1, 3))
def test_it_never_differs_from_the_exact_pass(
    data: st.DataObject, sent: int, tasks: int, most: int
) -> None:
    """Loss and duplication cancel in the count, and did so in a ratio of counts too. In the sums of
    hashes they do not."""
    claims = [claim_of("dc1", KEY, [(0, sent - 1)])]
    exact: list[Seen] = []
    for cluster in ("dc1", "aggregate"):
        here = data.draw(damaged(sent)) if data.draw(st.booleans()) else list(range(sent))
        for task in range(tasks):
            part = here[task::tasks]
            if part:
                exact.append(Seen(cluster, tally_of(KEY, part, 100 * task)))
    shared = knowing(shared_of(claims), exact)
    truth = judge_group(shared, ["t"], exact, claims)
    told = judge_group(shared, ["t"], [cheap(one, most) for one in exact], claims)
    assert truth.unresolved == {}
    if told.unresolved:
        assert told.verdicts == []
        lost = {one.state for one in truth.verdicts}
        clean = all(one.tally.extra == 0 for one in exact)
        assert not (lost == {State.COMPLETE} and clean)
    else:
        assert [(one.edge, one.state, one.missing, one.duplicates) for one in told.verdicts] == [
            (one.edge, one.state, one.missing, one.duplicates) for one in truth.verdicts
        ]


def test_a_clean_cell_needs_no_ranges_however_its_parts_lie() -> None:
    """Two tasks that read every second message of a cell have a thousand ranges each."""
    parts = [Seen("dc1", tally_of(KEY, range(at, 2_000, 2), at)) for at in (0, 1)]
    found = resolve([cheap(one) for one in parts], {})
    assert found.unresolved == {}
    assert sum(one.tally.messages for one in found.seen) == 2_000
    assert {pair for one in found.seen for pair in one.tally.ranges} == {(0, 1_999)}


def test_what_a_claim_leaves_out_need_not_be_there() -> None:
    """A producer that shares its sequences among partitions claims every third: no single range."""
    ranges = [(at, at) for at in range(0, 300, 3)]
    claim = claim_of("dc1", KEY, ranges).claim
    one = cheap(Seen("aggregate", tally_of(KEY, range(0, 300, 3))))
    assert not one.named
    assert resolve([one], {KEY: [claim]}).unresolved == {}
    assert set(resolve([one], {}).unresolved) == {("aggregate", KEY)}


def test_upstream_names_what_downstream_holds_by_another_name() -> None:
    """A mirror renames topics; a digest is of the cell, whatever its topic is called."""
    every_third = list(range(0, 90, 3))
    upstream = Seen("dc1", tally_of(KEY, every_third))
    downstream = cheap(Seen("aggregate", tally_of(KEY._replace(topic="dc1.t"), every_third)))
    found = resolve([upstream, downstream], {})
    assert found.unresolved == {}
    assert {one.tally.ranges for one in found.seen} == {upstream.tally.ranges}


def test_where_a_mirror_could_not_copy_offsets_no_digest_is_enough() -> None:
    one = cheap(Seen("dc1", tally_of(KEY, [*range(10), *range(20, 30)])))
    claims = {KEY: [Claim(KEY, acknowledged=RangeSet([(0, 9), (20, 29)]))]}
    assert resolve([one], claims).unresolved == {}
    assert set(resolve([one], claims, {("dc1", "t")}).unresolved) == {("dc1", KEY)}


def test_only_the_windows_of_what_is_unresolved_wait() -> None:
    other = key_of(W)
    claims = [claim_of("dc1", KEY, [(0, 9)]), claim_of("dc1", other, [(0, 9)])]
    exact = [
        Seen(cluster, tally_of(key, [0, 1, 2, 5, 9] if lossy else list(range(10))))
        for cluster in ("dc1", "aggregate")
        for key in (KEY, other)
        for lossy in (cluster == "aggregate" and key == other,)
    ]
    shared = knowing(shared_of(claims), exact)
    told = judge_group(shared, ["t"], [cheap(one) for one in exact], claims)
    assert {one.window for one in told.verdicts} == {0}
    assert told.unresolved == {("aggregate", other): (Stretch("aggregate", "t", 0, 0, 4),)}


@pytest.mark.parametrize(("most", "named"), [(1, False), (2, True)])
def test_few_ranges_are_sent_as_they_are(most: int, named: bool) -> None:
    tally: CellTally = tally_of(KEY, [0, 1, 5, 6])
    assert (shortened(tally, most) is tally) is named


def test_stretches_are_read_once() -> None:
    some = [Stretch("c", "t", 0, 5, 9), Stretch("c", "t", 0, 0, 6), Stretch("c", "t", 0, 20, 21)]
    assert joined(some) == [Stretch("c", "t", 0, 0, 9), Stretch("c", "t", 0, 20, 21)]
    assert joined(some, 10) == [Stretch("c", "t", 0, 0, 21)]


@pytest.mark.slow
def test_a_cell_of_a_hundred_thousand_ranges_takes_a_moment() -> None:
    """Merging them one by one took 22 s for 8,000, and one lossy cell stopped a whole run; to place
    what it had lost took as long again."""
    many = 100_000
    claims = [claim_of("dc1", KEY, [(0, 3 * many)])]
    left = [one for one in range(3 * many + 1) if one % 3]
    seen = [Seen("dc1", tally_of(KEY, range(3 * many + 1)))]
    seen += [Seen("aggregate", tally_of(KEY, left[at::4], 10 * at)) for at in range(4)]
    shared = knowing(shared_of(claims), seen)
    began = time.process_time()
    judged = judge_group(shared, ["t"], seen, claims)
    back = judged_of(lines_of(judged))
    (loss,) = [one for one in back.verdicts if one.missing]
    (cell,) = loss.cells
    there = [LogSpan("dc1", "t", 0, at, at, at, at) for at in range(0, 3 * many + 1, 3)]
    places = located(cell, {Identity("t", 0, KEY.instance): there})
    taken = time.process_time() - began
    assert loss.missing == len(places) == many + 1
    assert taken < 5, f"{taken:.1f} s of processor"
