"""Why a schema would be refused, for people and for programs.

Registries write reasons as texts of one form, those of a version before its number::

    {errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'...', additionalInfo:'b'}
    {oldSchemaVersion: 3}
    {oldSchema: '...'}
    {validateFields: 'false', compatibility: 'BACKWARD'}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from tallymark.serialization import RegistryClient, RegistryError
from tallymark.serialization.operations import versions_path
from tallymark.serialization.schemas import Schema, body_of, required

_NOT_FOUND: Final = 404
_REASON: Final = re.compile(
    r"\{errorType:'(\w*)', description:'(.*)', additionalInfo:'(.*)'\}", re.DOTALL
)
_VERSION: Final = re.compile(r"\{oldSchemaVersion: (\d+)\}")
_BESIDE: Final = re.compile(r"\{(oldSchema|validateFields|compatibility): .*\}", re.DOTALL)


class Reason(NamedTuple):
    """``rule`` is "" where the registry wrote a text of its own; ``version`` is the one that the
    schema conflicts with, None where it is not said."""

    rule: str
    text: str
    version: int | None

    def line(self) -> str:
        """For people."""
        against = f"version {self.version}: " if self.version else ""
        return f"{against}{self.rule}{': ' if self.rule else ''}{self.text}"


class Verdict(NamedTuple):
    """``messages``: why a schema would be refused; none: it would not. ``warnings`` do not stop it;
    only our registry has them. Both as the registry writes them."""

    messages: tuple[str, ...]
    warnings: tuple[str, ...]


NOTHING_AGAINST: Final = Verdict((), ())


class CheckingClient(RegistryClient):
    """Also shows the warnings of a check."""

    def verdict(self, subject: str, schema: Schema, *, normalize: bool = False) -> Verdict:
        """Whether ``schema`` could be registered. A subject that is not there takes any schema,
        though some registries answer 404."""
        query = "?verbose=true&normalize=true" if normalize else "?verbose=true"
        path = f"/compatibility{versions_path(subject)}{query}"
        try:
            answer = self._http.request("POST", path, body_of(schema))
        except RegistryError as error:
            if error.status == _NOT_FOUND:
                return NOTHING_AGAINST
            raise
        warnings = _texts(answer.get("warnings"))
        if required(answer, "is_compatible"):
            return Verdict((), warnings)
        return Verdict(_texts(answer.get("messages")) or ("incompatible",), warnings)


def _texts(found: Any) -> tuple[str, ...]:
    return tuple(map(str, found)) if isinstance(found, list) else ()


def read_reasons(messages: Sequence[str]) -> list[Reason]:
    """The reasons in what a registry says; other texts are reasons of their own."""
    return [
        Reason(rule, text, version)
        for version, texts in _by_version(messages)
        for rule, text in texts
    ]


def _by_version(
    messages: Sequence[str],
) -> Iterator[tuple[int | None, list[tuple[str, str]]]]:
    waiting: list[tuple[str, str]] = []
    for message in messages:
        if found := _VERSION.fullmatch(message):
            yield int(found[1]), waiting
            waiting = []
        elif found := _REASON.fullmatch(message):
            waiting.append((found[1], found[2]))
        elif not _BESIDE.fullmatch(message):
            waiting.append(("", message))
    yield None, waiting


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """For ``--json``: ``reasons``, ``warnings``, and ``messages`` as the registry wrote them."""
    return {
        "reasons": [one._asdict() for one in read_reasons(verdict.messages)],
        "warnings": [one._asdict() for one in read_reasons(verdict.warnings)],
        "messages": list(verdict.messages),
    }


def verdict_lines(verdict: Verdict) -> Iterator[str]:
    """For people, one line a reason, then the warnings."""
    for reason in read_reasons(verdict.messages):
        yield reason.line()
    for reason in read_reasons(verdict.warnings):
        yield f"warning: {reason.line()}"
