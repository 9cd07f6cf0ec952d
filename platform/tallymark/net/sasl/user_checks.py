"""Checks of a user's name and of a number of iterations, for brokers and commands. Pure."""

from __future__ import annotations

from typing import Final

from tallymark.errors import CODES, KafkaError
from tallymark.net.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS

_LONGEST_NAME: Final = 255


def check_user(name: str) -> None:
    """KafkaError UNACCEPTABLE_CREDENTIAL where the text cannot be the name of a user."""
    if not name or len(name) > _LONGEST_NAME or not name.isprintable() or name == "<default>":
        raise _unacceptable(f"{name!r} cannot be the name of a user")


def check_iterations(iterations: int) -> None:
    """KafkaError UNACCEPTABLE_CREDENTIAL where the number is outside of the bounds."""
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise _unacceptable(
            f"{iterations} iterations, {MIN_ITERATIONS} to {MAX_ITERATIONS} are possible"
        )


def _unacceptable(why: str) -> KafkaError:
    return KafkaError(CODES["UNACCEPTABLE_CREDENTIAL"], why)
