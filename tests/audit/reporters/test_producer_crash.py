"""A producer that dies, at every write of its audit: what is claimed in the end is what happened.

Never a false "acknowledged", and nothing lost of what was acknowledged before the death:
``accepted = acknowledged ∪ failed ∪ in doubt``, record by record.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from audited_run import (
    AuditedHost,
    Life,
    W,
    check,
    files_of,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallymark_audit.reporters.books.tally_cell import Outcome
from tallymark_audit.reporters.journal import file
from tallymark_audit.reporters.producer import producer_run

ACKED, FAILED, DOUBT = Outcome.ACKNOWLEDGED, Outcome.FAILED, Outcome.IN_DOUBT


@pytest.fixture(autouse=True)
def small_journals(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that they are rewritten in the midst of a script."""
    monkeypatch.setattr(file, "STEP", 1024)


def story(host: AuditedHost) -> None:
    """Everything a producer does, ending with its close; stops where it dies."""
    base = host.now // W * W
    steps: list[Any] = []
    for turn in range(3):
        at = base + turn * 400
        steps += [
            lambda at=at: host.accept(0, [at, at + 1, at + 700]),
            lambda at=at: host.accept(1, [at] * 5),
            lambda: host.settle(0, ACKED),
            lambda: host.tick("arrives" if len(host.arrived) % 2 else "lost"),
            lambda at=at: host.accept(0, [at + 2, at + W, at + 3, at + W + 1]),
            lambda turn=turn: host.settle(0, (FAILED, DOUBT, ACKED)[turn % 3]),
            lambda: host.flush(),
            lambda: host.settle(1, ACKED),
            lambda: host.tick("refused"),
        ]
    for step in [*steps, host.close]:
        if not host.life.dead:
            step()


@pytest.mark.parametrize("max_ranges", [1000, 3])
@pytest.mark.slow
def test_killed_at_every_step_of_the_journal(tmp_path: Path, max_ranges: int) -> None:
    """Before the step, which is just behind the last one, and in the midst of it."""
    whole = AuditedHost(tmp_path / "whole", max_ranges)
    story(whole)
    check(whole, whole.life)
    steps = whole.life.disk.steps
    assert steps > 60
    assert whole.life.disk.names.count("rename") >= 3
    for number, torn in product(range(steps), (0.0, 0.4)):
        if torn and whole.life.disk.names[number] != "write":
            continue
        host = AuditedHost(tmp_path / f"{number}-{torn}", max_ranges, dies_at=number, torn=torn)
        story(host)
        assert host.life.disk.dead
        host.replay("refused")
        host.replay("arrives")
        check(host, host.life, exact_contents=not host.life.ways)
        assert files_of(host.folder) == []


@pytest.mark.parametrize("for_ever", [False, True])
@pytest.mark.slow
def test_a_disk_that_fails_at_every_step_changes_no_claim(tmp_path: Path, for_ever: bool) -> None:
    """Full once, or from then on: the run goes on, and its own last report tells everything."""
    whole = AuditedHost(tmp_path / "whole")
    story(whole)
    for number in range(whole.life.disk.steps):
        host = AuditedHost(tmp_path / str(number), fails_at=number, for_ever=for_ever)
        story(host)
        check(host, host.life)
        lost = host.life.run.troubles.journals_lost
        assert lost == 1 or whole.life.disk.names[number] == "remove"
        for name in files_of(host.folder):
            # Removing the file was what failed: it is replayed, and changes nothing.
            assert name.endswith((".journal", ".draft"))
        host.life.disk.bury()
        host.replay()
        check(host, host.life)


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("accept"),
            st.integers(0, 1),
            st.lists(st.integers(0, 2 * W), min_size=1, max_size=4),
        ),
        st.tuples(st.just("settle"), st.integers(0, 9), st.sampled_from(Outcome)),
        st.tuples(
            st.sampled_from(["tick", "flush"]),
            st.sampled_from(["arrives", "lost", "refused", "waits"]),
        ),
        st.tuples(st.just("kill"), st.none() | st.integers(0, 30), st.sampled_from([0.0, 0.5, 1])),
        st.tuples(st.just("close")),
        st.tuples(st.just("full"), st.integers(0, 30)),
        st.tuples(st.just("replay"), st.sampled_from(["arrives", "refused"])),
        st.tuples(st.just("rest")),
    ),
    max_size=40,
)


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps, st.sampled_from([1000, 4]), st.booleans())
@pytest.mark.slow
def test_whatever_happens_the_claims_are_what_happened(
    tmp_path_factory: pytest.TempPathFactory,
    script: list[tuple[Any, ...]],
    max_ranges: int,
    rests: bool,
) -> None:
    """Batches, ends of batches, reports that arrive or are lost, full disks, deaths at any step of
    the journal, and starts. A life whose journal the disk did not take may lose claims with its
    death, but none that is told is wrong. Cells are forgotten after a ``rest``: then what was lost
    after it had been acknowledged cannot be told again, so either happens, not both."""
    host = AuditedHost(tmp_path_factory.mktemp("journal"), max_ranges)
    for step in script:
        kind = step[0]
        if step[-1] == "lost" and rests:
            step = (kind, "arrives")
        if kind == "kill" and step[1] is None:
            host.kill()
        elif kind == "kill":
            host.life.disk.die_at = host.life.disk.steps + step[1]
            host.life.disk.torn = step[2]
        elif kind == "full":
            host.life.disk.fail_at = host.life.disk.steps + step[1]
        elif kind == "rest":
            host.now += producer_run.KEEP_MS if rests else 0
        elif kind == "close":
            host.close()
        elif kind == "replay":
            host.replay(step[1])
        elif kind == "accept":
            host.accept(step[1], [host.now % W + time for time in step[2]])
        elif kind == "settle":
            host.settle(step[1], step[2])
        else:
            getattr(host, kind)(step[1])
        if host.life.dead:
            host.start()
    host.kill()
    host.replay()
    for life in host.lives:
        if not life.broken:
            check(host, life, exact_contents=not life.ways)
        else:
            _nothing_told_is_wrong(host, life)


def _nothing_told_is_wrong(host: AuditedHost, life: Life) -> None:
    ends = (life.ways or [life.notes])[-1]
    for (partition, _), claim in host.claims(life, host.book()).items():
        for first, last in claim.acknowledged:
            for sequence in range(first, last + 1):
                assert ends[partition, sequence].outcome is ACKED
