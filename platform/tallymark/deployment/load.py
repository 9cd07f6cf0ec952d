"""Find, read and write the settings file (TOML)."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tallymark.errors import UserError

if TYPE_CHECKING:
    from tallymark.deployment.model import Deployment

ENVIRONMENT = "TALLYMARK_SETTINGS"
RESOLVED = Path(".tallymark/deployment.toml")
"""What ``tallymark up`` writes: the settings with every port filled in."""


def find_settings(explicit: str | Path | None = None, *, running: bool = True) -> Path | None:
    """The settings file in force: the given one, then ``$TALLYMARK_SETTINGS``, then the one that
    ``tallymark up`` wrote below the current folder, then ``./tallymark.toml``; None: defaults.

    ``running=False`` ignores the file that ``up`` wrote: a stack that starts must use the settings
    of its owner, not those that an earlier run wrote."""
    if explicit:
        return Path(explicit)
    if os.environ.get(ENVIRONMENT):
        return Path(os.environ[ENVIRONMENT])
    candidates = (RESOLVED, Path("tallymark.toml")) if running else (Path("tallymark.toml"),)
    return next((path for path in candidates if path.is_file()), None)


def load(explicit: str | Path | None = None, *, running: bool = True) -> Deployment:
    """Read the deployment. Raises UserError naming the file and each wrong setting."""
    from pydantic import ValidationError  # 0.1 s to import; finding the file needs none

    from tallymark.deployment.model import Deployment

    path = find_settings(explicit, running=running)
    if path is None:
        return Deployment()
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"there is no settings file {path}", "give --settings FILE") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not TOML: {error}", "mend the line it names") from error
    try:
        return Deployment.model_validate(raw)
    except ValidationError as error:
        wrong = "; ".join(_shown(item["loc"], item["msg"]) for item in error.errors())
        raise UserError(f"{path}: {wrong}", "see docs/settings.md for every setting") from error


def _shown(place: Sequence[str | int], message: str) -> str:
    """What is wrong, and where, unless our own check has said where."""
    why = message.removeprefix("Value error, ")
    if not place or why.startswith(str(place[0])):
        return why
    return f"{'.'.join(map(str, place))}: {why}"


def dump_toml(deployment: Deployment) -> str:
    """The deployment as TOML that :func:`load` reads back to an equal one."""
    import tomli_w

    return tomli_w.dumps(deployment.model_dump(mode="json", exclude_none=True))
