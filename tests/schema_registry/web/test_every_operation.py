"""Every answer that the OpenAPI document names has a test.

The document is made from the routes. What each test is about is read from its ``@covers(...)``;
that it has really got these answers is seen by the fixture ``api``.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from rest_api import Answer, Api, operations

from tallymark_schema_registry.web.described import CODES

EVERYWHERE = {400, 413, 415, 404, 42208, 50001}
"""Codes that test_bad_input.py and test_store_failures.py ask of every operation that has them."""

ESSENTIAL_AND_USEFUL = """
GET / | POST /subjects/{subject}/versions | POST /subjects/{subject}
GET /schemas/ids/{schema_id} | GET /schemas/ids/{schema_id}/schema
GET /schemas/ids/{schema_id}/versions | GET /schemas/ids/{schema_id}/subjects
GET /schemas/types | GET /schemas | GET /schemas/guids/{guid} | GET /schemas/guids/{guid}/ids
GET /subjects | GET /subjects/{subject}/versions | GET /subjects/{subject}/versions/{version}
GET /subjects/{subject}/versions/{version}/schema
GET /subjects/{subject}/versions/{version}/referencedby | GET /subjects/{subject}/metadata
DELETE /subjects/{subject}/versions/{version} | DELETE /subjects/{subject}
POST /compatibility/subjects/{subject}/versions/{version}
POST /compatibility/subjects/{subject}/versions
GET /config | PUT /config | DELETE /config
GET /config/{subject} | PUT /config/{subject} | DELETE /config/{subject}
GET /mode | PUT /mode | DELETE /mode
GET /mode/{subject} | PUT /mode/{subject} | DELETE /mode/{subject}
GET /contexts | DELETE /contexts/{context} | GET /v1/metadata/id | GET /v1/metadata/version
GET /associations/{path} | GET /_health | GET /master_available | GET /deployment
GET /v1/metadata/deployment | GET /healthz | GET /changes
POST /subjects/{subject}/versions/{version}/restore
"""
"""What serializers and tools ask registries for, and what only this one has."""


def covered() -> set[Answer]:
    """What the tests of this folder say that they cover."""
    found: set[Answer] = set()
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        names: dict[str, Any] = {}
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                names.update((ast.unparse(target), node.value.value) for target in node.targets)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "covers":
                operation, *codes = (
                    names[each.id] if isinstance(each, ast.Name) else ast.literal_eval(each)
                    for each in node.args
                )
                found.update(Answer(operation, code) for code in codes)
    return found


@pytest.fixture
def named(api: Api) -> dict[str, list[int]]:
    """Operation -> the codes that the document names, the success included."""
    document = api.get("/openapi.json").json()
    return {
        name: [
            *(int(status) for status in operation["responses"] if status.startswith("2")),
            *operation[CODES],
        ]
        for name, operation in operations(document).items()
    }


def test_every_operation_is_there(named: dict[str, list[int]]) -> None:
    wanted = {each.strip() for each in ESSENTIAL_AND_USEFUL.replace("\n", "|").split("|")}
    assert set(named) == wanted - {""}


def test_every_answer_has_a_test(named: dict[str, list[int]]) -> None:
    answers = {
        Answer(operation, code)
        for operation, codes in named.items()
        for code in codes
        if code not in EVERYWHERE
    }
    untested = [f"{answer.operation}: {answer.code}" for answer in sorted(answers - covered())]
    assert untested == []
    # A test of an answer that the document does not name: the document is to name it.
    unnamed = {answer for answer in covered() - answers if answer.code not in (304, *EVERYWHERE)}
    assert [f"{answer.operation}: {answer.code}" for answer in sorted(unnamed)] == []
