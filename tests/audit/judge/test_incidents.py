"""Incidents are runs of bad windows. What they are must not depend on the order in which windows
were found bad, or an incident would be another one for whoever looks later."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tallymark_audit.judge.incidents import JOINING, Change, IncidentRun, Incidents, Standing, worse
from tallymark_audit.judge.states import GOOD, State

W = 1000
LOSS = Standing(State.LOSS, missing=5)
GOOD_AGAIN = Standing(State.COMPLETE)
standings = st.one_of(
    st.builds(
        Standing,
        st.sampled_from([State.LOSS, State.MIXED, State.DUPLICATION, State.CORRUPT]),
        st.booleans(),
        st.integers(0, 3),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    st.builds(Standing, st.sampled_from([State.UNKNOWN, State.UNCLAIMED])),
    st.sampled_from([Standing(state) for state in (*GOOD, State.OPEN, State.SETTLING)]),
)
steps = st.lists(st.tuples(st.integers(0, 25), standings), max_size=40)


def played(changes: Sequence[Change], window_ms: int = W) -> Incidents:
    known = Incidents(window_ms)
    known.take(changes)
    return known


def standing(known: Incidents) -> list[IncidentRun]:
    found = [run for run in known.runs.values() if not run.merged_into]
    return sorted(found, key=lambda run: run.first_window)


def numbered(steps: Sequence[tuple[int, Standing]]) -> list[Change]:
    return [Change(number * W, now, at) for at, (number, now) in enumerate(steps, 1)]


@given(steps)
def test_an_incident_is_a_cluster_of_windows_that_were_ever_bad(
    steps: list[tuple[int, Standing]],
) -> None:
    known = played(numbered(steps))
    last: dict[int, Standing] = {}
    worst: dict[int, Standing] = {}
    for number, now in steps:
        if now.state in (State.OPEN, State.SETTLING):
            continue
        if number in last or now.state not in GOOD:
            last[number] = now
            worst[number] = worse(worst.get(number, now), now)
    clusters: list[list[int]] = []
    for number in sorted(last):
        if clusters and number - clusters[-1][-1] <= JOINING + 1:
            clusters[-1].append(number)
        else:
            clusters.append([number])
    runs = standing(known)
    assert [(run.first_window // W, run.last_window // W) for run in runs] == [
        (some[0], some[-1]) for some in clusters
    ]
    for run, some in zip(runs, clusters, strict=True):
        assert run.windows == len(some)
        assert run.bad == sum(last[number].bad for number in some)
        assert run.missing == sum(last[number].missing for number in some)
        assert run.worst_missing == sum(worst[number].missing for number in some)
        assert run.worst_duplicates == sum(worst[number].duplicates for number in some)
        assert (run.closed_at == 0) == (run.state == "OPEN") == (run.bad > 0)
        members = [one for one in known.members.values() if one.incident == run.number]
        assert sorted(one.window // W for one in members) == some
        assert all((one.closed_at == 0) == one.standing.bad for one in members)
    assert all(two.first_window - one.last_window > known.reach for one, two in pairwise(runs))


@given(steps, st.randoms(use_true_random=False))
def test_the_order_in_which_windows_are_found_changes_nothing(
    steps: list[tuple[int, Standing]], chance: object
) -> None:
    """Each window's own changes stay in order; those of different windows are shuffled."""
    queues: dict[int, list[Change]] = {}
    for change in numbered(steps):
        queues.setdefault(change.window, []).append(change)
    shuffled: list[Change] = []
    while queues:
        window = chance.choice(sorted(queues))  # type: ignore[attr-defined]  # Hypothesis' Random
        shuffled.append(queues[window].pop(0))
        if not queues[window]:
            del queues[window]

    def said(known: Incidents) -> list[tuple[object, ...]]:
        return [
            (run.first_window, run.last_window, run.kind, run.state, run.opened_at, run.windows,
             run.bad, run.accepted, run.explained, run.missing, run.duplicates, run.unclaimed,
             run.worst_missing, run.worst_duplicates, run.worst_unclaimed)
            for run in standing(known)
        ]  # fmt: skip

    assert said(played(shuffled)) == said(played(numbered(steps)))


@given(steps)
def test_the_whole_history_once_more_gives_the_same(steps: list[tuple[int, Standing]]) -> None:
    """In one go or change by change: what the store holds in between is all that is needed."""
    changes = numbered(steps)
    once = played(changes)
    again = Incidents(W)
    for change in changes:
        again.touched.clear()
        again.moved.clear()
        again.take([change])
        assert {again.members[at].incident for at in again.moved} <= again.touched
    assert (again.runs, again.members) == (once.runs, once.members)


def test_a_loss_that_is_repaired_names_its_repair_and_stays() -> None:
    known = played(
        [
            Change(0, LOSS, 10),
            Change(3 * W, LOSS, 11),
            Change(0, Standing(State.SETTLING), 20),
            Change(0, GOOD_AGAIN, 21, "repair 7"),
        ]
    )
    (run,) = standing(known)
    assert (run.state, run.bad, run.missing, run.worst_missing) == ("OPEN", 1, 5, 10)
    known.take([Change(3 * W, GOOD_AGAIN, 30, "repair 7")])
    (run,) = standing(known)
    assert (run.state, run.repaired_by, run.closed_at, run.kind) == (
        "REPAIRED", "repair 7", 30, State.LOSS,
    )  # fmt: skip
    assert (run.missing, run.worst_missing, run.windows, run.opened_at) == (0, 10, 2, 10)


def test_what_ends_without_a_repair_says_how() -> None:
    def ended(last: Standing) -> str:
        return standing(played([Change(0, LOSS, 1), Change(0, last, 2)]))[0].state

    assert ended(GOOD_AGAIN) == "RESOLVED", "what was missing came late"
    assert ended(Standing(State.EXPLAINED)) == "EXPLAINED"
    assert ended(LOSS._replace(accepted=True)) == "ACCEPTED"


def test_a_third_good_window_between_makes_two_incidents_and_a_bad_one_there_joins_them() -> None:
    known = played([Change(0, LOSS, 1), Change(4 * W, LOSS, 2)])
    assert len(standing(known)) == 2
    known.take([Change(2 * W, LOSS, 3)])
    (run,) = standing(known)
    assert (run.windows, run.missing, run.first_window, run.last_window) == (3, 15, 0, 4 * W)
    (gone,) = [one for one in known.runs.values() if one.merged_into]
    assert gone.merged_into == run.number


def test_one_that_had_ended_opens_again_when_its_window_turns_bad() -> None:
    known = played([Change(0, LOSS, 1), Change(0, GOOD_AGAIN, 2), Change(0, LOSS, 3)])
    (run,) = standing(known)
    assert (run.state, run.closed_at, run.opened_at, run.last_change) == ("OPEN", 0, 1, 3)
