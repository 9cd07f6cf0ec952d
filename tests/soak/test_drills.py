"""Drills over many seeds, and a clean run: recall and precision are 100 %, or this fails."""

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from tallymark_audit.proof.drill.clean import CleanRun
from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.planning.leftovers import OUTCOME
from tallymark_audit.proof.drill.planning.plan import make_drill_plan
from tallymark_audit.proof.drill.planning.topology import build
from tallymark_audit.proof.drill.run import Drill
from tallymark_audit.proof.drill.scoring.report import markdown, outcome_to_json
from tallymark_audit.proof.drill.truth.expected import CORRUPT, DUPLICATION, LOSS
from tallymark_audit.proof.harness.narrate import Narrator

SEEDS = 20
REPLICATED_SEEDS = 5
MESSAGES = 10_000_000
SIDE_BY_SIDE = (
    *("drop", "drop-batch", "duplicate", "corrupt", "lost-ack", "drop-events", "drop-fetched"),
    *("kill-collector", "kill-mirror", "kill-broker", "lost-segment", "loss-for-spark"),
    *("kill-consumer", "recreate-topic"),
)
"""Faults that Spark sees beside those of the lake."""


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The folder of one drill. All of a drill that failed is kept elsewhere: pytest removes its own
    folders after three more runs."""
    yield tmp_path / "drill"
    outcome = tmp_path / "drill" / OUTCOME
    if outcome.exists() and not json.loads(outcome.read_text(encoding="utf-8"))["perfect"]:
        name = f"{request.node.name}-{time.strftime('%Y%m%dT%H%M%S')}"
        kept = Path(tempfile.gettempdir()) / "tallymark-failed-drills" / name
        kept.parent.mkdir(exist_ok=True)
        shutil.move(tmp_path / "drill", kept)
        print(f"all of the drill is kept in {kept}")


@pytest.mark.soak
@pytest.mark.process
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_a_drill_finds_everything_and_nothing_else(folder: Path, seed: int) -> None:
    plan = make_drill_plan(seed, 24)
    narrator = Narrator(Console(soft_wrap=True))
    outcome = Drill(plan, build(folder, plan.orders), narrator, 100).run()
    print(markdown([outcome]))
    assert outcome.perfect, outcome_to_json(outcome)
    assert len(set(outcome.faults) - set(outcome.idle)) >= 5, outcome.hits
    for kind in (LOSS, DUPLICATION, CORRUPT):
        assert outcome.comparison.expected(kind), f"no {kind} was made: the drill proves nothing"


@pytest.mark.soak
@pytest.mark.process
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(1, REPLICATED_SEEDS + 1))
def test_a_drill_of_three_brokers_finds_everything_and_nothing_else(
    folder: Path, seed: int
) -> None:
    plan = make_drill_plan(seed, 24, brokers=3)
    narrator = Narrator(Console(soft_wrap=True))
    topology = build(folder, plan.orders, brokers=3)
    outcome = Drill(plan, topology, narrator, 100).run()
    print(markdown([outcome]))
    assert outcome.perfect, outcome_to_json(outcome)
    assert outcome.hits[kinds.KILL_LEADER]
    assert {one.kind for one in outcome.beside if one.found} & set(kinds.FAILOVER_FAULTS)


@pytest.mark.soak
@pytest.mark.process
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("seed", "others"), [(11, ("drop", "duplicate")), (12, SIDE_BY_SIDE)])
def test_spark_and_the_collectors_agree_on_each_window_of_each_hop(
    folder: Path, seed: int, others: tuple[str, ...]
) -> None:
    """The hop into the lake among them, of which rows and a file were taken behind its back."""
    plan = make_drill_plan(seed, 24, (*kinds.LAKE_FAULTS, *others))
    narrator = Narrator(Console(soft_wrap=True))
    topology = build(folder, plan.orders, loaded=plan.lake_topics)
    outcome = Drill(plan, topology, narrator, 60, with_spark=True).run()
    print(markdown([outcome]))
    assert outcome.perfect, outcome_to_json(outcome)
    assert {one.kind for one in outcome.beside if one.found} >= set(kinds.LAKE_FAULTS)


@pytest.mark.soak
@pytest.mark.process
@pytest.mark.timeout(7200)
def test_a_clean_run_raises_no_alarm(tmp_path: Path) -> None:
    narrator = Narrator(Console(soft_wrap=True))
    outcome = CleanRun(build(tmp_path / "drill", []), narrator, MESSAGES).run()
    assert outcome.problems == []
    assert outcome.messages == MESSAGES
