"""``tallymark demo``, which ``make demo`` runs."""

from __future__ import annotations

import random
import shutil
import sys
import time
from pathlib import Path

import click
from rich.console import Console

from tallymark.errors import UserError
from tallymark.processes.process import stop_signals
from tallymark_audit.proof.demo.afterwards import last_lines
from tallymark_audit.proof.demo.run import Demo, running_stack
from tallymark_audit.proof.demo.stack import demo_deployment, prepare_folder
from tallymark_audit.proof.harness.narrate import Narrator


@click.command("demo")
@click.option("--once", is_flag=True, help="End after the last step instead of staying up.")
@click.option("--seed", type=int, help="Makes the fault repeatable; random and shown if not given.")
@click.option(
    "--fault", type=click.Choice(["cut-tail", "none"]), default="cut-tail", show_default=True
)
@click.option(
    "--input", "input_file", type=click.Path(path_type=Path), help="A file to publish as well."
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".tallymark/demo"),
    show_default=True,
    help="Where all of the demo's data goes; emptied at the start.",
)
@click.option(
    "--kafka",
    type=click.Choice(["tallymark", "apache"]),
    default="tallymark",
    show_default=True,
    help="Whose brokers the clusters have: ours, or Apache Kafka's (fetched by Maven).",
)
def command(
    once: bool, seed: int | None, fault: str, input_file: Path | None, data: Path, kafka: str
) -> None:
    """Run the main job end to end: publish, mirror, lose messages, name and repair them."""
    if input_file is not None and not input_file.is_file():
        raise UserError(f"there is no file {input_file}", "give --input an existing file")
    seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    deployment = demo_deployment(data, "apache-kafka" if kafka == "apache" else "tallymark")
    demo = Demo(
        deployment=deployment,
        settings=prepare_folder(deployment),
        narrator=Narrator(Console(soft_wrap=True)),
        chance=random.Random(seed),
        input_file=input_file,
    )
    demo.narrator.say(f"seed {seed}, data and logs in {data}, brokers: {kafka}")
    with running_stack(demo) as up:
        demo.run(with_fault=fault != "none")
        demo.narrator.say(f"done in {demo.narrator.elapsed:.0f} s")
        if not once:
            _say_goodbye(demo, stays=True)
            with stop_signals() as stopped:
                while not stopped.is_set():
                    up.check()
                    time.sleep(0.5)
    if once:
        _say_goodbye(demo, stays=False)


def _say_goodbye(demo: Demo, stays: bool) -> None:
    console = demo.deployment.dashboards.url
    for line in last_lines(demo.settings, _program(), console, demo.lost, stays):
        demo.narrator.say(line)


def _program() -> str:
    """How this command is called from here: by its name, or by its path where that is not found."""
    if shutil.which("tallymark"):
        return "tallymark"
    beside = Path(sys.executable).with_name("tallymark")
    return str(beside.relative_to(Path.cwd())) if beside.is_relative_to(Path.cwd()) else str(beside)
