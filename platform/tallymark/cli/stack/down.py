"""``tallymark down``: stop what ``tallymark up`` keeps running, from another terminal."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click

from tallymark.cli.stack.stacks import settings_running
from tallymark.deployment import Deployment, load
from tallymark.processes.supervisor.ending import end_stack
from tallymark.processes.supervisor.run import LONGEST_STOP_SECONDS


@click.command("down")
@click.option("--settings", type=click.Path(), help="The settings file of the deployment.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=LONGEST_STOP_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until it has ended.",
)
def command(settings: str | None, timeout: float) -> None:
    """Stop the stack that ``tallymark up`` keeps running, in order, and wait until it has ended.

    Also one in the background, and that of ``tallymark attach``. Data stays.

    Exits with 0 also when nothing runs, with 1 when it has not ended in time.
    """
    deployment = load(settings)
    said = _Said(deployment)
    pid = end_stack(deployment, timeout, said)
    folder = deployment.data_dir.absolute()
    if pid is not None:
        click.echo(f"the stack on {folder} has stopped")
        return
    click.echo(f"no stack is running on {folder}")
    for other in settings_running():
        click.echo(f"one runs here: tallymark down --settings {shlex.quote(str(other))}")


class _Said:
    """Prints which processes are left, whenever they are others than before."""

    def __init__(self, deployment: Deployment) -> None:
        self._folder = deployment.data_dir.absolute()
        self._left: list[str] | None = None

    def __call__(self, left: Sequence[str]) -> None:
        if self._left is None:
            click.echo(f"stopping the stack on {self._folder}")
        if left and list(left) != self._left:
            click.echo(f"  still running: {', '.join(left)}")
        self._left = list(left) or self._left or []
