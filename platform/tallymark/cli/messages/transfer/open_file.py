"""Opens exports: which format, new or going on; errors as a person needs them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Literal

from tallymark.cli.messages.reading.reader import Stopped
from tallymark.cli.messages.transfer.avro_file import AvroReader, AvroWriter
from tallymark.cli.messages.transfer.json_file import JsonReader, JsonWriter
from tallymark.cli.messages.transfer.plan import ExportReader, ExportWriter, Plan, Totals
from tallymark.errors import UserError
from tallymark.shell.progress import progress

Format = Literal["jsonl", "avro"]
_AVRO_MAGIC: Final = b"Obj\x01"
_LOOK_EVERY: Final = 1000


def format_of(path: Path, given: Format | None) -> Format:
    """What is asked for, else Avro for a name that ends in ``.avro``."""
    return given or ("avro" if path.suffix == ".avro" else "jsonl")


@contextmanager
def reading(path: Path) -> Iterator[ExportReader]:
    """An export opened for reading. Whatever is wrong with the file is a UserError, also inside."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", "name an export") from error
    with file:
        try:
            is_avro = file.read(4) == _AVRO_MAGIC
            file.seek(0)
            yield AvroReader(file) if is_avro else JsonReader(file)
        except ValueError as error:
            raise UserError(f"{path} is no whole export: {error}", "export it again") from error


def verified(path: Path, stop: Stopped) -> bool:
    """Read the whole file and compare it with what it says of itself; False when it is to stop
    first. UserError when it is damaged."""
    with reading(path) as reader:
        said = reader.totals
        found = Totals.start(said.counts if said else ())
        with progress(
            f"checking {path.name}", sum(said.counts.values()) if said else None
        ) as meter:
            for number, record in enumerate(reader.records()):
                found.add(record)
                if number % _LOOK_EVERY == 0:
                    if stop.is_set():
                        return False
                    meter.tick(partial(_checked, number))
        if said is not None:
            said.check(found)
    return True


def _checked(number: int) -> tuple[int, str]:
    return number, f"{number:,} records"


def create(path: Path, form: Format, plan: Plan) -> ExportWriter:
    """A new file, which must not be there. UserError."""
    try:
        file = path.open("x+b")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}", "name another file") from error
    return AvroWriter(file, plan) if form == "avro" else JsonWriter(file, plan)


def go_on(path: Path, form: Format, size: int) -> ExportWriter:
    """The file, cut to ``size`` bytes, to be written on from there. UserError."""
    try:
        os.truncate(path, size)
        file = path.open("r+b")
        file.seek(0, os.SEEK_END)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}", "see its permissions") from error
    return AvroWriter(file, None) if form == "avro" else JsonWriter(file, None)
