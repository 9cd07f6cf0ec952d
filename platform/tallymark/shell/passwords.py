"""New passwords of users: never an argument, where other users of the machine could see it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from tallymark.errors import UserError

password_option: Final = click.option(
    "--password-file",
    type=click.Path(dir_okay=False),
    help="A file whose first line is the password; - is standard input. Default: ask.",
)


def read_password(path: str | None) -> str:
    """The password of :data:`password_option`: asked for on the terminal, or from a file.

    UserError where there is neither, or the file cannot be read."""
    if path is None:
        if not sys.stdin.isatty():
            raise UserError(
                "there is no terminal to ask for the password at", "give --password-file FILE or -"
            )
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"cannot read the password from {path}: {error.strerror}", "mend --password-file"
        ) from error
    except UnicodeDecodeError as error:
        raise UserError(f"the password in {path} is not UTF-8", "save it as UTF-8") from error
    password = text.split("\n", 1)[0].rstrip("\r")
    if not password:
        raise UserError(f"the first line of {path} is empty", "it is to be the password")
    return password
