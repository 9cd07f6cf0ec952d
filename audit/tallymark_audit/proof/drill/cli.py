"""``tallymark audit drill``."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from pathlib import Path
from typing import Final, TypedDict, Unpack

import click

from tallymark_audit.proof.drill.clean import CleanRun
from tallymark_audit.proof.drill.planning.plan import ALL_FAULTS, make_drill_plan
from tallymark_audit.proof.drill.planning.topology import Topology, all_hops, build
from tallymark_audit.proof.drill.run import Drill
from tallymark_audit.proof.drill.scoring.report import (
    DrillOutcome,
    markdown,
    merged_outcome,
    outcome_to_json,
    side_table,
    terminal_table,
)
from tallymark_audit.proof.harness.narrate import Narrator
from tallymark_audit.tables import console

NOT_SO: Final = 3


class DrillOptions(TypedDict):
    """The options of ``tallymark audit drill``; ``duration`` in seconds, ``rate`` in messages a
    second of each producer."""

    seed: int | None
    runs: int
    faults: str | None
    hops: tuple[str, ...]
    share: float | None
    rate: float
    duration: float
    keep: Path
    with_spark: bool
    report: Path | None
    json_file: Path | None
    clean: int | None
    brokers: str


@click.command("drill")
@click.option("--seed", type=int, help="Makes the drill repeatable; random and shown if not given.")
@click.option(
    "--runs",
    type=click.IntRange(1, 1_000),
    default=1,
    show_default=True,
    help="So many drills one after the other, each with the next seed.",
)
@click.option(
    "--faults",
    help=f"Which, separated by commas; the seed chooses if not given. {', '.join(ALL_FAULTS)}.",
)
@click.option("--hop", "hops", multiple=True, help=f"Where: {', '.join(all_hops())}.")
@click.option(
    "--share", type=click.FloatRange(0, 1), help="The share of records or requests that is hit."
)
@click.option(
    "--rate",
    type=click.FloatRange(10, 5_000),
    default=100,
    show_default=True,
    help="Of each producer, messages a second.",
)
@click.option(
    "--duration",
    type=click.FloatRange(10, 3_600),
    default=20,
    show_default=True,
    help="Of traffic, s.",
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".tallymark/drill"),
    show_default=True,
    help="Where all data, logs and seals go. The next drill there removes them; those of drills "
    "that failed it moves to failed/, the last three.",
)
@click.option(
    "--with-spark",
    is_flag=True,
    help="Spark counts everything too, and has to say the same as the collectors.",
)
@click.option("--report", type=click.Path(path_type=Path), help="Write the tables as Markdown.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all as JSON.")
@click.option(
    "--clean",
    type=click.IntRange(1_000, 1_000_000_000),
    help="No faults: so many messages as fast as they go, and not one alarm.",
)
@click.option(
    "--brokers",
    type=click.Choice(["1", "3"]),
    default="1",
    show_default=True,
    help="Of each cluster. With three, topics have three replicas and leaders are killed.",
)
@click.pass_context
def drill(context: click.Context, **given: Unpack[DrillOptions]) -> None:
    """Make real faults in a real stack, and hold what the audit says against what was done.

    Exit code 0: every fault was found and named, and nothing else; 3: not so.
    """
    narrator = Narrator(console())
    if given["clean"] is not None:
        topology = build(given["keep"], [], brokers=int(given["brokers"]))
        good = _clean(given["clean"], topology, narrator, given["json_file"])
    else:
        good = _drill(given, narrator)
    context.exit(0 if good else NOT_SO)


def _drill(given: DrillOptions, narrator: Narrator) -> bool:
    """Drill with one seed after the other, up to the first one that is not perfect; whether all
    were."""
    seed, keep = given["seed"], given["keep"]
    seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    wanted = [name.strip() for name in (given["faults"] or "").split(",") if name.strip()]
    brokers, hops, share = int(given["brokers"]), given["hops"], given["share"]
    outcomes: list[DrillOutcome] = []
    for number in range(seed, seed + given["runs"]):
        plan = make_drill_plan(number, given["duration"], wanted, hops, share, brokers)
        narrator.say(f"seed {number}, data and logs in {keep}, faults: {', '.join(plan.faults)}")
        topology = build(keep, plan.orders, loaded=plan.lake_topics, brokers=brokers)
        outcome = Drill(plan, topology, narrator, given["rate"], given["with_spark"]).run()
        outcomes.append(outcome)
        _tell(outcome, narrator)
        _write(outcomes, given)
        if not outcome.perfect:
            narrator.say(f"data, logs and seals are in {keep}, and stay: see outcome.json there")
            break
    if given["runs"] > 1:
        narrator.console.print(terminal_table(merged_outcome(outcomes)))
        narrator.console.print(side_table(merged_outcome(outcomes)))
    return all(outcome.perfect for outcome in outcomes)


def _write(outcomes: list[DrillOutcome], given: DrillOptions) -> None:
    if given["report"] is not None:
        given["report"].write_text(markdown(outcomes), encoding="utf-8")
    if given["json_file"] is not None:
        given["json_file"].write_text(
            json.dumps(list(map(outcome_to_json, outcomes)), indent=2), "utf-8"
        )


def _tell(outcome: DrillOutcome, narrator: Narrator) -> None:
    narrator.console.print(terminal_table(outcome))
    narrator.console.print(side_table(outcome))
    for line in outcome.taken_back:
        narrator.say(f"[red]taken back:[/] {line}")
    for line in outcome.deaths:
        narrator.say(f"[red]died:[/] {line}")
    if outcome.idle:
        narrator.say(f"[yellow]these hit nothing: {', '.join(outcome.idle)}[/]")
    for problem in outcome.problems:
        narrator.say(f"[red]{problem}[/]")
    for line in outcome.places:
        narrator.say(f"[red]where:[/] {line}")
    narrator.say(f"{narrator.elapsed:.0f} s so far")


def _clean(messages: int, topology: Topology, narrator: Narrator, json_file: Path | None) -> bool:
    """Whether a run without faults raised no alarm."""
    narrator.say(f"{messages:,} messages without a fault, data and logs in {topology.folder}")
    outcome = CleanRun(topology, narrator, messages).run()
    narrator.say(
        f"{outcome.messages:,} messages in {outcome.windows:,} windows; produced in "
        f"{outcome.produced_seconds:.0f} s, all judged after {outcome.judged_seconds:.0f} s"
    )
    for problem in outcome.problems:
        narrator.say(f"[red]{problem}[/]")
    if not outcome.problems:
        narrator.say("[green]not one alarm[/]")
    if json_file is not None:
        json_file.write_text(json.dumps(asdict(outcome), indent=2), encoding="utf-8")
    return not outcome.problems
