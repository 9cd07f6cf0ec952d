"""Delete and restore versions and subjects."""

from __future__ import annotations

from rest_api import GROWN, RECORD, Api, covers

VERSION = "DELETE /subjects/{subject}/versions/{version}"
SUBJECT = "DELETE /subjects/{subject}"
RESTORE = "POST /subjects/{subject}/versions/{version}/restore"


@covers(VERSION, 200, 40401, 40402, 42202, 40406, 40407)
def test_a_version_is_deleted_softly_then_for_ever(api: Api) -> None:
    path = f"/subjects/{api.subject}/versions"
    api.refused(api.delete(f"{path}/1"), 40401)
    schema_id = api.register()
    api.register(GROWN)
    api.refused(api.delete(f"{path}/3"), 40402, "Version 3 not found.")
    api.refused(api.delete(f"{path}/x"), 42202)
    first = f"Subject '{api.subject}' Version 1 was not deleted first"
    api.refused(api.delete(f"{path}/1?permanent=true"), 40407, first)
    assert api.delete(f"{path}/1").json() == 1
    again = f"Subject '{api.subject}' Version 1 was soft deleted.Set permanent=true to"
    api.refused(api.delete(f"{path}/1"), 40406, again)
    assert api.get(f"/schemas/ids/{schema_id}").status_code == 200
    assert api.delete(f"{path}/1?permanent=TRUE").json() == 1
    api.refused(api.get(f"{path}/1?deleted=true"), 40402)
    assert api.delete(f"{path}/latest").json() == 2


@covers(VERSION, 200)
def test_a_number_is_never_used_again_and_an_id_stays(api: Api) -> None:
    path = f"/subjects/{api.subject}/versions"
    schema_id = api.register()
    assert api.delete(f"{path}/1").json() == 1
    assert api.register() == schema_id
    assert api.get(path).json() == [2]
    assert api.delete(f"{path}/-1").json() == 2


@covers(SUBJECT, 200, 40401, 40404, 40405)
def test_a_subject_is_deleted_softly_then_for_ever(api: Api) -> None:
    path = f"/subjects/{api.subject}"
    api.refused(api.delete(path), 40401)
    text = RECORD.replace('"R"', f'"{api.subject.replace("-", "_")}"')
    schema_id = api.register(text)
    api.register(text.replace('"a"', '"b","default":1'), version=2)
    first = f"Subject '{api.subject}' was not deleted first before being permanently deleted"
    api.refused(api.delete(f"{path}?permanent=true"), 40405, first)
    api.put(f"/config/{api.subject}", {"compatibility": "NONE"})
    assert api.delete(path).json() == [1, 2]
    again = f"Subject '{api.subject}' was soft deleted.Set permanent=true to delete permanently"
    api.refused(api.delete(path), 40404, again)
    assert api.get(f"/schemas/ids/{schema_id}").status_code == 200
    assert api.delete(f"{path}?permanent=true").json() == [1, 2]
    api.refused(api.get(f"/schemas/ids/{schema_id}"), 40403)
    api.refused(api.delete(f"{path}?permanent=true"), 40401)
    api.refused(api.get(f"/config/{api.subject}"), 40408)


@covers(VERSION, 42206)
@covers(SUBJECT, 42206)
def test_what_others_refer_to_is_not_deleted(api: Api) -> None:
    types = f"{api.subject}-types"
    api.register('{"type":"fixed","name":"F","size":4}', types)
    reference = {"name": "F", "subject": types, "version": 1}
    text = '{"type":"record","name":"Car","fields":[{"name":"f","type":"F"}]}'
    api.register(text, references=[reference])
    exists = f"{{magic=1,keytype=SCHEMA,subject={types},version=1}}"
    api.refused(api.delete(f"/subjects/{types}/versions/1"), 42206, exists)
    api.refused(api.delete(f"/subjects/{types}"), 42206, "One or more references exist")
    assert api.delete(f"/subjects/{api.subject}").json() == [1]
    assert api.delete(f"/subjects/{types}").json() == [1]


@covers(VERSION, 42205)
@covers(SUBJECT, 42205)
@covers(RESTORE, 42205)
def test_nothing_is_deleted_or_restored_in_mode_readonly(api: Api) -> None:
    path = f"/subjects/{api.subject}"
    api.register()
    api.register(GROWN)
    api.delete(f"{path}/versions/1")
    api.put(f"/mode/{api.subject}", {"mode": "READONLY"})
    api.refused(api.delete(f"{path}/versions/2"), 42205)
    api.refused(api.delete(path), 42205)
    api.refused(api.post(f"{path}/versions/1/restore"), 42205)
    assert api.get(f"{path}/versions").json() == [2]


@covers(RESTORE, 200, 40401, 40402, 42202)
def test_a_soft_deletion_is_undone(api: Api) -> None:
    path = f"/subjects/{api.subject}/versions"
    api.refused(api.post(f"{path}/1/restore"), 40401)
    schema_id = api.register()
    api.delete(f"{path}/1")
    assert api.post(f"{path}/1/restore").json() == 1
    assert api.get(f"{path}/1").json()["id"] == schema_id
    api.refused(api.post(f"{path}/2/restore"), 40402)
    api.refused(api.post(f"{path}/x/restore"), 42202)
