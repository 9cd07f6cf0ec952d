"""List and read subjects and versions."""

from __future__ import annotations

from rest_api import GROWN, RECORD, Api, covers

LIST = "GET /subjects"
VERSIONS = "GET /subjects/{subject}/versions"
VERSION = "GET /subjects/{subject}/versions/{version}"
TEXT = "GET /subjects/{subject}/versions/{version}/schema"
REFERRERS = "GET /subjects/{subject}/versions/{version}/referencedby"
METADATA = "GET /subjects/{subject}/metadata"
SCHEMAS = "GET /schemas"


@covers(LIST, 200)
def test_the_list_of_subjects(api: Api) -> None:
    names = [f"{api.subject}-{number}" for number in (1, 2, 3)]
    for name in names:
        api.register(subject=name)
    listed = f"/subjects?subjectPrefix={api.subject}-"
    assert api.get(listed).json() == names
    assert api.get(f"{listed}&offset=1&limit=1").json() == names[1:2]
    api.delete(f"/subjects/{names[1]}")
    assert api.get(listed).json() == [names[0], names[2]]
    assert api.get(f"{listed}&deleted=true").json() == names
    # It was read as if it were not there, and all subjects were answered.
    assert api.get(f"{listed}&deletedOnly=true").json() == [names[1]]


@covers(LIST, 200)
def test_no_limit(api: Api) -> None:
    """A limit of 0 answered nothing; it means that there is none, as does a negative one."""
    api.register()
    listed = f"/subjects?subjectPrefix={api.subject}"
    for limit in ("0", "-1", "-7"):
        assert api.get(f"{listed}&limit={limit}").json() == [api.subject]


@covers(VERSIONS, 200, 40401)
def test_the_versions_of_a_subject(api: Api) -> None:
    path = f"/subjects/{api.subject}/versions"
    api.refused(api.get(path), 40401, f"Subject '{api.subject}' not found.")
    api.register()
    api.register(GROWN)
    assert api.get(path).json() == [1, 2]
    assert api.get(f"{path}?offset=1").json() == [2]
    api.delete(f"{path}/1")
    assert api.get(path).json() == [2]
    assert api.get(f"{path}?deleted=true").json() == [1, 2]
    assert api.get(f"{path}?deletedOnly=true").json() == [1]
    assert api.get(f"{path}?deletedAsNegative=true").json() == [-1, 2]
    api.delete(f"/subjects/{api.subject}")
    api.refused(api.get(path), 40401)


@covers(VERSION, 200, 40401, 40402, 42202)
def test_a_version(api: Api) -> None:
    path = f"/subjects/{api.subject}/versions"
    api.refused(api.get(f"{path}/1"), 40401)
    schema_id = api.register()
    found = api.get(f"{path}/1").json()
    seven = {"subject": api.subject, "version": 1, "id": schema_id, "schema": RECORD}
    eight = seven | {"schemaType": "AVRO", "deleted": False}
    more = {name: found.pop(name) for name in api.in_profile((), ("guid", "ts"))}
    assert found == api.in_profile(seven, eight)
    for spec in ("latest", "LATEST", "-1"):
        assert api.get(f"{path}/{spec}").json() == found | more
    api.refused(api.get(f"{path}/2"), 40402, "Version 2 not found.")
    for spec in ("0", "-2", "abc", "2147483648", "%31%00"):
        api.refused(api.get(f"{path}/{spec}"), 42202, "is not a valid version id")
    api.register(GROWN)
    api.delete(f"{path}/1")
    api.refused(api.get(f"{path}/1"), 40402)
    deleted = api.get(f"{path}/1?deleted=true").json()
    assert deleted["id"] == schema_id
    assert deleted.get("deleted") is api.in_profile(None, True)


@covers(TEXT, 200, 40401, 40402, 42202)
def test_the_text_of_a_version(api: Api) -> None:
    path = f"/subjects/{api.subject}/versions"
    api.refused(api.get(f"{path}/1/schema"), 40401)
    api.register()
    assert api.get(f"{path}/1/schema").text == RECORD
    assert api.get(f"{path}/latest/schema").text == RECORD
    api.refused(api.get(f"{path}/2/schema"), 40402)
    api.refused(api.get(f"{path}/x/schema"), 42202)


