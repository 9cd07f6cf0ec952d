"""Register, look up and check a schema."""

from __future__ import annotations

from typing import Any

from rest_api import CLASHING, GROWN, RECORD, Api, covers

REGISTER = "POST /subjects/{subject}/versions"
LOOK_UP = "POST /subjects/{subject}"
CHECK = "POST /compatibility/subjects/{subject}/versions/{version}"
CHECK_ALL = "POST /compatibility/subjects/{subject}/versions"
FIXED = '{"type":"fixed","name":"F","size":4}'
BAD_RULES = {"domainRules": [{"name": "", "type": "CEL"}]}


@covers(REGISTER, 200)
def test_a_registration_answers_the_id_or_the_whole_version(api: Api) -> None:
    answer = api.post(f"/subjects/{api.subject}/versions", {"schema": RECORD}).json()
    schema_id = answer["id"]
    if api.in_profile(True, False):
        assert answer == {"id": schema_id}
        return
    guid, ts = answer.pop("guid"), answer.pop("ts")
    assert answer == {
        "subject": api.subject,
        "version": 1,
        "id": schema_id,
        "schemaType": "AVRO",
        "schema": RECORD,
        "deleted": False,
    }
    assert len(guid) == 36
    assert ts > 1_700_000_000_000


@covers(REGISTER, 200)
def test_the_same_content_is_no_new_version(api: Api) -> None:
    first = api.register('{"type": "string"}')
    assert api.register('"string"') == first
    assert api.get(f"/subjects/{api.subject}/versions").json() == [1]
    assert api.register('"string"', f"{api.subject}-other") == first


@covers(REGISTER, 409)
def test_an_incompatible_schema_is_refused_with_the_code_of_the_profile(api: Api) -> None:
    api.register()
    answer = api.post(f"/subjects/{api.subject}/versions", {"schema": CLASHING})
    text = "Schema being registered is incompatible with an earlier schema for subject"
    api.refused(answer, 409, text)
    assert answer.json()["error_code"] == api.in_profile(409, 40901)
    for part in ("READER_FIELD_MISSING_DEFAULT_VALUE", "{oldSchemaVersion: 1}", "BACKWARD"):
        assert part in answer.json()["message"]
    assert api.get(f"/subjects/{api.subject}/versions").json() == [1]


@covers(REGISTER, 42201)
@covers(LOOK_UP, 42201)
def test_what_is_no_schema_is_refused(api: Api) -> None:
    """``"schema": {}`` is a wrong JSON type, which was taken for an empty schema."""
    wrong: list[Any] = ["x", "{}", '{"type":"record","name":"R"}', {}, 5, ["a"], True]
    for schema in wrong:
        path = f"/subjects/{api.subject}"
        api.refused(api.post(f"{path}/versions", {"schema": schema}), 42201, "Invalid schema")
    api.register()
    for schema in wrong:
        api.refused(api.post(path, {"schema": schema}), 42201)
    assert api.get(f"{path}/versions").json() == [1]


@covers(REGISTER, 42201)
def test_other_types_of_schemas_and_broken_references_are_refused(api: Api) -> None:
    path = f"/subjects/{api.subject}/versions"
    api.refused(api.post(path, {"schema": "{}", "schemaType": "JSON"}), 42201)
    for references in ([{"name": "x"}], {"name": "x"}, [5], "x"):
        api.refused(api.post(path, {"schema": RECORD, "references": references}), 42201)
    missing = [{"name": "x.Y", "subject": "not-there", "version": 1}]
    api.refused(api.post(path, {"schema": '"x.Y"', "references": missing}), 42201)


@covers(REGISTER, 42201)
def test_nothing_is_registered_where_there_is_nothing_to_repeat(api: Api) -> None:
    path = f"/subjects/{api.subject}/versions"
    for body in ({}, {"schema": None}, {"schema": ""}):
        api.refused(api.post(path, body), 42201)


@covers(REGISTER, 200, 42205)
def test_a_mode_that_stops_registrations(api: Api) -> None:
    api.put(f"/mode/{api.subject}", {"mode": "READONLY"})
    answer = api.post(f"/subjects/{api.subject}/versions", {"schema": RECORD})
    api.refused(answer, 42205)
    api.put(f"/mode/{api.subject}", {"mode": "READWRITE"})
    api.register()


