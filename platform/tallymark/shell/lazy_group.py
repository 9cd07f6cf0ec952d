"""Groups of commands: a command is imported when it is called; misspelt names get a suggestion."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import click


class NamedGroup(click.Group):
    """A group that takes a name's singular (``topic list``), and suggests for one it does not
    know: one that is spelt alike, or what ``called_otherwise`` says (a name that other programs
    have -> ours)."""

    called_otherwise: ClassVar[Mapping[str, str]] = {}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that ``args`` begin with. UsageError names those that are spelt alike."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            known = self.list_commands(ctx)
            if f"{name}s" in known:
                return super().resolve_command(ctx, [f"{name}s", *args[1:]])
            if not ctx.resilient_parsing:
                ctx.fail(f"No such command {name!r}.{_meant(name, known, self.called_otherwise)}")
        return super().resolve_command(ctx, args)


def _meant(name: str, known: list[str], called_otherwise: Mapping[str, str]) -> str:
    from difflib import get_close_matches

    if name in called_otherwise:
        return f" Did you mean {called_otherwise[name]}?"
    near = get_close_matches(name, known, n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(near)}?" if near else ""


class LazyGroup(NamedGroup):
    """A group whose commands are where ``lazy`` says (name -> ``module:attribute``).

    Only the one that is called is imported; ``--help`` of the group imports all of them, for their
    first lines.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, str], **extra: Any) -> None:
        super().__init__(*args, **extra)
        self._lazy = dict(lazy)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the alphabet."""
        return sorted({*self._lazy, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now; None: there is none."""
        target = self._lazy.get(cmd_name)
        return load_command(target) if target else super().get_command(ctx, cmd_name)


def load_command(target: str) -> click.Command:
    """The command at ``module:attribute``. Raises ModuleNotFoundError for a missing package."""
    module, _, attribute = target.partition(":")
    command = getattr(import_module(module), attribute)
    assert isinstance(command, click.Command), f"{target} is not a command"
    return command