@covers(REFERRERS, 200, 40401, 40402, 42202)
@covers(TEXT, 200)
@covers(VERSION, 200)
def test_references(api: Api) -> None:
    """Types of other subjects are not written into the stored text; ``format=resolved`` does."""
    path = f"/subjects/{api.subject}/versions"
    api.refused(api.get(f"{path}/1/referencedby"), 40401)
    types = f"{api.subject}-types"
    api.register('{"type":"enum","name":"x.Colour","symbols":["RED"]}', types)
    text = '{"type":"record","name":"Car","namespace":"x","fields":[{"name":"c","type":"Colour"}]}'
    reference = {"name": "x.Colour", "subject": types, "version": 1}
    schema_id = api.register(text, references=[reference | {"version": -1}])
    shown = api.get(f"{path}/1").json()
    assert shown["references"] == [reference]
    assert '"symbols"' not in shown["schema"]
    assert '"symbols"' in api.get(f"{path}/1?format=resolved").json()["schema"]
    assert '"symbols"' in api.get(f"{path}/1/schema?format=resolved").text
    assert '"symbols"' in api.get(f"/schemas/ids/{schema_id}?format=resolved").json()["schema"]
    assert api.get(f"/subjects/{types}/versions/1/referencedby").json() == [schema_id]
    assert api.get(f"{path}/latest/referencedby").json() == []
    api.refused(api.get(f"{path}/2/referencedby"), 40402)
    api.refused(api.get(f"{path}/x/referencedby"), 42202)
    found = api.post(f"/subjects/{api.subject}", {"schema": text, "references": [reference]})
    assert found.json()["version"] == 1


@covers(METADATA, 200, 40401, 40403)
def test_the_latest_version_with_some_metadata(api: Api) -> None:
    path = f"/subjects/{api.subject}/metadata"
    api.refused(api.get(path), 40401)
    for stage, schema in (("dev", RECORD), ("prod", GROWN), ("dev", GROWN)):
        api.register(schema, metadata={"properties": {"stage": stage, "team": "a"}})
    assert api.get(f"{path}?key=stage&value=dev").json()["version"] == 3
    assert api.get(f"{path}?key=stage&value=prod&key=team&value=a").json()["version"] == 2
    assert api.get(path).json()["version"] == 3
    api.refused(api.get(f"{path}?key=stage&value=test"), 40403)


@covers(SCHEMAS, 200)
def test_all_schemas(api: Api) -> None:
    first, second = f"{api.subject}-1", f"{api.subject}-2"
    for subject in (first, second):
        api.register(RECORD, subject)
        api.register(GROWN, subject)
    path = f"/schemas?subjectPrefix={api.subject}-"

    def names(query: str) -> list[tuple[str, int]]:
        return [(one["subject"], one["version"]) for one in api.get(path + query).json()]

    everything = [(first, 1), (first, 2), (second, 1), (second, 2)]
    assert names("") == everything
    assert names("&limit=0") == everything
    assert names("&offset=1&limit=2") == everything[1:3]
    assert names("&latestOnly=true") == [(first, 2), (second, 2)]
    assert api.get(f"{path}&limit=1").json() == [api.get(f"/subjects/{first}/versions/1").json()]
    api.delete(f"/subjects/{first}/versions/2")
    assert names("&latestOnly=true") == [(first, 1), (second, 2)]
    assert names("&deleted=true") == everything


@covers(SCHEMAS, 200)
def test_all_schemas_with_a_rule_of_a_type(api: Api) -> None:
    rule = {"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}
    api.register(RECORD)
    api.register(GROWN, ruleSet={"domainRules": [rule]})
    path = f"/schemas?subjectPrefix={api.subject}"
    assert [one["version"] for one in api.get(f"{path}&ruleType=CEL").json()] == [2]
    assert api.get(f"{path}&ruleType=CEL&offset=1").json() == []
    assert api.get(f"{path}&ruleType=ENCRYPT").json() == []


def test_subjects_with_slashes_and_percents(api: Api) -> None:
    for sent, name in (("a%2Fb", "a/b"), ("%25", "%"), ("a%20b%C3%A9", "a bé")):
        api.register(subject=sent)
        assert api.get(f"/subjects/{sent}/versions/1/").json()["subject"] == name


@covers(LIST, 200)
@covers(VERSION, 200)
def test_head_is_get_without_the_body(api: Api) -> None:
    """HEAD was a 405."""
    api.register()
    for path in (
        "/",
        "/subjects",
        f"/subjects/{api.subject}/versions",
        f"/subjects/{api.subject}/versions/latest",
        "/config",
        "/mode",
        "/schemas/types",
        "/contexts",
    ):
        got, head = api.get(path), api.http.head(path)
        assert (head.status_code, head.content) == (200, b"")
        for name in ("content-type", "content-length", "etag"):
            assert head.headers.get(name) == got.headers.get(name), (path, name)
    missing = api.http.head("/subjects/not-there/versions/1")
    assert (missing.status_code, missing.content) == (404, b"")
