"""The settings that are in force for the audit of an application."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tallymark.deployment import Deployment, find_settings, load
from tallymark.errors import UserError

DEFAULT_WINDOW_MS: Final = 60_000
_LONGEST_WINDOW_MS: Final = 3_600_000


def settings_in_force(deployment: Deployment | str | Path | None) -> Deployment | None:
    """The given settings (or their file), else those found here; None: there are none."""
    if isinstance(deployment, Deployment):
        return deployment
    path = find_settings(deployment)
    return load(path) if path else None


def with_window(settings: Deployment | None, window_ms: int | None, who: str) -> Deployment:
    """The settings, or without settings the defaults with this window. UserError, which begins
    with ``who``: the settings have another window, or it is out of bounds."""
    if settings is not None:
        if window_ms not in (None, settings.audit.window_ms):
            raise UserError(
                f"{who}: window_ms={window_ms}, but the deployment {settings.name} counts in "
                f"windows of {settings.audit.window_ms}",
                "leave it out",
            )
        return settings
    window_ms = DEFAULT_WINDOW_MS if window_ms is None else window_ms
    if type(window_ms) is not int or not 1000 <= window_ms <= _LONGEST_WINDOW_MS:
        raise UserError(f"{who}: window_ms={window_ms!r}", f"give 1000 to {_LONGEST_WINDOW_MS}")
    plain = Deployment()
    audit = plain.audit.model_copy(update={"window_ms": window_ms})
    return plain.model_copy(update={"audit": audit})
