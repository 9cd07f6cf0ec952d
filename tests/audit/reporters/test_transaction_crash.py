"""A transactional producer that dies, at every write of its audit: what it claims in the end is
what became of its records. Nothing of a transaction that may be aborted is claimed, and nothing
that was committed is taken back."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from audited_run import AuditedHost, W, check, files_of, members
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallymark.client.producing.interceptors.transaction_stage import TransactionStage
from tallymark_audit.model.cells import FOREVER
from tallymark_audit.model.sides import Claim
from tallymark_audit.reporters.books.tally_cell import Outcome
from tallymark_audit.reporters.journal import file, replay

ACKED, FAILED, DOUBT = Outcome.ACKNOWLEDGED, Outcome.FAILED, Outcome.IN_DOUBT
OPEN, ENDING = TransactionStage.OPEN, TransactionStage.ENDING
COMMITTED, ABORTED = TransactionStage.COMMITTED, TransactionStage.ABORTED


@pytest.fixture(autouse=True)
def small_journals(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that they are rewritten in the midst of a script."""
    monkeypatch.setattr(file, "STEP", 1024)


def the_claim(host: AuditedHost) -> Claim:
    (claim,) = host.claims(host.life, host.book()).values()
    return claim


def begun(folder: Path, *stages: TransactionStage, contents: bool = True) -> AuditedHost:
    """Three records are sent in a transaction that came so far: one is acknowledged, one was given
    up in doubt, one is on its way."""
    host = AuditedHost(folder, content_check=contents)
    host.transaction_is(OPEN)
    at = host.now // W * W
    for _ in range(3):
        host.accept(0, [at])
    host.settle(0, ACKED)
    host.settle(0, DOUBT)
    for stage in stages:
        host.transaction_is(stage)
    return host


def story(host: AuditedHost) -> None:
    """Transactions with every end, with reports between; stops where it dies."""
    steps: list[Any] = []
    for turn, end in enumerate((COMMITTED, ABORTED, COMMITTED, TransactionStage.IN_DOUBT)):
        at = host.now // W * W + turn * 700
        steps += [
            lambda: host.transaction_is(OPEN),
            lambda at=at: host.accept(0, [at, at + 1, at + W]),
            lambda at=at: host.accept(1, [at] * 5),
            lambda: host.settle(0, ACKED),
            host.tick,
            lambda at=at: host.accept(0, [at + 2, at + W + 1]),
            lambda turn=turn: host.settle(0, (ACKED, DOUBT, FAILED, ACKED)[turn]),
            lambda end=end: host.transaction_is(OPEN if end is ABORTED else ENDING),
            lambda end=end: host.transaction_is(end),
            host.flush,
        ]
    last = [lambda: host.transaction_is(OPEN), lambda: host.accept(1, [host.now]), host.close]
    for step in [*steps, *last]:
        if not host.life.dead:
            step()


@pytest.mark.parametrize("max_ranges", [1000, 3])
def test_killed_at_every_step_of_the_journal(tmp_path: Path, max_ranges: int) -> None:
    whole = AuditedHost(tmp_path / "whole", max_ranges)
    story(whole)
    check(whole, whole.life)
    for number, torn in product(range(whole.life.disk.steps), (0.0, 0.4)):
        if torn and whole.life.disk.names[number] != "write":
            continue
        host = AuditedHost(tmp_path / f"{number}-{torn}", max_ranges, dies_at=number, torn=torn)
        story(host)
        assert host.life.disk.dead
        host.replay("refused")
        host.replay("arrives")
        check(host, host.life, exact_contents=not host.life.ways)
        assert files_of(host.folder) == []


def test_nothing_of_an_open_transaction_is_claimed(tmp_path: Path) -> None:
    host = begun(tmp_path)
    host.tick()
    claim = the_claim(host)
    assert claim.accepted.size == 3
    assert not claim.claimed
    assert claim.pending.size == 3
    (reporter,) = host.book().reporters.values()
    assert reporter.complete_through <= claim.min_timestamp


@pytest.mark.parametrize("asked", [False, True])
def test_a_producer_that_is_killed_in_a_transaction_claims_nothing_of_it(
    tmp_path: Path, asked: bool
) -> None:
    """Where no commit was asked for, its coordinator aborts it when its time is over; where one
    was, only the log knows."""
    host = begun(tmp_path, *([ENDING] if asked else []))
    host.kill()
    host.replay()
    claim = the_claim(host)
    assert not claim.claimed
    assert (claim.in_doubt.size, claim.aborted.size) == ((3, 0) if asked else (0, 3))
    (reporter,) = host.book().reporters.values()
    assert (reporter.closed, reporter.complete_through) == (True, FOREVER)


