"""What all responses have in common: an entity tag, and errors as problem details (RFC 9457)::

    {"type": "about:blank", "title": "Not Found", "status": 404,
     "detail": "what happened", "do": "what to do"}

A request with the tag of an earlier response (``If-None-Match``) gets 304 and no body while nothing
has changed. If the store cannot be reached the response is 503 with ``Retry-After``. No response
has a traceback.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response, StreamingResponse
from fastapi.routing import APIRoute
from sqlalchemy.exc import SQLAlchemyError

from tallymark.errors import UserError

log: Final = logging.getLogger(__name__)
RETRY_AFTER: Final = "2"
"""Seconds."""
MAX_DETAIL: Final = 500


def _problem_schema() -> dict[str, Any]:
    said = {
        "type": "about:blank.",
        "title": "The name of the status.",
        "detail": "What happened.",
        "do": "What to do.",
    }
    texts = {name: {"type": "string", "description": told} for name, told in said.items()}
    status = {"type": "integer", "description": "As the status line has it."}
    required = ["type", "title", "status", "detail"]
    return {"type": "object", "required": required, "properties": {**texts, "status": status}}


PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    status: {
        "description": told,
        "content": {"application/problem+json": {"schema": _problem_schema()}},
    }
    for status, told in (
        (404, "There is no such thing."),
        (422, "A parameter is not what it has to be."),
        (503, "The store cannot be read now."),
    )
}
"""The errors, for the OpenAPI document."""


class Answer(Response):
    """JSON in ASCII, so that any name that a producer has chosen can be sent."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, separators=(",", ":"), default=_plain).encode()


class Problem(HTTPException):
    """An error to answer with: what happened, and what to ``do``."""

    def __init__(
        self, status: int, detail: str, do: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, detail, dict(headers or {}))
        self.do = do


def away(detail: str) -> Problem:
    """503: the store cannot be reached; try again later."""
    return Problem(503, detail, "ask again", {"Retry-After": RETRY_AFTER})


class AuditRoute(APIRoute):
    """A route whose responses have tags, and whose errors are problem details."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return tagged(request, await handle(request))
            except Exception as error:
                return _as_response(error)

        return answer


def tagged(request: Request, response: Response) -> Response:
    """The response with its tag, or 304 where the client has it already."""
    if response.status_code != HTTPStatus.OK:
        return response
    if isinstance(response, StreamingResponse):
        response.headers["Cache-Control"] = "no-cache"
        return response
    tag = f'"{hashlib.blake2b(bytes(response.body), digest_size=16).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if "vary" in response.headers:
        headers["Vary"] = response.headers["vary"]
    if _has(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    response.headers.update(headers)
    return response


def _has(tags: str, tag: str) -> bool:
    known = {one.strip().removeprefix("W/") for one in tags.split(",")}
    return "*" in known or tag in known


def _as_response(error: Exception) -> Response:
    if isinstance(error, RequestValidationError):
        return _problem(422, _invalid(error), "see /openapi.json")
    if isinstance(error, HTTPException):
        do = error.do if isinstance(error, Problem) else ""
        return _problem(error.status_code, str(error.detail), do, error.headers)
    if isinstance(error, UserError):
        return _problem(400, str(error))
    if isinstance(error, SQLAlchemyError):
        cause = getattr(error, "orig", None) or type(error).__name__
        problem = away(f"the audit store cannot be read now: {cause}")
        return _problem(problem.status_code, problem.detail, problem.do, problem.headers)
    log.error("a request cannot be answered", exc_info=error)
    return _problem(500, "an error of ours, the log has it", "report it")


def _problem(
    status: int, detail: str, do: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail[:MAX_DETAIL],
    }
    if do:
        body["do"] = do
    told = {"Cache-Control": "no-store", **(headers or {})}
    return Answer(body, status, told, media_type="application/problem+json")


def _invalid(error: RequestValidationError) -> str:
    found = [f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors()]
    return "; ".join(found)


def _plain(value: object) -> object:
    """What JSON does not know: tuples are lists, bytes are hex."""
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"{type(value).__name__} is no JSON")
