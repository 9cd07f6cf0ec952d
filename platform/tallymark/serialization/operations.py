"""What a registry can be asked: one request for each method, nothing remembered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from tallymark.closing import ClosedByWith
from tallymark.errors import UserError
from tallymark.serialization.errors import RegistryError
from tallymark.serialization.http_retry import Http
from tallymark.serialization.schemas import (
    DryRun,
    RegisteredSchema,
    Schema,
    body_of,
    read_version,
    required,
)

_NOT_FOUND: Final = 404
_PAGE: Final = 1000
_OURS: Final = "tallymark"


class RegistryOperations(ClosedByWith):
    """Subjects, versions, levels and modes. Every method may raise RegistryError, ConnectError and
    TimedOutError; "" as a subject means the registry as a whole.

    A subject of another context is written ``:.context:subject``."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # Reading

    def lookup(
        self,
        subject: str,
        schema: str | Schema,
        *,
        normalize: bool = False,
        deleted: bool = False,
    ) -> RegisteredSchema | None:
        """The version of ``subject`` that is this schema, None if there is none."""
        path = f"/subjects/{_segment(subject)}" + _query(normalize=normalize, deleted=deleted)
        return self._version("POST", path, body_of(schema))

    def version(
        self, subject: str, version: int, *, deleted: bool = False
    ) -> RegisteredSchema | None:
        """One version of ``subject``, None if there is none. ``deleted``: softly deleted, too."""
        return self._version("GET", versions_path(subject, version) + _query(deleted=deleted))

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The newest version of ``subject``, None if there is none."""
        return self._version("GET", versions_path(subject, "latest"))

    def subjects(
        self, prefix: str = "", *, deleted: bool = False, deleted_only: bool = False
    ) -> list[str]:
        """The names of all subjects, or of those that begin with ``prefix``, sorted. ``deleted``:
        also those whose versions are all softly deleted."""
        query = _query(subjectPrefix=prefix, deleted=deleted, deletedOnly=deleted_only)
        return [str(name) for name in self._http.request("GET", f"/subjects{query}")]

    def versions(
        self, subject: str, *, deleted: bool = False, deleted_only: bool = False
    ) -> list[int]:
        """The numbers of a subject's versions, ascending; empty if there is no such subject.
        ``deleted``: softly deleted ones, too."""
        query = _query(deleted=deleted, deletedOnly=deleted_only)
        try:
            return [int(one) for one in self._http.request("GET", versions_path(subject) + query)]
        except RegistryError as error:
            if error.status == _NOT_FOUND:
                return []
            raise

    def all_versions(
        self, prefix: str = "", *, latest_only: bool = False, deleted: bool = False
    ) -> Iterator[RegisteredSchema]:
        """Every version of all subjects that begin with ``prefix``; asked for in pages."""
        offset = 0
        while True:
            query = _query(
                subjectPrefix=prefix,
                latestOnly=latest_only,
                deleted=deleted,
                offset=offset,
                limit=_PAGE,
            )
            page = self._http.request("GET", f"/schemas{query}")
            if not page:  # a short one is not the last one: a registry may have a lower limit
                return
            yield from map(read_version, page)
            offset += len(page)

    def uses(self, schema_id: int, *, deleted: bool = False) -> list[tuple[str, int]]:
        """(subject, version) of every version that has this schema."""
        path = f"/schemas/ids/{schema_id}/versions" + _query(deleted=deleted)
        answer = self._http.request("GET", path)
        return [(str(required(one, "subject")), int(required(one, "version"))) for one in answer]

    def referenced_by(self, subject: str, version: int) -> list[int]:
        """The ids of the schemas that refer to this version."""
        answer = self._http.request("GET", versions_path(subject, version) + "/referencedby")
        return [int(one) for one in answer]

    def contexts(self) -> list[str]:
        """The names of the contexts, ``"."`` among them."""
        return [str(name) for name in self._http.request("GET", "/contexts")]

    def changes(self, since: int = 0, *, limit: int = 0, wait_s: int = 0) -> list[dict[str, Any]]:
        """What was changed after change number ``since``, in order, at most ``limit`` changes (the
        registry's own limit holds as well). Waits up to ``wait_s`` seconds for the first one; the
        client's ``timeout`` must be longer. Only this registry has it."""
        answer = self._http.request(
            "GET", "/changes" + _query(since=since, limit=limit, wait=wait_s)
        )
        return [dict(change) for change in answer]

    # Checking

    def conflicts(
        self, subject: str, schema: str | Schema, *, normalize: bool = False
    ) -> list[str]:
        """Why ``schema`` could not be registered; empty: it could. Changes nothing."""
        query = _query(verbose=True, normalize=normalize)
        path = f"/compatibility/subjects/{_segment(subject)}/versions{query}"
        answer = self._http.request("POST", path, body_of(schema))
        if required(answer, "is_compatible"):
            return []
        return [str(message) for message in answer.get("messages") or ["incompatible"]]

    def dry_run(self, subject: str, schema: str | Schema, *, normalize: bool = False) -> DryRun:
        """What registering ``schema`` would do. Changes nothing.

        Raises UserError where the registry is another product: it would not know the request for a
        dry run, and register the schema."""
        about = self._http.request("GET", "/v1/metadata/version")
        if not isinstance(about, dict) or about.get("server") != _OURS:
            raise UserError(
                f"the registry at {self._http.addresses[0].url} has no dry run, or does not say so",
                "ask it for conflicts() instead",
            )
        path = versions_path(subject) + _query(dryRun=True, normalize=normalize)
        answer = self._http.request("POST", path, body_of(schema))
        return DryRun(
            bool(required(answer, "would_create")),
            bool(required(answer, "compatible")),
            answer.get("id"),
            answer.get("version"),
            tuple(str(message) for message in answer.get("messages") or ()),
            answer.get("diff"),
        )

    # Deleting

    def delete_version(self, subject: str, version: int, *, permanent: bool = False) -> int:
        """Delete one version, softly: it is hidden, its schema stays readable by id. With
        ``permanent`` a softly deleted version is gone for good. The version's number."""
        path = versions_path(subject, version) + _query(permanent=permanent)
        return int(self._change("DELETE", path))

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete all versions, softly or (then) for good. The numbers of the deleted versions."""
        path = f"/subjects/{_segment(subject)}" + _query(permanent=permanent)
        return [int(one) for one in self._change("DELETE", path)]

    def restore(self, subject: str, version: int) -> int:
        """Undo the soft deletion of a version; its number. Only this registry can, Confluent's
        cannot."""
        answer = self._change("POST", versions_path(subject, version) + "/restore")
        return int(answer["version"] if isinstance(answer, dict) else answer)

    # Levels, configuration, modes

    def level(self, subject: str = "") -> str:
        """The compatibility level in force for a subject, or the global one."""
        return str(required(self.config(subject, default_to_global=True), "compatibilityLevel"))

    def set_level(self, level: str, subject: str = "") -> None:
        """Set a subject's compatibility level, or the global one."""
        self.set_config({"compatibility": level}, subject)

    def config(self, subject: str = "", *, default_to_global: bool = False) -> dict[str, Any]:
        """The configuration with its level as ``compatibilityLevel``. Without
        ``default_to_global`` what is set for this subject itself, RegistryError 40408 if nothing
        is."""
        query = _query(defaultToGlobal=default_to_global)
        return dict(self._http.request("GET", _place("config", subject) + query))

    def set_config(self, values: Mapping[str, Any], subject: str = "") -> dict[str, Any]:
        """Set what ``values`` name: ``compatibility``, ``normalize``, ``alias``,
        ``compatibilityGroup``, ``validateFields``, ``defaultMetadata``, ``overrideMetadata`` ..."""
        return dict(self._change("PUT", _place("config", subject), dict(values)))

    def delete_config(self, subject: str = "") -> dict[str, Any]:
        """Forget what is set for this subject, or globally. What was set."""
        return dict(self._change("DELETE", _place("config", subject)))

    def mode(self, subject: str = "", *, default_to_global: bool = True) -> str:
        """READWRITE, READONLY, IMPORT ... Without ``default_to_global`` what is set for this
        subject itself, RegistryError 40409 if nothing is."""
        query = _query(defaultToGlobal=default_to_global)
        answer = self._http.request("GET", _place("mode", subject) + query)
        return str(required(answer, "mode"))

    def set_mode(self, mode: str, subject: str = "", *, force: bool = False) -> str:
        """Set the mode. ``force``: IMPORT also where there are schemas already."""
        path = _place("mode", subject) + _query(force=force)
        return str(required(self._change("PUT", path, {"mode": mode}), "mode"))

    def delete_mode(self, subject: str = "", *, recursive: bool = False) -> str:
        """Forget the mode that is set; it."""
        path = _place("mode", subject) + _query(recursive=recursive)
        return str(required(self._change("DELETE", path), "mode"))

    def _change(self, method: str, path: str, body: Any = None) -> Any:
        """A request that changes something; what is remembered may be wrong after it."""
        return self._http.request(method, path, body)

    def _version(self, method: str, path: str, body: Any = None) -> RegisteredSchema | None:
        try:
            return read_version(self._http.request(method, path, body))
        except RegistryError as error:
            if error.status == _NOT_FOUND:
                return None
            raise


def _segment(subject: str) -> str:
    """A subject as one segment of a path, whatever it contains."""
    return quote(subject, safe="")


def versions_path(subject: str, version: int | str | None = None) -> str:
    """The path of a subject's versions, or of one."""
    path = f"/subjects/{_segment(subject)}/versions"
    return path if version is None else f"{path}/{version}"


def _place(kind: str, subject: str) -> str:
    return f"/{kind}/{_segment(subject)}" if subject else f"/{kind}"


def _query(**parameters: bool | int | str) -> str:
    """Only what differs from every registry's default: flags that are set, texts and numbers."""
    given = {
        name: "true" if value is True else value
        for name, value in parameters.items()
        if value is not False and value != ""
    }
    return f"?{urlencode(given)}" if given else ""
