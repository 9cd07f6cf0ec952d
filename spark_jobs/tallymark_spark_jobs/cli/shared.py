"""What the commands share: the options of Spark, and how spark-submit runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, TypeVar

import click

from tallymark.deployment import Deployment
from tallymark.errors import TallymarkError
from tallymark_spark_jobs.engine.running import Engine
from tallymark_spark_jobs.engine.said import of_options

_Command = TypeVar("_Command", bound=Callable[..., Any])


class SparkOptions(TypedDict):
    """What the command line gave, by the names of the parameters."""

    master: str | None
    conf: tuple[str, ...]
    large: bool


def spark_options(command: _Command) -> _Command:
    """Add ``--master``, ``--conf`` and ``--large`` to a command, whose options then include
    :class:`SparkOptions`."""
    for option in (
        click.option(
            "--large",
            is_flag=True,
            help="On this machine alone: Java is made for a job of minutes, more memory and all.",
        ),
        click.option(
            "--conf",
            multiple=True,
            metavar="K=V",
            help="A setting of Spark; it wins over all others. May be repeated.",
        ),
        click.option("--master", help="Spark's master.  [default: spark-submit's, or local[*]]"),
    ):
        command = option(command)
    return command


def engine_of(given: SparkOptions) -> Engine:
    """Where the job runs. UserError for a ``--conf`` that is no setting of Spark."""
    return Engine(given["master"], of_options(given["conf"]), given["large"])


def require_lake(deployment: Deployment, *, spark: bool) -> None:
    """UserError unless the settings have a lake, and the packages are installed that its tables
    need; with ``spark`` also what Spark needs. Called before anything is imported that needs
    them."""
    from tallymark_spark_jobs.engine.session import require_spark
    from tallymark_spark_jobs.lake.opening import lake_of

    lake_of(deployment).require()
    if spark:
        require_spark()


def run_submitted(command: click.Command, arguments: Sequence[str] | None = None) -> int:
    """Run ``command`` with ``arguments`` (None: those of the process) and return its exit code.
    Errors are one line on standard error."""
    name = command.name or "job"
    try:
        command.main(
            args=None if arguments is None else list(arguments),
            prog_name=name,
            standalone_mode=False,
        )
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 130
    except TallymarkError as error:
        click.echo(f"{name}: {error}", err=True)
        return 1
    return 0
