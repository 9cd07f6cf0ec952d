"""One drill: real processes, real faults, everything found, named, repaired, and nothing else."""

from pathlib import Path

import pytest
from rich.console import Console

from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.planning.plan import make_drill_plan
from tallymark_audit.proof.drill.planning.topology import build
from tallymark_audit.proof.drill.run import Drill
from tallymark_audit.proof.drill.scoring.report import outcome_to_json, terminal_table
from tallymark_audit.proof.drill.truth.expected import CORRUPT, DUPLICATION, LOSS
from tallymark_audit.proof.harness.narrate import Narrator

REPLICATED = ("drop", "kill-leader", "lost-in-failover", "unclean-election", "transactions")
FAULTS = (
    *("drop", "duplicate", "corrupt", "drop-events", "kill-collector", "torn-tail"),
    "transactions",
)


@pytest.mark.process
@pytest.mark.soak
@pytest.mark.timeout(900)  # it waits for what takes a minute on a machine that is not busy
def test_one_seed_finds_everything_and_nothing_else(tmp_path: Path) -> None:
    plan = make_drill_plan(11, 14, FAULTS)
    narrator = Narrator(Console(soft_wrap=True))
    outcome = Drill(plan, build(tmp_path / "drill", plan.orders), narrator, 80).run()
    narrator.console.print(terminal_table(outcome))
    assert outcome.perfect, outcome_to_json(outcome)
    for kind in (LOSS, DUPLICATION, CORRUPT):
        assert outcome.comparison.expected(kind), f"no {kind} was made: the drill proves nothing"
    assert set(outcome.idle) <= {"drop-events"}
    assert outcome.repaired


@pytest.mark.process
@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_with_three_brokers_what_failovers_lose_is_found_and_nothing_else(tmp_path: Path) -> None:
    """Its twins without processes are test_plan.py and test_elections.py."""
    plan = make_drill_plan(11, 14, REPLICATED, brokers=3)
    narrator = Narrator(Console(soft_wrap=True))
    topology = build(tmp_path / "drill", plan.orders, brokers=3)
    outcome = Drill(plan, topology, narrator, 80).run()
    narrator.console.print(terminal_table(outcome))
    assert outcome.perfect, outcome_to_json(outcome)
    assert outcome.idle == []
    assert {one.kind for one in outcome.beside if one.found} >= set(kinds.FAILOVER_FAULTS)
    assert outcome.repaired >= 50, "of what the unclean election took"
