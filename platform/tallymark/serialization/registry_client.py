"""The schema registry's client, for any Confluent-compatible registry."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tallymark.serialization.addresses import Token
from tallymark.serialization.asked_once import AskedOnce
from tallymark.serialization.errors import RegistryError, SerializationError
from tallymark.serialization.http_retry import Http
from tallymark.serialization.operations import RegistryOperations, versions_path
from tallymark.serialization.schemas import (
    Reference,
    RegisteredSchema,
    Schema,
    body_of,
    read_schema,
    read_version,
    required,
)

_CHARACTERS: Final = 32 * 1024 * 1024
"""Of schemas that are remembered, by id, by registration and by reference each."""
_MOST_REFERRED: Final = 1000
"""Schemas that one schema may refer to, directly and through others."""


class RegistryClient(RegistryOperations):
    """Thread-safe. Schemas never change, so ids and registrations are asked for once.

    ``url``: one address, or several servers of the same registry (a list, or with commas between);
    the one that answered last is asked, and the next one when it does not answer or is in trouble.
    ``timeout`` in seconds is that of one attempt; a request is sent up to ``attempts`` times to
    each server, with back-off, while no server answers, or the registry reports a failure of its
    own (5xx, 408, 429). At an ``https`` address it trusts the authorities in the PEM file
    ``ssl_truststore_location``, else the system's. It logs in with ``username`` and ``password``
    (HTTP Basic), or with ``token`` (Bearer; a function is called for each request, so that tokens
    can expire).
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        timeout: float = 10.0,
        attempts: int = 4,
        ssl_truststore_location: str = "",
        username: str = "",
        password: str = "",
        token: Token = "",
    ) -> None:
        truststore = Path(ssl_truststore_location) if ssl_truststore_location else None
        login = (username, password) if username else None
        http = Http(url, timeout, attempts, truststore=truststore, login=login, token=token)
        super().__init__(http)
        self.url = ",".join(address.url for address in http.addresses)
        self._schemas: AskedOnce[int | str, Schema] = AskedOnce(_CHARACTERS)
        self._ids: AskedOnce[tuple[str, str | Schema, bool], int] = AskedOnce(_CHARACTERS)
        self._referred: AskedOnce[Reference, RegisteredSchema] = AskedOnce(_CHARACTERS)

    def register(
        self,
        subject: str,
        schema: str | Schema,
        *,
        normalize: bool = False,
        schema_id: int | None = None,
        version: int | None = None,
    ) -> int:
        """The id of ``schema``, which is a version of ``subject`` afterwards.

        ``version``: only if it becomes this one. ``schema_id``: only in the mode IMPORT, which also
        takes any version. Raises RegistryError with status 409 if the schema is not compatible with
        the subject's versions.
        """

        def ask() -> int:
            body = body_of(schema)
            body |= {} if schema_id is None else {"id": schema_id}
            body |= {} if version is None else {"version": version}
            query = "?normalize=true" if normalize else ""
            path = f"{versions_path(subject)}{query}"
            return int(required(self._http.request("POST", path, body), "id"))

        if schema_id is not None or version is not None:
            return ask()
        text = schema if isinstance(schema, str) else schema.text
        return self._ids.get((subject, schema, normalize), ask, lambda _: text)

    def schema(self, schema_id: int) -> str:
        """The text of the schema. Raises RegistryError with status 404 if there is none."""
        return self.schema_by_id(schema_id).text

    def schema_by_id(self, schema_id: int) -> Schema:
        """The schema with what it refers to. Raises RegistryError with status 404 if there is none;
        the registry is asked for the same id again only after a while, 30 s at most."""
        return self._schema(schema_id, f"/schemas/ids/{schema_id}")

    def schema_by_guid(self, guid: str) -> Schema:
        """As :meth:`schema_by_id`, by the guid, which is the same in every registry and context."""
        guid = str(uuid.UUID(guid))
        return self._schema(guid, f"/schemas/guids/{guid}")

    def guid(self, schema_id: int) -> str:
        """The guid of a schema. Raises SerializationError where the registry knows none."""
        schema = self.schema_by_id(schema_id)
        if schema.guid:
            return schema.guid
        # Servers before Confluent's 8 do not say it. It is the MD5 of what identifies the schema.
        if not (schema.references or schema.metadata or schema.rule_set):
            digest = hashlib.md5(schema.text.encode(), usedforsecurity=False).hexdigest()
            guid = str(uuid.UUID(hex=digest))
            if self._knows(guid, schema):
                return guid
        raise SerializationError(
            f"the registry at {self.url} does not say the guid of schema {schema_id}; "
            "let it answer as the 8.x servers do, or send the id in front of the datum"
        )

    def reference_texts(self, schema: Schema) -> tuple[str, ...]:
        """The texts of all schemas that ``schema`` refers to, directly and through others, each
        before those that refer to it. Raises SerializationError if they are more than 1,000, or
        refer to each other in a circle."""
        found: dict[Reference, str] = {}
        above: set[Reference] = set()
        to_do = [(one, False) for one in reversed(schema.references)]
        while to_do:
            reference, below_done = to_do.pop()
            if reference in found:
                continue
            referred = self._refer(reference)
            if below_done or not referred.references:
                above.discard(reference)
                found[reference] = referred.text
                continue
            if reference in above or len(above) + len(found) >= _MOST_REFERRED:
                raise SerializationError(
                    f"what the schema refers to has no end: {reference.name} in version "
                    f"{reference.version} of {reference.subject}"
                )
            above.add(reference)
            to_do.append((reference, True))
            to_do += [(one, False) for one in reversed(referred.references)]
        return tuple(dict.fromkeys(found.values()))

    def _schema(self, key: int | str, path: str) -> Schema:
        def ask() -> Schema:
            return read_schema(self._http.request("GET", path))

        return self._schemas.get(key, ask, lambda schema: schema.text)

    def _knows(self, guid: str, schema: Schema) -> bool:
        try:
            return self.schema_by_guid(guid).text == schema.text
        except RegistryError:
            return False

    def _refer(self, reference: Reference) -> RegisteredSchema:
        def ask() -> RegisteredSchema:
            # Softly deleted ones, too: what refers to them is still there.
            path = f"{versions_path(reference.subject, reference.version)}?deleted=true"
            return read_version(self._http.request("GET", path))

        if reference.version < 0:
            return ask()  # the latest is another one tomorrow
        return self._referred.get(reference, ask, lambda found: found.text)

    def _change(self, method: str, path: str, body: Any = None) -> Any:
        answer = super()._change(method, path, body)
        # Registering again may be another version or another schema now, or refused.
        self._ids.forget()
        if "permanent=true" in path:
            self._schemas.forget()
            self._referred.forget()
        return answer
