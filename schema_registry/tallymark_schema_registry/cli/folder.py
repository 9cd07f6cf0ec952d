"""``tallymark schema check`` and ``apply``: a file, or a folder of files, against a registry."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from tallymark.errors import UserError
from tallymark.serialization import RegistryError
from tallymark.serialization.schemas import Reference, Schema
from tallymark.shell.output import json_option, print_line, show
from tallymark_schema_registry.cli.avsc_files import SUFFIX, AvscFile, in_order
from tallymark_schema_registry.cli.connection import (
    client,
    exit_codes,
    registry_options,
    take_access,
)
from tallymark_schema_registry.cli.reasons import (
    NOTHING_AGAINST,
    CheckingClient,
    Verdict,
    verdict_document,
    verdict_lines,
)
from tallymark_schema_registry.cli.texts import read_text

UNCHANGED: Final = "unchanged"
COMPATIBLE: Final = "compatible"
INCOMPATIBLE: Final = "incompatible"
REGISTERED: Final = "registered"
_NAME: Final = "{name}"
_MAP: Final = "JSON file: a path below PATH -> its subject, for files whose name is not it."
_FORMAT: Final = "The subject of a file; {name} is its name without .avsc."
_COLUMNS: Final = ("path", "subject", "result", "version")
_UNPROCESSABLE: Final = (409, 422)


@dataclass(frozen=True, slots=True)
class Checked:
    """What the registry says of one file. ``version``: the one that it is, if it is known."""

    file: AvscFile
    result: str
    version: int | None = None
    verdict: Verdict = NOTHING_AGAINST

    def row(self) -> dict[str, Any]:
        """For a table and for JSON."""
        return {
            "path": self.file.path,
            "subject": self.file.subject,
            "result": self.result,
            "version": self.version,
        } | verdict_document(self.verdict)


def _folder_options(function: Any) -> Any:
    for option in (
        registry_options,
        json_option,
        click.option("--subject-format", default=_NAME, show_default=True, help=_FORMAT),
        click.option("--map", "mapping", type=click.Path(dir_okay=False), help=_MAP),
        click.argument("path", type=click.Path(path_type=Path)),
    ):
        function = option(function)
    return function


@click.command("check")
@_folder_options
def check(**options: Any) -> None:
    """Check whether the schemas of PATH, a file or a folder of .avsc files, can be registered.

    Changes nothing. Files may use types that other files define; these are checked with the types
    as the files have them. Exits with 0 when all are compatible, 1 when one is not.
    """
    files = read_files(options["path"], options["mapping"], options["subject_format"])
    with exit_codes(), client(take_access(options)) as registry:
        checked = check_files(registry, files)
    _report(checked, options["as_json"])


@click.command("apply")
@_folder_options
def apply(**options: Any) -> None:
    """Register the schemas of PATH, a file or a folder of .avsc files, each after those that it
    uses.

    All are checked before the first one is registered. Exits with 1, and nothing is registered,
    when one is incompatible.
    """
    files = read_files(options["path"], options["mapping"], options["subject_format"])
    with exit_codes(), client(take_access(options)) as registry:
        checked = check_files(registry, files)
        if all(one.result != INCOMPATIBLE for one in checked):
            checked = register_files(registry, checked)
    _report(checked, options["as_json"])


def _report(checked: list[Checked], as_json: bool) -> None:
    rows = [one.row() for one in checked]
    show(rows, _COLUMNS, as_json)
    bad = [one for one in checked if one.result == INCOMPATIBLE]
    for one in checked if not as_json else ():
        for line in verdict_lines(one.verdict):
            print_line(f"{one.file.path}: {line}", as_json=True)
    if bad:
        raise click.exceptions.Exit(1)


def read_files(path: Path, mapping: str | None, subject_format: str) -> list[AvscFile]:
    """The files below ``path``, in the order in which they can be registered. UserError where they
    are no schemas, or two have the same subject."""
    if _NAME not in subject_format:
        raise click.UsageError(f"--subject-format must have {_NAME} in it.")
    if not path.exists():
        raise UserError(f"there is no {path}", "name a file or a folder")
    found = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
    if not found:
        raise UserError(f"there is no *{SUFFIX} file below {path}", "name another folder")
    names = {
        (file.relative_to(path) if path.is_dir() else Path(file.name)).as_posix(): file
        for file in found
    }
    mapped = _read_map(mapping, set(names))
    subjects: dict[str, str] = {}
    for name, file in names.items():
        subject = mapped.get(name) or subject_format.replace(_NAME, file.name.removesuffix(SUFFIX))
        other = next((one for one, there in subjects.items() if there == subject), None)
        if other:
            raise UserError(f"{other} and {name} are both the subject {subject}", "use --map")
        subjects[name] = subject
    return in_order({name: read_text(str(file)) for name, file in names.items()}, subjects)


def _read_map(path: str | None, known: set[str]) -> dict[str, str]:
    if path is None:
        return {}
    try:
        document = json.loads(read_text(path))
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}", "mend it") from None
    if not isinstance(document, dict) or not all(isinstance(one, str) for one in document.values()):
        raise UserError(f"{path} is not an object of texts", 'write {"a/b.avsc": "subject"}')
    if unknown := sorted(set(document) - known):
        raise UserError(f"{path} names {unknown[0]}, which is not there", "mend it")
    return document


def check_files(registry: CheckingClient, files: list[AvscFile]) -> list[Checked]:
    """What the registry says of each file, in their order."""
    known: dict[str, int | None] = {}
    checked: list[Checked] = []
    for file in files:
        try:
            one = _check(registry, file, known)
        except RegistryError as error:
            if error.status not in _UNPROCESSABLE:
                raise
            one = Checked(file, INCOMPATIBLE, verdict=Verdict((error.message,), ()))
        known[file.subject] = one.version
        checked.append(one)
    return checked


def _check(registry: CheckingClient, file: AvscFile, known: dict[str, int | None]) -> Checked:
    schema = _schema(file, known)
    if schema and (found := registry.lookup(file.subject, schema)):
        return Checked(file, UNCHANGED, found.version)
    # Of types that are not registered yet the registry knows nothing, so all are written out.
    verdict = registry.verdict(file.subject, Schema(file.whole))
    return Checked(file, INCOMPATIBLE if verdict.messages else COMPATIBLE, verdict=verdict)


def register_files(registry: CheckingClient, checked: list[Checked]) -> list[Checked]:
    """Register what is not there, in order; what was done."""
    known = {one.file.subject: one.version for one in checked if one.result == UNCHANGED}
    done: list[Checked] = []
    for one in checked:
        subject = one.file.subject
        if one.result != UNCHANGED:
            schema = _schema(one.file, known)
            if schema is None:
                raise UserError(
                    f"{one.file.path}: a type it uses was registered, and the registry does not "
                    "find it again",
                    "look for an alias or normalize in its configuration",
                )
            registry.register(subject, schema)
            found = registry.lookup(subject, schema)
            known[subject] = found.version if found else None
            one = replace(one, result=REGISTERED, version=known[subject])
        done.append(one)
    return done


def _schema(file: AvscFile, known: dict[str, int | None]) -> Schema | None:
    """With its references; None where one is not registered as its file has it."""
    references = [(name, subject, known.get(subject)) for name, subject in file.uses]
    if any(version is None for _, _, version in references):
        return None
    return Schema(file.text, tuple(Reference(n, s, v) for n, s, v in references if v is not None))
