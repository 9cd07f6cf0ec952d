"""A hint about values that a schema registry's serializer has made, where no option asks to decode
them: printed as they are they look like damage."""

from __future__ import annotations

from typing import Final

import click

from tallymark.cli.messages.reading.records import Shown

_FRAME: Final = 5
"""Bytes: 0, then the id of the schema as i32 (Confluent's wire format)."""
_LARGEST_ID: Final = 1 << 24
"""Ids are given from 1 on; a larger number is more likely something else that begins with 0."""


class AvroHint:
    """Looks at the first value that is one, and says what it is."""

    def __init__(self, wanted: bool = True) -> None:
        self._wanted = wanted

    def look_at(self, message: Shown) -> None:
        """One message before it is printed."""
        if not self._wanted or not message.value:
            return
        self._wanted = False
        value = bytes(message.value)
        if looks_framed(value):
            click.echo(
                f"values of {message.topic} look like Avro of a schema registry (schema "
                f"{int.from_bytes(value[1:_FRAME], 'big')}); --avro or --registry URL shows them "
                "as JSON",
                err=True,
            )


def looks_framed(value: bytes) -> bool:
    """Whether a value begins as Confluent's serializers begin it: a zero, then an id."""
    return (
        len(value) > _FRAME
        and value[0] == 0
        and (0 < int.from_bytes(value[1:_FRAME], "big") < _LARGEST_ID)
    )
