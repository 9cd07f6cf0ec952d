"""What a log line says of a store that cannot be used. Pure."""

from __future__ import annotations

from sqlalchemy import make_url


def trouble(error: Exception) -> str:
    """What the driver says, without the address of SQLAlchemy's documentation, and what to do about
    a disk without room."""
    said = str(getattr(error, "orig", None) or error)
    return f"{said}; make room on the disk of the store" if is_full(said) else said


def unusable(address: str, error: Exception) -> str:
    """The same about the store at ``address``, whose password is left out."""
    return f"cannot use the store {make_url(address).render_as_string()}: {trouble(error)}"


def is_full(said: str) -> bool:
    """Whether a driver says that a disk has no room."""
    lowered = said.lower()
    return "is full" in lowered or "no space left" in lowered
