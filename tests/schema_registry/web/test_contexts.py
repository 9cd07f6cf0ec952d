"""Contexts: ids, subjects, levels and modes of their own."""

from __future__ import annotations

from rest_api import RECORD, Api, covers


def context_of(api: Api) -> str:
    return f".{api.subject}"


@covers("GET /contexts", 200)
@covers("DELETE /contexts/{context}", 204, 42211)
def test_contexts_come_and_go(api: Api) -> None:
    context = context_of(api)
    assert "." in api.get("/contexts").json()
    api.register(RECORD, f":{context}:s")
    assert context in api.get("/contexts").json()
    assert api.get(f"/contexts?contextPrefix={context}").json() == [context]
    api.refused(api.delete(f"/contexts/{context}"), 42211)
    api.delete(f"/subjects/:{context}:s")
    api.delete(f"/subjects/:{context}:s?permanent=true")
    gone = api.delete(f"/contexts/{context}")
    assert (gone.status_code, gone.content) == (204, b"")
    assert context not in api.get("/contexts").json()


@covers("GET /schemas/ids/{schema_id}", 200)
@covers("GET /subjects", 200)
@covers("POST /subjects/{subject}/versions", 200)
def test_every_path_can_be_asked_in_a_context(api: Api) -> None:
    context = context_of(api)
    base = f"/contexts/{context}"
    answer = api.post(f"{base}/subjects/s/versions", {"schema": RECORD})
    assert answer.json()["id"] == 1
    qualified = f":{context}:s"
    assert api.get(f"{base}/subjects").json() == [qualified]
    assert api.get(f"{base}/subjects/s/versions").json() == [1]
    assert api.get(f"{base}/subjects/s/versions/1").json()["subject"] == qualified
    assert api.get(f"{base}/subjects/:{context}:s/versions/1").json()["subject"] == qualified
    assert api.get(f"/subjects/:{context}:s/versions/1").json()["subject"] == qualified
    # Tools also write a context with its colons.
    assert api.get(f"/contexts/:{context}:/subjects/s/versions").json() == [1]
    assert api.get(f"{base}/schemas/ids/1").json()["schema"] == RECORD
    assert api.get(f"/schemas/ids/1?subject=:{context}:s").json()["schema"] == RECORD
    assert api.get(f"{base}/schemas/ids/1/versions").json() == [
        {"subject": qualified, "version": 1}
    ]
    assert [one["subject"] for one in api.get(f"{base}/schemas").json()] == [qualified]
    api.refused(api.get(f"/subjects/{api.subject}/versions"), 40401)
    assert qualified in api.get("/subjects?subjectPrefix=:*:").json()


@covers("GET /config", 200)
@covers("PUT /config", 200)
@covers("GET /mode", 200)
@covers("PUT /mode", 200)
def test_levels_and_modes_of_a_context(api: Api) -> None:
    context = context_of(api)
    base = f"/contexts/{context}"
    assert api.put(f"{base}/config", {"compatibility": "NONE"}).json() == {"compatibility": "NONE"}
    assert api.get(f"{base}/config").json() == {"compatibilityLevel": "NONE"}
    assert api.get(f"/config/:{context}:").json() == {"compatibilityLevel": "NONE"}
    assert api.get("/config").json() == {"compatibilityLevel": "BACKWARD"}
    own = f"{base}/config/s?defaultToGlobal=true"
    assert api.get(own).json() == {"compatibilityLevel": "NONE"}
    assert api.put(f"{base}/mode", {"mode": "READONLY"}).json() == {"mode": "READONLY"}
    assert api.get(f"{base}/mode").json() == {"mode": "READONLY"}
    assert api.get("/mode").json() == {"mode": "READWRITE"}
    answer = api.post(f"{base}/subjects/s/versions", {"schema": RECORD})
    api.refused(answer, 42205)
    assert api.delete(f"{base}/mode").json() == {"mode": "READONLY"}
    api.register(RECORD, f":{context}:s")


def test_what_is_no_context(api: Api) -> None:
    for name in ("ctx", "a:b", ".a:b", "%00"):
        api.refused(api.get(f"/contexts/{name}/subjects"), 42208)
    api.refused(api.get("/contexts/.a/contexts/.b/subjects"), 404)


def test_an_id_that_a_subject_has_in_another_context(api: Api) -> None:
    """Consumers name a topic and know of no contexts; what was found so is not remembered as the
    default context's."""
    name, number = api.subject, 900_000_001
    subject = f":{context_of(api)}:{name}"
    api.put(f"/mode/{subject}", {"mode": "IMPORT"})
    api.register(RECORD.replace('"R"', '"OnlyThere"'), subject, id=number, version=1)
    paths = (f"/schemas/ids/{number}", f"/schemas/ids/{number}/schema")
    for path in paths:
        api.refused(api.get(path), 40403)
        assert [api.get(f"{path}?subject={name}").status_code for _ in range(3)] == [200] * 3
        api.refused(api.get(path), 40403)
    for query in ("", "?permanent=true"):
        assert api.delete(f"/subjects/{subject}{query}").json() == [1]
    for path in paths:
        api.refused(api.get(f"{path}?subject={name}"), 40403)
