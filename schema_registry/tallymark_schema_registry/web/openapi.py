"""The OpenAPI document of the registry, made from the routes."""

from __future__ import annotations

from importlib.metadata import version as distribution_version
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from tallymark_schema_registry.web import documents
from tallymark_schema_registry.web.negotiate import V1

_DESCRIPTION: Final = """\
The REST interface of Avro schema registries, as the serializers and tools of the Kafka ecosystem
use it. Every path can also be asked below `/contexts/{context}`; then subjects, ids, levels and
modes are those of that context. Every GET can also be a HEAD.

Errors are `{"error_code", "message"}`; the first three digits of the code are the HTTP status.
Where users log in, 401 asks for a password or token, and 403 with code 40301 says that a right is
missing. 503 asks to come again after `Retry-After`: too much is being done, or the store cannot be
reached."""
_SECURITY: Final = {
    "password": {"type": "http", "scheme": "basic"},
    "token": {"type": "http", "scheme": "bearer"},
}
_BODIES: Final = (documents.SchemaRequest, documents.ConfigRequest, documents.Mode)
_REFERENCE: Final = "#/components/schemas/{model}"


def document(app: FastAPI) -> dict[str, Any]:
    """The document; made once."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title,
            version=distribution_version("tallymark"),
            description=_DESCRIPTION,
            routes=app.routes,
        )
        _, bodies = models_json_schema(
            [(model, "validation") for model in _BODIES], ref_template=_REFERENCE
        )
        components = made["components"]["schemas"]
        for name in ("HTTPValidationError", "ValidationError"):
            components.pop(name, None)
        components |= bodies["$defs"]
        made["components"]["securitySchemes"] = dict(_SECURITY)
        made["security"] = [{}, *({name: list[str]()} for name in _SECURITY)]
        for operation in operations(made):
            _corrected(operation)
        app.openapi_schema = made
    return app.openapi_schema


def operations(made: dict[str, Any]) -> list[dict[str, Any]]:
    """All operations of a document."""
    return [operation for path in made["paths"].values() for operation in path.values()]


def _corrected(operation: dict[str, Any]) -> None:
    """What FastAPI says of every route, and is not so here: parameters that are no numbers are 404,
    and answers have the registry's content type."""
    responses = operation["responses"]
    invalid = responses.get("422", {}).get("content", {})
    if "HTTPValidationError" in str(invalid):
        del responses["422"]
    for response in responses.values():
        content = response.get("content", {})
        if "application/json" in content:
            response["content"] = {V1: content.pop("application/json")}