@covers(REGISTER, 42205)
def test_an_id_is_only_taken_in_mode_import(api: Api) -> None:
    body = {"schema": RECORD, "id": 100_000}
    api.refused(api.post(f"/subjects/{api.subject}/versions", body), 42205)


@covers(REGISTER, 200, 42205, 42207)
def test_import_keeps_ids_and_versions(api: Api) -> None:
    """In mode IMPORT the client says which id and version a schema has. The same again is a
    success; another id for that schema, another schema under that id, and another schema for that
    version are refused."""
    context = f":.{api.subject}:"
    subject = f"{context}s"
    assert api.put(f"/mode/{subject}", {"mode": "IMPORT"}).json() == {"mode": "IMPORT"}
    for _ in range(2):
        assert api.register(RECORD, subject, id=77, version=5) == 77
    assert api.get(f"/subjects/{subject}/versions").json() == [5]
    path = f"/subjects/{subject}/versions"
    api.refused(api.post(path, {"schema": RECORD, "id": 78, "version": 5}), 42207)
    api.refused(api.post(path, {"schema": GROWN, "id": 77, "version": 6}), 42205)
    api.refused(api.post(path, {"schema": GROWN, "id": 78, "version": 5}), 42205)
    assert api.get(path).json() == [5]


@covers(REGISTER, 42201)
def test_a_version_is_a_compare_and_set(api: Api) -> None:
    assert api.register(RECORD, version=1)
    path = f"/subjects/{api.subject}/versions"
    assert api.post(path, {"schema": GROWN, "version": 3}).status_code == 422
    assert api.get(path).json() == [1]
    api.register(GROWN, version=2)
    assert api.get(path).json() == [1, 2]
    api.refused(api.post(path, {"schema": CLASHING, "version": 1}), 42201)


@covers(REGISTER, 42209, 42210)
@covers(LOOK_UP, 42209, 42210)
@covers(CHECK, 42209, 42210)
@covers(CHECK_ALL, 42209, 42210)
def test_metadata_that_is_too_large_and_a_rule_set_that_is_not_valid(api: Api) -> None:
    api.register()
    body = {"schema": RECORD, "ruleSet": BAD_RULES}
    large = {"schema": RECORD, "metadata": {"properties": {"a": "x" * 100_000}}}
    for path in (
        f"/subjects/{api.subject}/versions",
        f"/subjects/{api.subject}",
        f"/compatibility/subjects/{api.subject}/versions/latest",
        f"/compatibility/subjects/{api.subject}/versions",
    ):
        api.refused(api.post(path, body), 42210)
        api.refused(api.post(path, large), 42209)


@covers(REGISTER, 200)
def test_metadata_and_rule_sets_are_kept_and_part_of_the_identity(api: Api) -> None:
    metadata = {"properties": {"owner": "team"}, "tags": {"R.a": ["PII"]}}
    rules = {"domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL"}]}
    first = api.register(RECORD)
    second = api.register(RECORD, metadata=metadata, ruleSet=rules)
    assert second != first
    shown = api.get(f"/subjects/{api.subject}/versions/2").json()
    assert shown["metadata"] == metadata
    assert shown["ruleSet"]["domainRules"][0]["name"] == "r"
    by_id = api.get(f"/schemas/ids/{second}").json()
    assert (by_id["metadata"], by_id["ruleSet"]) == (metadata, shown["ruleSet"])
    assert "metadata" not in api.get(f"/schemas/ids/{first}").json()
    looked_up = api.post(f"/subjects/{api.subject}", {"schema": RECORD, "metadata": metadata})
    assert looked_up.status_code in (200, 404)


@covers(REGISTER, 200)
def test_unknown_properties_and_odd_flags_are_ignored(api: Api) -> None:
    answer = api.post(
        f"/subjects/{api.subject}/versions?normalize=Perhaps&deleted=&x=y",
        {"schema": RECORD, "ruleSet": None, "references": [], "schemaTags": 5, "id": -1},
    )
    assert answer.status_code == 200, answer.text


@covers(REGISTER, 200)
def test_a_forced_registration_is_not_compared(api: Api) -> None:
    api.register()
    path = f"/subjects/{api.subject}/versions"
    assert api.post(f"{path}?force=true", {"schema": FIXED}).status_code == 200
    assert api.get(path).json() == [1, 2]


