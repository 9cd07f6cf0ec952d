"""``tallymark verify-log``: check the files of a broker's logs, without changing them."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence

import click

from tallymark.errors import UserError
from tallymark.log import OsFiles
from tallymark.log.disk.partition_folder import parse_folder
from tallymark.log.verify.verify import LogReport, Surroundings, verify_log
from tallymark.protocol.records.compiled import checking
from tallymark.shell.counted import counted
from tallymark.shell.progress import Meter, progress

_LARGE = 256 << 20
"""Bytes; for less, loading the compiled loop takes longer than it saves."""
_SHOWN = 10
"""So many problems of one log are printed; ``--json`` has more of them."""


@click.command("verify-log")
@click.argument("folders", nargs=-1, required=True, type=click.Path())
@click.option("--deep", is_flag=True, help="Decompress every batch and check its records too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(folders: tuple[str, ...], deep: bool, as_json: bool) -> None:
    """Check the logs in FOLDERS: folders of partitions, or whole data directories.

    Checks that every batch is whole and follows from the one before: CRC, offsets, leader epochs,
    sequences of producers; and that the indexes say the same. Nothing is written, and the broker
    may be running. What a crash has torn, and no flush had promised, is reported but is no damage:
    the next start cuts it.

    Exits with 0 when all is well, 1 when there is damage.
    """
    found = [folder for path in folders for folder in _partitions(path)]
    total, files, reports = sum(map(_size, found)), OsFiles(), list[LogReport]()
    if deep and total >= _LARGE:
        checking.warm()
    surroundings: dict[str, Surroundings] = {}
    with progress("verify-log", total) as meter:
        done = _Bytes(total, meter)
        for folder in found:
            above = os.path.dirname(folder)
            try:
                around = surroundings.get(above) or Surroundings.of(files, above)
                surroundings[above] = around
                reports.append(verify_log(files, folder, around, deep=deep, step=done.step))
            except OSError as error:
                raise UserError(
                    f"cannot read {folder}: {error.strerror or error}",
                    "see its permissions and disk",
                ) from error
            if not as_json:
                _print(reports[-1])
    if as_json:
        click.echo(json.dumps(_document(reports), indent=2))
    else:
        click.echo(_total(reports))
    if not all(report.ok for report in reports):
        raise click.exceptions.Exit(1)


class _Bytes:
    """Adds up what has been verified, and shows it."""

    def __init__(self, total: int, meter: Meter) -> None:
        self._done = 0
        self._total = total
        self._meter = meter

    def step(self, count: int) -> None:
        self._done += count
        self._meter.tick(self._state)

    def _state(self) -> tuple[int, str]:
        return self._done, f"verified {self._done:,} of {self._total:,} bytes"


def _partitions(path: str) -> list[str]:
    """The folder itself where it holds segments, else the partitions in it; absolute paths."""
    path = os.path.abspath(path)
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", "name a folder of logs") from error
    if any(name.endswith(".log") and name[:-4].isdigit() for name in names):
        return [path]
    inside = [os.path.join(path, name) for name in names if parse_folder(name)]
    found = [folder for folder in inside if os.path.isdir(folder)]
    if not found and parse_folder(os.path.basename(path)) is None:
        raise UserError(
            f"there are no logs in {path}", "name a partition's folder or a data directory"
        )
    return found or [path]


def _size(folder: str) -> int:
    try:
        with os.scandir(folder) as entries:
            return sum(entry.stat().st_size for entry in entries if entry.name.endswith(".log"))
    except OSError:
        return 0  # deleted this moment; the check will say so


def _print(report: LogReport) -> None:
    name = os.path.basename(report.folder)
    verdict = "ok" if report.ok else "DAMAGED"
    click.echo(
        f"{name}: {verdict}, offsets {report.start_offset} to {report.end_offset}, "
        f"{report.records:,} records in {report.batches:,} batches, {report.segments} segments, "
        f"{report.bytes:,} bytes"
    )
    for text in report.damage[:_SHOWN]:
        click.echo(f"  {text}")
    if len(report.damage) > _SHOWN:
        click.echo(f"  and more: {len(report.damage) - _SHOWN} at least")
    for text in report.notes[:_SHOWN]:
        click.echo(f"  note: {text}")


def _total(reports: Sequence[LogReport]) -> str:
    damaged = sum(not report.ok for report in reports)
    return (
        f"{counted(len(reports), 'log')}, {damaged} damaged, "
        f"{sum(r.records for r in reports):,} records, {sum(r.bytes for r in reports):,} bytes"
    )


def _document(reports: Sequence[LogReport]) -> dict[str, object]:
    return {
        "ok": all(report.ok for report in reports),
        "logs": [{"ok": report.ok, **dataclasses.asdict(report)} for report in reports],
    }
