"""What the OpenAPI document says of a route: what it needs, what it takes, what can be wrong.

Every route names its operation with :func:`described`; a test asks for each of them, and for each
of the codes.
"""

from __future__ import annotations

from typing import Any, Final

from tallymark_schema_registry.access.grants import Right
from tallymark_schema_registry.web.documents import Document, Fault
from tallymark_schema_registry.web.negotiate import V1

MEANINGS: Final = {
    400: "the body is no JSON object, or a property has a wrong type",
    404: "HTTP 404 Not Found",
    409: "incompatible with an earlier schema (40901 in profile 8)",
    413: "the body is too large",
    415: "HTTP 415 Unsupported Media Type",
    40401: "the subject was not found",
    40402: "the version was not found",
    40403: "the schema was not found",
    40404: "the subject is softly deleted already",
    40405: "the subject is not softly deleted yet",
    40406: "the version is softly deleted already",
    40407: "the version is not softly deleted yet",
    40408: "no config is set for the subject",
    40409: "no mode is set for the subject",
    42201: "the schema is not valid",
    42202: "the version is not valid",
    42203: "the level is not valid",
    42204: "the mode is not valid",
    42205: "not permitted in this mode",
    42206: "other schemas refer to it",
    42207: "the id does not match",
    42208: "the name of the subject is not valid",
    42209: "the metadata or the rule set is too large",
    42210: "the rule set is not valid",
    42211: "the context is not empty",
    50001: "what is asked for needs the store, which cannot be reached; try again after "
    "`Retry-After`",
}
"""Code of an error -> what it means. The first three digits are the HTTP status."""

STORE_FAILED: Final = 50001
RIGHT: Final = "x-right"
CODES: Final = "x-error-codes"


def described(
    right: Right | None, *codes: int, body: type[Document] | None = None
) -> dict[str, Any]:
    """Arguments of a route. ``right``: what is needed on the subject, None: nothing. ``codes``:
    what can be wrong with a request; what needs a right needs the store. ``body``: what it
    takes."""
    if right is not None:
        codes = (*codes, STORE_FAILED)
    by_status: dict[int, list[str]] = {}
    for code in codes:
        status = 503 if code == STORE_FAILED else int(str(code)[:3])
        by_status.setdefault(status, []).append(f"{code}: {MEANINGS[code]}")
    extra: dict[str, Any] = {CODES: list(codes)}
    if right is not None:
        extra[RIGHT] = right.value
    if body is not None:
        schema = {"$ref": f"#/components/schemas/{body.__name__}"}
        extra["requestBody"] = {"required": True, "content": {V1: {"schema": schema}}}
    return {
        "responses": {
            status: {"model": Fault, "description": "; ".join(texts)}
            for status, texts in by_status.items()
        },
        "openapi_extra": extra,
    }
