"""``tallymark``: one command whose sub-commands are ours (:mod:`.commands`) and those that other
packages bring by entry points ``tallymark.commands``.

A sub-command's module is imported only when it is called: ``tallymark --help`` needs neither Spark
nor FastAPI, and no command loads what another one needs. A
:class:`~tallymark.errors.UserError` is printed as one line; anything else is a bug of ours, and is
printed as one, with the traceback only when ``TALLYMARK_DEBUG`` is set.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

import click

from tallymark import __version__
from tallymark.cli.commands import COMMANDS
from tallymark.errors import TallymarkError, UserError
from tallymark.shell.lazy_group import NamedGroup, load_command
from tallymark.shell.std_streams import ReaderGone, drop_output, noticing_readers, open_missing
from tallymark.shell.umask import set_umask
from tallymark.untrusted import LINES, escaped

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from click.shell_completion import CompletionItem


class _Commands(NamedGroup):
    """Finds commands by name, and loads them lazily."""

    called_otherwise: ClassVar = {"start": "up", "stop": "down"}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*COMMANDS, *(point.name for point in _entry_points())})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        target = COMMANDS[cmd_name].target if cmd_name in COMMANDS else _foreign(cmd_name)
        if target is None:
            return None
        try:
            return _load(cmd_name, target)
        except UserError:
            if ctx.resilient_parsing:  # a shell asks for completions: there are none
                return None
            raise

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # click's own would import every command, Spark's included, to see whether it is hidden.
        from click.shell_completion import CompletionItem

        names = [
            CompletionItem(name, help=_summary(name))
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
            formatter.write_dl([(name, _summary(name)) for name in self.list_commands(ctx)])


def _summary(name: str) -> str:
    return COMMANDS[name].summary if name in COMMANDS else ""


def _entry_points() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # it reads the metadata of all that is installed

    return entry_points(group="tallymark.commands")


def _foreign(name: str) -> str | None:
    return next((point.value for point in _entry_points() if point.name == name), None)


def _load(name: str, target: str) -> click.Command:
    try:
        return load_command(target)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tallymark"):
            raise
        extra = {"tallymark_spark_jobs": "spark", "tallymark_schema_registry": "registry"}
        raise UserError(
            f"'tallymark {name}' needs the package {error.name}, which is not installed",
            f"pip install 'tallymark[{extra.get(target.split('.')[0], 'dashboards')}]'",
        ) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tallymark")
def command() -> None:
    """Know that every event arrived: a Kafka-compatible log platform with the audit built in."""


def main() -> None:
    """The console script. Exit codes: 0 done, 1 failed, 2 wrong usage, others as commands say;
    they are the same where no person reads standard error."""
    open_missing()
    try:
        set_umask()
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
        if isinstance(error, UnicodeEncodeError) and error.object in "\n".join(sys.argv):
            # Bytes of an argument that are no text in this locale; a path may have them.
            _fail(f"{error.object!r} is not text in UTF-8; type it in UTF-8, or see LC_ALL", 1)
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
        click.echo(f"tallymark: {escaped(text, LINES)}", err=True)
    sys.exit(code)
