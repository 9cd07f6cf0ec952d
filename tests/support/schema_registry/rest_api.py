"""The registry's REST interface as tests use it; it notes which operation answered which code.

A test says with :func:`covers` which answers it is about. The fixture ``api`` looks whether it has
really got them, and ``test_every_operation.py`` whether there is a test for each answer that the
OpenAPI document names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import httpx

from tallymark_schema_registry.web.negotiate import V1
from tallymark_schema_registry.web.responses import Profile

Test = TypeVar("Test", bound=Callable[..., Any])

RECORD: Final = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
GROWN: Final = (
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},'
    '{"name":"b","type":"int","default":0}]}'
)
CLASHING: Final = (
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"c","type":"int"}]}'
)
"""Not compatible with RECORD: a field without default is new."""


class Kind(NamedTuple):
    """Which server a test talks to. ``store``: sqlite or postgresql."""

    store: str
    profile: Profile


class Answer(NamedTuple):
    """``operation``: as in the OpenAPI document, ``GET /subjects/{subject}/versions``. ``code``:
    the HTTP status of a success, the ``error_code`` of an error."""

    operation: str
    code: int


def covers(operation: str, *codes: int) -> Callable[[Test], Test]:
    """The test gets these answers from an operation."""

    def marked(test: Test) -> Test:
        before: tuple[Answer, ...] = getattr(test, "covered", ())
        test.covered = (*before, *(Answer(operation, code) for code in codes))  # type: ignore[attr-defined]
        return test

    return marked


class Api:
    """One server, and a subject of the test's own. ``seen`` is what was answered."""

    def __init__(
        self, http: httpx.Client, profile: Profile, paths: Mapping[str, Any], subject: str
    ) -> None:
        self.http = http
        self.profile = profile
        self.subject = subject
        self.seen: set[Answer] = set()
        self._operations = [
            (method.upper(), path, _matching(path))
            for path, methods in paths.items()
            for method in methods
        ]

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """``body`` is sent as JSON unless it is bytes."""
        if isinstance(body, bytes):
            more["content"] = body
            more.setdefault("headers", {"content-type": V1})
        elif body is not None:
            more["json"] = body
        answer = self.http.request(method, path, **more)
        operation = self._operation(method, path)
        if operation:
            self.seen.add(Answer(operation, self.code(answer)))
        return answer

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.ask("GET", path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        return self.ask("POST", path, body, **more)

    def put(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        return self.ask("PUT", path, body, **more)

    def delete(self, path: str, **more: Any) -> httpx.Response:
        return self.ask("DELETE", path, **more)

    def register(self, schema: str = RECORD, subject: str = "", **body: Any) -> int:
        """Register, which has to succeed; the id."""
        path = f"/subjects/{subject or self.subject}/versions"
        answer = self.post(path, {"schema": schema, **body})
        assert answer.status_code == 200, answer.text
        found = answer.json()["id"]
        assert isinstance(found, int)
        return found

    def code(self, answer: httpx.Response) -> int:
        """The code as profile 7 has it."""
        if answer.status_code < 400:
            return answer.status_code
        code = answer.json()["error_code"]
        assert isinstance(code, int)
        return 409 if code == 40901 and self.profile is Profile.EIGHT else code

    def refused(self, answer: httpx.Response, code: int, text: str = "") -> None:
        """The answer is an error with this code (as profile 7 has it) and text."""
        body = answer.json()
        assert set(body) == {"error_code", "message"}, body
        assert self.code(answer) == code, body
        wanted = 40901 if code == 409 and self.profile is Profile.EIGHT else code
        assert body["error_code"] == wanted
        assert answer.status_code == (503 if code == 50001 else int(str(code)[:3]))
        assert text in body["message"], body
        assert answer.headers["content-type"] == V1

    def in_profile(self, seven: Any, eight: Any) -> Any:
        """What holds in the profile of this server."""
        return seven if self.profile is Profile.SEVEN else eight

    def _operation(self, method: str, path: str) -> str | None:
        plain = path.partition("?")[0].rstrip("/") or "/"
        inside = re.fullmatch(r"/contexts/[^/]+(/.+)", plain)
        plain = inside[1] if inside else plain
        found = [
            (template.count("{"), template)
            for of, template, expression in self._operations
            if of == method and expression.fullmatch(plain)
        ]
        return f"{method} {min(found)[1]}" if found else None


def _matching(template: str) -> re.Pattern[str]:
    parts = re.split(r"(\{[^}]*\})", template)
    return re.compile(
        "".join(
            (".+" if part == "{path}" else "[^/]+") if part.startswith("{") else re.escape(part)
            for part in parts
        )
    )


def operations(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """``GET /subjects`` -> the operation, of an OpenAPI document."""
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def tree(text: str) -> Any:
    """The JSON value of a text."""
    return json.loads(text)