@covers(REGISTER, 200)
def test_a_dry_run_changes_nothing(api: Api) -> None:
    path = f"/subjects/{api.subject}/versions"

    def dry(schema: str) -> dict[str, object]:
        answer = api.post(f"{path}?dryRun=true", {"schema": schema})
        assert answer.status_code == 200, answer.text
        found: dict[str, object] = answer.json()
        return found

    first = dry(RECORD)
    assert (first["would_create"], first["version"], first["compatible"]) == (True, 1, True)
    assert api.get(path).status_code == 404
    schema_id = api.register()
    known = dry(RECORD)
    assert (known["would_create"], known["id"], known["version"]) == (False, schema_id, 1)
    grown = dry(GROWN)
    assert (grown["would_create"], grown["version"], grown["compatible"]) == (True, 2, True)
    assert grown["diff"] == [
        {
            "action": "added",
            "what": "field",
            "place": "R.b",
            "path": "/fields/1",
            "after": "int, default 0",
        }
    ]
    refused = dry(CLASHING)
    assert (refused["would_create"], refused["compatible"]) == (False, False)
    assert refused["messages"]
    assert refused["diff"]
    assert api.get(path).json() == [1]


@covers(LOOK_UP, 200, 40401, 40403)
def test_a_look_up(api: Api) -> None:
    path = f"/subjects/{api.subject}"
    missing = f"Subject '{api.subject}' not found."
    api.refused(api.post(path, {"schema": RECORD}), 40401, missing)
    api.register()
    found = api.post(path, {"schema": RECORD.replace(",", " , ")}).json()
    assert found == api.get(f"{path}/versions/1").json()
    api.refused(api.post(path, {"schema": '"double"'}), 40403, "Schema not found")


@covers(LOOK_UP, 40401, 40403)
def test_a_look_up_of_an_empty_schema_finds_nothing(api: Api) -> None:
    """It was refused as invalid, 42201; clients that ask so take that for a failure."""
    path = f"/subjects/{api.subject}"
    for body in ({"schema": ""}, {}):
        api.refused(api.post(path, body), 40401)
    api.register()
    api.refused(api.post(path, {"schema": ""}), 40403)


@covers(LOOK_UP, 200, 40403)
def test_a_look_up_of_a_deleted_version(api: Api) -> None:
    path = f"/subjects/{api.subject}"
    api.register()
    api.register(GROWN)
    api.delete(f"{path}/versions/1")
    api.refused(api.post(path, {"schema": RECORD}), 40403)
    assert api.post(f"{path}?deleted=true", {"schema": RECORD}).json()["version"] == 1


@covers(CHECK, 200, 40402, 42201, 42202)
def test_a_check_with_one_version(api: Api) -> None:
    path = f"/compatibility/subjects/{api.subject}/versions"
    assert api.post(f"{path}/latest", {"schema": RECORD}).json() == {"is_compatible": True}
    api.register()
    assert api.post(f"{path}/latest", {"schema": CLASHING}).json() == {"is_compatible": False}
    assert api.post(f"{path}/-1", {"schema": GROWN}).json() == {"is_compatible": True}
    assert api.post(f"{path}/1?verbose=true", {"schema": GROWN}).json() == {
        "is_compatible": True,
        "messages": [],
    }
    api.refused(api.post(f"{path}/7", {"schema": RECORD}), 40402, "Version 7 not found.")
    api.refused(api.post(f"{path}/0", {"schema": RECORD}), 42202, "not a valid version id")
    api.refused(api.post(f"{path}/latest", {"schema": "x"}), 42201)
    assert api.get(f"/subjects/{api.subject}/versions").json() == [1]


@covers(CHECK_ALL, 200, 42201)
def test_a_check_with_all_versions_of_the_level(api: Api) -> None:
    """With ``verbose`` an invalid schema is one of the reasons; a slash at the end is what Java
    clients send."""
    path = f"/compatibility/subjects/{api.subject}/versions"
    assert api.post(path, {"schema": RECORD}).json() == {"is_compatible": True}
    api.register()
    verbose = api.post(f"{path}/?verbose=TRUE", {"schema": CLASHING}).json()
    assert verbose["is_compatible"] is False
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in verbose["messages"][0]
    assert "/fields/1" in verbose["messages"][0]
    api.refused(api.post(path, {"schema": "x"}), 42201)
    invalid = api.post(f"{path}?verbose=true", {"schema": "x"}).json()
    assert invalid["is_compatible"] is False
    assert invalid["messages"]
