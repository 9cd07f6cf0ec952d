"""Secrets that settings refer to: ``${NAME}`` in the environment, ``${file:PATH}``
in the first line of a file.

References are replaced where the value is used, not where it is read: settings that are written
again (``deployment.toml``), shown or compared contain the reference. A ``$`` without a brace stays
a ``$``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from tallymark.errors import UserError

_REFERENCE: Final = re.compile(r"\$\{(file:)?([^}]*)\}")


def resolve(text: str, setting: str) -> str:
    """``text`` with its references replaced. UserError names the ``setting`` and the variable
    or file that is missing; it never contains a secret."""
    return _REFERENCE.sub(lambda found: _value(bool(found[1]), found[2], setting), text)


def _value(is_file: bool, name: str, setting: str) -> str:
    if not is_file:
        if not os.environ.get(name):
            raise UserError(f"the environment variable {name} is not set", f"{setting} names it")
        return os.environ[name]
    return first_line(Path(name), setting)


def first_line(path: Path, setting: str) -> str:
    """The secret in a file. UserError names the file, and the ``setting`` that it is for."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"cannot read {path}: {error.strerror}", f"{setting} is to be in it"
        ) from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not text in UTF-8", f"{setting} is to be in it") from error
    first = text.split("\n", 1)[0].rstrip("\r")
    if not first:
        raise UserError(f"the first line of {path} is empty", f"{setting} is to be in it")
    return first
