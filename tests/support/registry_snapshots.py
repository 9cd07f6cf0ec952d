"""Snapshots of registries for Hypothesis: what a registry can really hold."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tallymark_schema_registry.catalog.content import AVRO, Content, Reference, sorted_json
from tallymark_schema_registry.transfer.snapshot import Place, Snapshot, Version, context_of

SUBJECTS = ("a", "b/c", "ünï", ":.dev:a", ":.dev:x", ":.p-1:a")
PLACES = ("a", "b/c", "nobody", ":.dev:", ":.dev:a")
METADATA = {"properties": {"b": "2", "a": "1"}}
RULE = {"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "disabled": False}
LEVELS = ("NONE", "BACKWARD", "FULL_TRANSITIVE")


def text_of(number: int, *used: str) -> str:
    """The canonical text of the record ``x.R<number>``, which uses these types."""
    fields = [{"name": f"f{at}", "type": name} for at, name in enumerate(used)]
    record = {"type": "record", "name": f"R{number}", "namespace": "x", "doc": 'ä\u2028"'}
    return json.dumps(record | {"fields": fields}, separators=(",", ":"), ensure_ascii=False)


@st.composite
def snapshots(
    draw: st.DrawFn, kinds: tuple[str, ...] = (AVRO, "JSON", "PROTOBUF"), everywhere: bool = False
) -> Snapshot:
    """Ids and numbers with gaps, several versions with one schema, references, deletions.
    ``everywhere``: also levels and modes of subjects and contexts without a version."""
    found = Snapshot(configs={"": {"compatibilityLevel": draw(st.sampled_from(LEVELS))}})
    found.modes[""] = draw(st.sampled_from(("READWRITE", "READONLY", "IMPORT")))
    contents: dict[tuple[str, int], Content] = {}
    last: dict[str, int] = {}
    for number in range(draw(st.integers(0, 12))):
        subject = draw(st.sampled_from(SUBJECTS))
        context = context_of(subject)
        version = last.get(subject, 0) + draw(st.integers(1, 3))
        schema_id = draw(st.integers(1, 6))
        if (context, schema_id) not in contents:
            contents[context, schema_id] = draw(_content(number, context, found, kinds))
        content = contents[context, schema_id]
        if _is_there(found, subject, schema_id) or not _all_live(found, context, content):
            continue
        last[subject] = version
        found.add(Version(subject, version, schema_id, content))
        if draw(st.integers(0, 3)) == 0:
            _delete(found, draw(st.sampled_from(sorted(found.versions))))
    for place in draw(st.sets(st.sampled_from(PLACES))):
        if everywhere or place in found.subjects() or place == ":.dev:":
            found.configs[place] = draw(_config())
            found.modes[place] = draw(st.sampled_from(("READWRITE", "READONLY")))
    if not everywhere and not any(one.context == ".dev" for one in found.versions.values()):
        found.configs.pop(":.dev:", None), found.modes.pop(":.dev:", None)
    return found


@st.composite
def _content(
    draw: st.DrawFn, number: int, context: str, there: Snapshot, kinds: tuple[str, ...]
) -> Content:
    kind = draw(st.sampled_from((AVRO, AVRO, *kinds)))
    if kind != AVRO:
        return Content(f'{{"n": {number}}}', kind)
    live = [
        one
        for one in there.versions.values()
        if not one.deleted and one.context == context and one.content.kind == AVRO
    ]
    chosen = draw(st.lists(st.sampled_from(live), max_size=2, unique=True)) if live else []
    names = ["x." + json.loads(one.content.text)["name"] for one in chosen]
    references = tuple(
        Reference(name, draw(st.sampled_from(_spellings(one.subject))), one.version)
        for name, one in zip(names, chosen, strict=True)
    )
    metadata: Any = draw(st.sampled_from((None, None, {"properties": {"owner": "ü", "a": "1"}})))
    rules: Any = draw(st.sampled_from((None, None, {"domainRules": [RULE]})))
    text = text_of(number, *dict.fromkeys(names))
    return Content(text, AVRO, references, sorted_json(metadata), sorted_json(rules))


def _spellings(subject: str) -> tuple[str, str]:
    """In its own context a subject may be named with the context or without."""
    return subject, subject.split(":")[-1]


def _config() -> st.SearchStrategy[dict[str, Any]]:
    level = st.sampled_from(LEVELS)
    return st.one_of(
        st.builds(lambda one: {"compatibilityLevel": one}, level),
        st.builds(lambda one: {"compatibilityLevel": one, "normalize": True}, level),
        st.just(
            {"compatibilityGroup": "g", "defaultMetadata": {"properties": {"b": "2", "a": "1"}}}
        ),
    )


def _is_there(held: Snapshot, subject: str, schema_id: int) -> bool:
    """A registry does not give a live schema a second version."""
    return any(
        one.subject == subject and one.schema_id == schema_id and not one.deleted
        for one in held.versions.values()
    )


def _all_live(held: Snapshot, context: str, content: Content) -> bool:
    probe = Version(f":{context}:probe", 1, 1, content)
    return all(
        place in held.versions and not held.versions[place].deleted for place in probe.references()
    )


def _delete(held: Snapshot, place: Place) -> None:
    """Softly, unless a live version refers to it."""
    if any(place in one.references() for one in held.versions.values() if not one.deleted):
        return
    one = held.versions[place]
    held.add(Version(*place, one.schema_id, one.content, deleted=True))
