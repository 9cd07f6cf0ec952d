"""Asking before something is lost: ``--dry-run`` and ``--yes``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from tallymark.errors import UserError

F = TypeVar("F", bound=Callable[..., Any])


def destructive_options(function: F) -> F:
    """``--dry-run`` and ``--yes``."""
    for option in (
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--dry-run", is_flag=True, help="Only tell what would be done."),
    ):
        function = option(function)
    return function


def confirmed(what: str, *, dry_run: bool, yes: bool) -> bool:
    """Whether to do ``what`` ("delete the topic t"): the person at the terminal is asked, unless
    with ``--yes``. With ``--dry-run`` it is only printed. UserError where no person can be asked.
    """
    if dry_run:
        click.echo(f"would {what}", err=True)
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UserError(f"to {what} has to be confirmed", "give --yes, or see with --dry-run")
    click.confirm(f"{what[:1].upper()}{what[1:]}?", abort=True, err=True)
    return True
