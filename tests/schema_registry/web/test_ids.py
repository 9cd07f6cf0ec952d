"""Schemas by id and by guid."""

from __future__ import annotations

import hashlib
import uuid

from rest_api import GROWN, RECORD, Api, covers

BY_ID = "GET /schemas/ids/{schema_id}"
TEXT = "GET /schemas/ids/{schema_id}/schema"
VERSIONS = "GET /schemas/ids/{schema_id}/versions"
SUBJECTS = "GET /schemas/ids/{schema_id}/subjects"
BY_GUID = "GET /schemas/guids/{guid}"
IDS = "GET /schemas/guids/{guid}/ids"


@covers(BY_ID, 200, 40403)
def test_a_schema_by_its_id(api: Api) -> None:
    schema_id = api.register()
    found = api.get(f"/schemas/ids/{schema_id}").json()
    guid = [found.pop("guid")] if api.in_profile(False, True) else []
    assert found == api.in_profile({}, {"schemaType": "AVRO"}) | {"schema": RECORD}
    assert [len(one) for one in guid] == api.in_profile([], [36])
    api.refused(api.get("/schemas/ids/999999"), 40403, "Schema 999999 not found")


@covers(BY_ID, 200)
def test_what_can_be_asked_for_with_an_id(api: Api) -> None:
    first = api.register()
    last = api.register(GROWN, f"{api.subject}-b", metadata={"properties": {"n": api.subject}})
    path = f"/schemas/ids/{first}"
    assert api.get(f"{path}?fetchMaxId=true").json()["maxId"] >= last
    assert "maxId" not in api.get(f"{path}?fetchMaxId=no").json()
    assert api.subject in api.get(f"{path}?includeSubjects=true").json()["subjects"]
    assert api.get(f"{path}?findTags=true&x=1").status_code == 200
    named = api.get(f"{path}?subject={api.subject}").json()
    assert (named.get("subject"), named.get("version")) == api.in_profile(
        (None, None), (api.subject, 1)
    )


@covers(TEXT, 200, 40403)
def test_the_text_by_the_id(api: Api) -> None:
    schema_id = api.register()
    assert api.get(f"/schemas/ids/{schema_id}/schema").text == RECORD
    api.refused(api.get("/schemas/ids/999999/schema"), 40403)


@covers(VERSIONS, 200, 40403)
@covers(SUBJECTS, 200, 40403)
def test_where_an_id_is_used(api: Api) -> None:
    text = RECORD.replace('"R"', f'"{api.subject.replace("-", "_")}"')
    names = [f"{api.subject}-{letter}" for letter in "ab"]
    schema_id = api.register(text, names[0])
    assert api.register(text, names[1]) == schema_id
    path = f"/schemas/ids/{schema_id}"
    rows = [{"subject": name, "version": 1} for name in names]
    assert api.get(f"{path}/versions").json() == rows
    assert api.get(f"{path}/versions?offset=1").json() == rows[1:]
    assert api.get(f"{path}/versions?subject={names[1]}").json() == rows
    assert api.get(f"{path}/subjects").json() == names
    assert api.get(f"{path}/subjects?limit=1").json() == names[:1]
    api.delete(f"/subjects/{names[0]}")
    assert api.get(f"{path}/versions").json() == rows[1:]
    assert api.get(f"{path}/versions?deleted=true").json() == rows
    assert api.get(f"{path}/subjects").json() == names[1:]
    assert api.get(f"{path}/subjects?deleted=true").json() == names
    api.refused(api.get("/schemas/ids/999999/versions"), 40403)
    api.refused(api.get("/schemas/ids/999999/subjects"), 40403)


@covers(BY_GUID, 200, 40403)
@covers(IDS, 200, 40403)
def test_a_schema_by_its_guid(api: Api) -> None:
    """The guid is the MD5 of the canonical text, so it is the same in every registry."""
    guid = "1e1a4d5c-0bb6-6ea3-eb9e-a3a4e6e8c7ab"
    api.refused(api.get(f"/schemas/guids/{guid}"), 40403)
    api.refused(api.get(f"/schemas/guids/{guid}/ids"), 40403)
    schema_id = api.register('"string"')
    guid = str(uuid.UUID(hashlib.md5(b'"string"').hexdigest()))
    assert api.get(f"/schemas/guids/{guid}").json()["schema"] == '"string"'
    assert {"context": ".", "id": schema_id} in api.get(f"/schemas/guids/{guid}/ids").json()
    api.refused(api.get("/schemas/guids/not-a-guid"), 40403)


def test_an_id_that_is_no_number_names_nothing(api: Api) -> None:
    for text in ("abc", "1.5", "2147483648", "99999999999999999999", "-", "%00"):
        api.refused(api.get(f"/schemas/ids/{text}"), 404, "HTTP 404 Not Found")
    api.refused(api.get("/schemas/ids/-1"), 40403)
