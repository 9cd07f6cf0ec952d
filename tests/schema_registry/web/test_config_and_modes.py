"""Levels and other config, and modes: of subjects, and of all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from rest_api import CLASHING, GROWN, RECORD, Api, covers

WRONG: list[Any] = ["SIDEWAYS", "", 5, {}, True]


@pytest.fixture
def everywhere(api: Api) -> Iterator[Api]:
    """Whatever a test sets for all subjects is undone, so that the next test is not surprised."""
    yield api
    api.put("/mode", {"mode": "READWRITE"})
    api.delete("/mode")
    api.delete("/config")


@covers("GET /config/{subject}", 200, 40408)
@covers("PUT /config/{subject}", 200, 42203)
@covers("DELETE /config/{subject}", 200, 40401)
def test_the_level_of_a_subject(api: Api) -> None:
    own = f"/config/{api.subject}"
    api.refused(api.get(own), 40408, "does not have subject-level compatibility configured")
    api.refused(api.delete(own), 40401)
    assert api.get(f"{own}?defaultToGlobal=true").json() == {"compatibilityLevel": "BACKWARD"}
    assert api.put(own, {"compatibility": "none"}).json() == {"compatibility": "NONE"}
    assert api.get(own).json() == {"compatibilityLevel": "NONE"}
    for text in (RECORD, CLASHING, '"int"'):
        api.register(text)
    assert api.delete(own).json() == {"compatibilityLevel": "NONE"}
    answer = api.post(f"/subjects/{api.subject}/versions", {"schema": '"string"'})
    api.refused(answer, 409)
    for wrong in WRONG:
        api.refused(api.put(own, {"compatibility": wrong}), 42203, "Valid values are")


@covers("GET /config/{subject}", 200)
@covers("PUT /config/{subject}", 200)
def test_the_rest_of_the_config_is_kept_and_answered(api: Api) -> None:
    own = f"/config/{api.subject}"
    more = {"normalize": True, "alias": f"{api.subject}-x", "compatibilityGroup": "major"}
    sent = {"compatibility": "FULL", **more}
    assert api.put(own, sent).json() == sent
    assert api.get(own).json() == {"compatibilityLevel": "FULL", **more}
    assert api.put(own, {"normalize": False, "unknown": 1}).status_code == 200
    assert api.get(own).json()["compatibilityLevel"] == "FULL"
    metadata = {"properties": {"owner": "team"}}
    answer = api.put(own, {"defaultMetadata": metadata, "overrideMetadata": metadata})
    assert answer.status_code == 200, answer.text
    assert api.get(own).json()["defaultMetadata"] == metadata


@covers("PUT /config/{subject}", 42209, 42210)
@covers("PUT /config", 42209, 42210)
def test_metadata_and_rule_sets_of_a_config_that_are_refused(api: Api) -> None:
    large = {"defaultMetadata": {"properties": {"a": "x" * 100_000}}}
    for path in (f"/config/{api.subject}", "/config"):
        api.refused(api.put(path, large), 42209)
    body = {"defaultRuleSet": {"domainRules": [{"name": "", "type": "CEL"}]}}
    api.refused(api.put(f"/config/{api.subject}", body), 42210)
    api.refused(api.put("/config", body), 42210)


@covers("GET /config", 200)
@covers("PUT /config", 200, 42203)
@covers("DELETE /config", 200)
def test_the_level_of_all(everywhere: Api) -> None:
    api = everywhere
    assert api.get("/config").json() == {"compatibilityLevel": "BACKWARD"}
    assert api.put("/config", {"compatibility": "FORWARD"}).json() == {"compatibility": "FORWARD"}
    assert api.get("/config/").json() == {"compatibilityLevel": "FORWARD"}
    assert api.get(f"/config/{api.subject}?defaultToGlobal=true").json() == {
        "compatibilityLevel": "FORWARD"
    }
    api.refused(api.put("/config", {"compatibility": "x"}), 42203)
    assert api.delete("/config").json() == {"compatibilityLevel": "FORWARD"}
    assert api.get("/config").json() == {"compatibilityLevel": "BACKWARD"}


@covers("PUT /config", 200)
def test_an_empty_config_changes_nothing(everywhere: Api) -> None:
    """It was refused, 42203; tools send it to read what holds."""
    api = everywhere
    api.put("/config", {"compatibility": "FULL"})
    assert api.put("/config", {}).status_code == 200
    assert api.get("/config").json() == {"compatibilityLevel": "FULL"}


@covers("GET /mode/{subject}", 200, 40409)
@covers("PUT /mode/{subject}", 200, 42204)
@covers("DELETE /mode/{subject}", 200, 40401)
def test_the_mode_of_a_subject(api: Api) -> None:
    """``PUT /mode`` was a 405, and a client that wanted READONLY went on writing."""
    own = f"/mode/{api.subject}"
    api.refused(api.get(own), 40409, "does not have subject-level mode configured")
    api.refused(api.delete(own), 40401)
    assert api.get(f"{own}?defaultToGlobal=true").json() == {"mode": "READWRITE"}
    for mode in ("READONLY", "READONLY_OVERRIDE", "READWRITE"):
        assert api.put(own, {"mode": mode}).json() == {"mode": mode}
        assert api.get(own).json() == {"mode": mode}
    for wrong in (*WRONG, None):
        api.refused(api.put(own, {"mode": wrong}), 42204, "Invalid mode. Valid values are")
    api.refused(api.put(own, {}), 42204)
    assert api.delete(own).json() == {"mode": "READWRITE"}
    api.refused(api.get(own), 40409)


@covers("PUT /mode/{subject}", 200, 42205)
def test_import_is_refused_where_there_are_versions(api: Api) -> None:
    own = f"/mode/{api.subject}"
    api.register()
    api.refused(api.put(own, {"mode": "IMPORT"}), 42205)
    assert api.put(f"{own}?force=true", {"mode": "IMPORT"}).json() == {"mode": "IMPORT"}
    api.delete(own)


@covers("GET /mode", 200)
@covers("PUT /mode", 200, 42204, 42205)
@covers("DELETE /mode", 200)
def test_the_mode_of_all(everywhere: Api) -> None:
    api = everywhere
    api.register()
    assert api.get("/mode").json() == {"mode": "READWRITE"}
    assert api.put("/mode", {"mode": "READONLY"}).json() == {"mode": "READONLY"}
    assert api.get("/mode/").json() == {"mode": "READONLY"}
    answer = api.post(f"/subjects/{api.subject}/versions", {"schema": GROWN})
    api.refused(answer, 42205)
    api.refused(api.put("/mode", {"mode": "x"}), 42204)
    assert api.put("/mode", {"mode": "READWRITE"}).json() == {"mode": "READWRITE"}
    api.refused(api.put("/mode", {"mode": "IMPORT"}), 42205)
    assert api.delete("/mode").json() == {"mode": "READWRITE"}
    api.register(GROWN)


@covers("PUT /config", 42205)
@covers("DELETE /config", 42205)
@covers("PUT /config/{subject}", 42205)
@covers("DELETE /config/{subject}", 42205)
def test_no_config_is_changed_in_mode_readonly(everywhere: Api) -> None:
    api = everywhere
    own = f"/config/{api.subject}"
    api.put(own, {"compatibility": "FULL"})
    api.put("/config", {"compatibility": "FORWARD"})
    api.put("/mode", {"mode": "READONLY"})
    for path in ("/config", own):
        api.refused(api.put(path, {"compatibility": "NONE"}), 42205)
        api.refused(api.delete(path), 42205)
    assert api.get("/config").json() == {"compatibilityLevel": "FORWARD"}
    assert api.get(own).json() == {"compatibilityLevel": "FULL"}
