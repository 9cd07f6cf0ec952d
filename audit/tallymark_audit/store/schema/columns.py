"""What the columns of the audit store are made of."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Column, Integer, MetaData, String

metadata = MetaData()


def big(name: str, default: int = 0) -> Column[int]:
    """A 64-bit number."""
    return Column(name, BigInteger, nullable=False, default=default)


def text(name: str) -> Column[str]:
    """A name."""
    return Column(name, String(255), nullable=False, default="")


def json(name: str) -> Column[Any]:
    """A list, empty by default."""
    return Column(name, JSON, nullable=False, default=list)


def flag(name: str) -> Column[bool]:
    """Yes or no."""
    return Column(name, Boolean, nullable=False, default=False)


def numbered() -> Column[int]:
    """The number of a row, given by the store."""
    # SQLite numbers rows by itself only for the type INTEGER.
    kind = BigInteger().with_variant(Integer, "sqlite")
    return Column("id", kind, primary_key=True, autoincrement=True)
