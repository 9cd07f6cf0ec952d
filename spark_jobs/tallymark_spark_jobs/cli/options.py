"""The options that all commands share which run on Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, TypeVar

import click

from tallymark_spark_jobs.engine.running import Engine
from tallymark_spark_jobs.engine.said import of_options

_Command = TypeVar("_Command", bound=Callable[..., Any])


class SparkOptions(TypedDict):
    """What the command line gave, by the names of the parameters."""

    master: str | None
    conf: tuple[str, ...]


def spark_options(command: _Command) -> _Command:
    """Add ``--master`` and ``--conf`` to a command, whose options then include
    :class:`SparkOptions`."""
    for option in (
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
    return Engine(given["master"], of_options(given["conf"]))