def test_a_host_that_lost_its_power_may_have_lost_the_note_of_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last entries of the journal may never have been on the disk: what looks open may be
    committed."""
    host = begun(tmp_path)
    host.kill()
    monkeypatch.setattr(replay, "this_boot", lambda: b"the host's next 1")
    host.replay()
    assert the_claim(host).in_doubt.size == 3


@pytest.mark.parametrize("contents", [True, False])
@pytest.mark.parametrize(
    ("end", "outcomes"),
    [(COMMITTED, (2, 0, 1)), (ABORTED, (0, 3, 0)), (TransactionStage.IN_DOUBT, (0, 0, 3))],
)
def test_what_is_acknowledged_in_a_transaction_ends_with_it(
    tmp_path: Path, end: TransactionStage, outcomes: tuple[int, int, int], contents: bool
) -> None:
    """What was in doubt stays so, unless it was aborted: a record cannot be committed that may not
    be there."""
    host = begun(tmp_path, ENDING, end, contents=contents)
    host.tick()
    claim = the_claim(host)
    assert not claim.pending
    assert (claim.claimed.size, claim.aborted.size, claim.in_doubt.size) == outcomes
    assert sum(block.records for block in claim.blocks) == (outcomes[0] if contents else 0)
    assert sum(claim.latency[1::2]) == outcomes[0]


def test_what_was_refused_in_a_transaction_is_not_claimed_with_its_neighbours(
    tmp_path: Path,
) -> None:
    host = AuditedHost(tmp_path, content_check=False)
    host.transaction_is(OPEN)
    for _ in range(3):
        host.accept(0, [host.now])
    for outcome, at in ((FAILED, 1), (ACKED, 0), (ACKED, 0)):
        host.settle(at, outcome)
    host.transaction_is(COMMITTED)
    host.tick()
    claim = the_claim(host)
    assert members(claim.claimed) == {0, 2}
    assert members(claim.failed) == {1}


@pytest.mark.parametrize("end", [COMMITTED, ABORTED])
def test_what_is_sent_after_a_transaction_does_not_end_as_that_did(
    tmp_path: Path, end: TransactionStage
) -> None:
    host = begun(tmp_path, ENDING, end)
    host.accept(0, [host.now])
    host.kill()
    host.replay()
    assert 3 in members(the_claim(host).in_doubt)


@pytest.mark.parametrize("asked", [False, True])
def test_a_producer_that_is_closed_in_a_transaction_claims_nothing_of_it(
    tmp_path: Path, asked: bool
) -> None:
    host = begun(tmp_path, *([ENDING] if asked else []))
    host.close()
    claim = the_claim(host)
    assert not claim.claimed
    assert not claim.pending
    assert (claim.in_doubt.size, claim.aborted.size) == ((3, 0) if asked else (0, 3))
    assert files_of(tmp_path) == []


def test_a_transaction_without_records_is_not_in_the_journal(tmp_path: Path) -> None:
    host = AuditedHost(tmp_path)
    host.accept(0, [host.now])
    host.settle(0, ACKED)
    steps = host.life.disk.steps
    for stage in (OPEN, ENDING, COMMITTED, OPEN, ABORTED):
        host.transaction_is(stage)
    assert host.life.disk.steps == steps
    host.kill()
    host.replay()
    assert the_claim(host).claimed.size == 1


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("accept"),
            st.integers(0, 1),
            st.lists(st.integers(0, 2 * W), min_size=1, max_size=4),
        ),
        st.tuples(st.just("settle"), st.integers(0, 9), st.sampled_from((ACKED, FAILED, DOUBT))),
        st.tuples(st.just("transaction_is"), st.sampled_from(TransactionStage)),
        st.tuples(st.just("transaction_is"), st.just(OPEN)),
        st.tuples(st.just("tick"), st.sampled_from(["arrives", "lost", "refused"])),
        st.tuples(st.just("kill"), st.none() | st.integers(0, 30), st.sampled_from([0.0, 0.5, 1])),
        st.tuples(st.just("close")),
        st.tuples(st.just("full"), st.integers(0, 30)),
        st.tuples(st.just("replay"), st.sampled_from(["arrives", "refused"])),
    ),
    max_size=40,
)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps, st.sampled_from([1000, 4]))
def test_whatever_happens_the_claims_are_what_happened(
    tmp_path_factory: pytest.TempPathFactory, script: list[tuple[Any, ...]], max_ranges: int
) -> None:
    """Transactions and what is sent outside of them, reports that arrive or are lost, full disks,
    deaths at any step of the journal, and starts."""
    host = AuditedHost(tmp_path_factory.mktemp("journal"), max_ranges)
    for kind, *more in script:
        if kind == "kill" and more[0] is None:
            host.kill()
        elif kind == "kill":
            host.life.disk.die_at = host.life.disk.steps + more[0]
            host.life.disk.torn = more[1]
        elif kind == "full":
            host.life.disk.fail_at = host.life.disk.steps + more[0]
        elif kind == "accept":
            host.accept(more[0], [host.now % W + time for time in more[1]])
        else:
            getattr(host, kind)(*more)
        if host.life.dead:
            host.start()
    host.kill()
    host.replay()
    for life in host.lives:
        if not life.broken:
            check(host, life, exact_contents=not life.ways)
