"""``tallymark``: one command whose sub-commands come from the entry points ``tallymark.commands``.

A sub-command's module is imported only when it is called, so ``tallymark --help`` needs neither
Spark nor FastAPI. A :class:`~tallymark.errors.UserError` is printed as one line; anything else is
a bug of ours, said as such, with the traceback only when ``TALLYMARK_DEBUG`` is set.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points, version
from typing import Any

import click
from click.shell_completion import CompletionItem

from tallymark.cli.std_streams import ReaderGone, drop_output, noticing_readers, open_missing
from tallymark.errors import TallymarkError, UserError

SUMMARIES = {
    "acls": "Say who may do what.",
    "apache-kafka": "Run a broker of Apache Kafka, for trying the stack on it.",
    "audit": "Count, judge, name and repair: the audit.",
    "broker": "Run one broker.",
    "cluster": "Show the brokers of a cluster.",
    "completion": "Print the script by which a shell completes commands.",
    "consume": "Print the messages of topics.",
    "dashboards": "Serve the audit dashboards.",
    "demo": "Run the main job end to end, with a real fault.",
    "doctor": "Look for what is missing on this machine, and say what to do.",
    "export": "Write the records of a topic to a file.",
    "groups": "List, describe, reset and delete consumer groups.",
    "import": "Send the records of an exported file to a topic.",
    "log-dirs": "Show what the disks of brokers hold.",
    "mirror": "Copy topics from one cluster into another.",
    "offsets": "Check how far consumers are behind.",
    "perf": "Measure how fast a cluster takes and gives messages.",
    "produce": "Publish lines as messages.",
    "publish": "Publish JSON lines, CSV, access logs or host metrics as Avro events.",
    "reconcile": "Reconcile with Spark: count the data, judge every window.",
    "registry": "Serve the Avro schema registry.",
    "replay": "Send a topic's messages again, at the pace they once came.",
    "status": "Show the processes of the running stack.",
    "topics": "List, create, describe, change and delete topics.",
    "up": "Start the whole stack on this machine.",
    "users": "Add, list and remove users.",
    "verify-log": "Check the files of a broker's logs.",
    "zookeeper": "Run Apache ZooKeeper from the Spark extra.",
}


class _Commands(click.Group):
    """Finds commands among the entry points, by name, and loads them lazily."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(point.name for point in entry_points(group="tallymark.commands"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for point in entry_points(group="tallymark.commands", name=cmd_name):
            try:
                return _load(point)
            except UserError:
                if ctx.resilient_parsing:  # a shell asks for completions: there are none
                    return None
                raise
        return None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # click's own would import every command, Spark's included, to see whether it is hidden.
        names = [
            CompletionItem(name, help=SUMMARIES.get(name))
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return names or click.Command.shell_complete(self, ctx, incomplete)

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        with noticing_readers():  # --help prints while options are read
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with noticing_readers():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, SUMMARIES.get(name, "")) for name in self.list_commands(ctx)]
            )


def _load(point: EntryPoint) -> click.Command:
    try:
        command = point.load()
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tallymark"):
            raise
        extra = {"tallymark_spark_jobs": "spark", "tallymark_schema_registry": "registry"}
        name = extra.get(point.module.split(".")[0], "dashboards")
        raise UserError(
            f"'tallymark {point.name}' needs the package {error.name}, which is not installed",
            f"pip install 'tallymark[{name}]'",
        ) from error
    assert isinstance(command, click.Command), f"{point.value} is not a command"
    return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("tallymark"), prog_name="tallymark")
def command() -> None:
    """Know that every event arrived: a Kafka-compatible log platform with the audit built in."""


def main() -> None:
    """The console script. Exit codes: 0 done, 1 failed, 2 wrong usage, others as commands say;
    they are the same where nobody reads standard error."""
    open_missing()
    try:
        # Without its standalone mode click returns what a command hands to ctx.exit().
        sys.exit(code if isinstance(code := command(standalone_mode=False), int) else 0)
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        with suppress(OSError):
            click.echo("tallymark: stopped", err=True)
        sys.exit(130)
    except ReaderGone:
        drop_output()
        sys.exit(0)
    except UserError as error:
        _fail(str(error), error.exit_code)
    except TallymarkError as error:
        _fail(str(error), 1)
    except OSError as error:
        name = f"{error.filename}: " if error.filename else "reading or writing failed: "
        _fail(f"{name}{error.strerror or error}; see what it reads and where its output goes", 1)
    except Exception as error:
        _fail(
            f"unexpected {type(error).__name__}: {error}; this is a bug, "
            "TALLYMARK_DEBUG=1 shows where",
            70,
        )


def _fail(text: str, code: int) -> None:
    if os.environ.get("TALLYMARK_DEBUG"):
        import traceback

        traceback.print_exc()
    with suppress(OSError):
        click.echo(f"tallymark: {text}", err=True)
    sys.exit(code)
