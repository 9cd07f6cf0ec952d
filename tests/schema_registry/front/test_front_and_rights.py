"""Answers from memory are given to those who may see them, and to nobody else."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest
from eventually import eventually

from tallymark.net.web.access import WebAccess
from tallymark_schema_registry.access.document import (
    Document,
    GrantsPart,
    TokenPart,
    utc,
    write_document,
)
from tallymark_schema_registry.access.hashes import new_token, token_digest
from tallymark_schema_registry.access.log_in import registry_log_in
from tallymark_schema_registry.embedded import RegistryServer

TOKENS: Final = {name: new_token() for name in ("boss", "team", "twin")}
TIMES: Final = 3
"""How often everything is asked: the second answer and the third one may come from memory."""


class Registry:
    """One registry with three tokens: ``boss`` may do everything, ``team`` and ``twin`` may read
    what ``patterns`` say."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "access.json"
        self.grant(["a*"])
        access = WebAccess(login=registry_log_in(str(self._file), ""))
        self._log = folder / "access.log"
        self.server = RegistryServer(
            f"sqlite:///{folder}/registry.db", access=access, access_log=self._log
        )
        self._http = httpx.Client(base_url=self.server.url)

    def close(self) -> None:
        self._http.close()
        self.server.close()

    def grant(self, patterns: list[str], *, lasting_s: float = 3600) -> None:
        """Write the file of tokens anew."""
        rights = {"boss": GrantsPart(admin=[":*:*"])}
        tokens = {
            name: TokenPart(
                sha256=token_digest(token),
                grants=rights.get(name, GrantsPart(read=patterns)),
                expires=None if name == "boss" else utc(time.time() + lasting_s),
            )
            for name, token in TOKENS.items()
        }
        write_document(self._file, Document(tokens=tokens))

    def ask(self, name: str, path: str, method: str = "GET", schema: str = "") -> httpx.Response:
        body = {"schema": schema} if schema else None
        headers = {"Authorization": f"Bearer {TOKENS[name]}"} if name else {}
        return self._http.request(method, path, headers=headers, json=body)

    def statuses(self, name: str, path: str) -> set[int]:
        """Those of the same request, made several times."""
        return {self.ask(name, path).status_code for _ in range(TIMES)}

    def from_memory(self) -> int:
        """How many answers were."""
        line = "tallymark_registry_answers_from_memory_total "
        text = self.ask("boss", "/metrics").text
        return int(float(text.partition(f"\n{line}")[2].partition("\n")[0]))


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    made = Registry(tmp_path)
    for subject, name in (("a1", "Both"), ("b1", "Both"), ("b1", "Hidden"), ("a1", "Open")):
        text = json.dumps({"type": "record", "name": name, "fields": []})
        level = {"compatibility": "NONE"}
        headers = {"Authorization": f"Bearer {TOKENS['boss']}"}
        httpx.put(f"{made.server.url}/config", json=level, headers=headers).raise_for_status()
        made.ask("boss", f"/subjects/{subject}/versions", "POST", text).raise_for_status()
    yield made
    made.close()


def test_what_one_may_see_is_not_given_to_another(registry: Registry) -> None:
    """An id that was remembered for an administrator would have been readable for everybody."""
    for path, for_team in (
        ("/schemas/ids/1", 200),
        ("/schemas/ids/2", 404),
        ("/subjects/b1/versions/latest", 404),
        ("/subjects/a1/versions/latest", 200),
    ):
        assert registry.statuses("boss", path) == {200}
        assert registry.statuses("team", path) == {for_team}
        assert registry.statuses("boss", path) == {200}
        assert registry.statuses("", path) == {401}
    assert registry.ask("team", "/subjects").json() == ["a1"]
    assert registry.ask("boss", "/subjects").json() == ["a1", "b1"]
    if importlib.util.find_spec("httptools"):
        assert registry.from_memory() > 4 * TIMES


def test_rights_that_are_taken_away_end_within_seconds(registry: Registry) -> None:
    assert registry.statuses("team", "/schemas/ids/1") == {200}
    registry.grant(["c*"])
    eventually(lambda: registry.ask("team", "/schemas/ids/1").status_code == 404)
    assert registry.statuses("team", "/schemas/ids/1") == {404}
    assert registry.statuses("boss", "/schemas/ids/1") == {200}


def test_a_token_ends_at_its_time(registry: Registry) -> None:
    registry.grant(["a*"], lasting_s=3)
    eventually(lambda: registry.ask("team", "/schemas/ids/1").status_code == 401)
    assert registry.statuses("team", "/schemas/ids/1") == {401}


def test_an_id_whose_last_readable_version_is_gone_is_hidden(registry: Registry) -> None:
    """The schema is still there, for those who may read its other subject."""
    assert registry.statuses("team", "/schemas/ids/1") == {200}
    for more in ("", "?permanent=true"):
        registry.ask("boss", f"/subjects/a1/versions/1{more}", "DELETE").raise_for_status()
    assert registry.statuses("team", "/schemas/ids/1") == {404}
    assert registry.statuses("boss", "/schemas/ids/1") == {200}
