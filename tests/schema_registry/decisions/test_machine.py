"""Any sequence of commands: what must hold after each one.

The commands go through :class:`decider.Decider`, as a node's do. Beside the catalog the test keeps,
from the records alone, what every id and every version ever meant.
"""

from __future__ import annotations

from typing import Any

from decider import Decider, content, sent, subject
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.catalog.contracts import metadata_text
from tallymark_schema_registry.catalog.records import (
    ModeSet,
    SchemaAdded,
    VersionAdded,
    from_json,
    to_json,
)
from tallymark_schema_registry.catalog.subject import Subject
from tallymark_schema_registry.decisions import by_id, lists
from tallymark_schema_registry.decisions.commands import (
    Check,
    Decision,
    DeleteConfig,
    DeleteContext,
    DeleteMode,
    DeleteSubject,
    DeleteVersion,
    Import,
    LookUp,
    Register,
    RestoreVersion,
    SetConfig,
    SetMode,
)
from tallymark_schema_registry.decisions.references import targets
from tallymark_schema_registry.decisions.scope import followed, mode_in_scope
from tallymark_schema_registry.errors import RegistryError

SUBJECTS = st.sampled_from(["s", "t", ":.c:s"]).map(subject)
PLACES = st.sampled_from(["s", "t", ":.c:s", "", ":.c:", ":.__GLOBAL:"]).map(subject)
TEXTS = st.sampled_from(["a", "b", "c", "x", "m(a)", "~d", "!", ""])
NUMBERS = st.integers(1, 4)
REFERENCES = st.lists(
    st.tuples(st.sampled_from(["s", "t", ":.c:s"]), st.sampled_from([-1, 1, 2, 3])), max_size=2
)
METADATA = st.sampled_from(
    [
        "",
        "",
        "{}",
        metadata_text({"properties": {"g": "1"}}),
        metadata_text({"properties": {"confluent:version": "2"}}),
    ]
)
SPECS = st.sampled_from(["1", "2", "3", "latest", "x"])
MODES = st.sampled_from(["READWRITE", "READWRITE", "READONLY", "IMPORT", "FORWARD", "X"])
CONFIGS = st.sampled_from(
    [
        {},
        {"compatibility": "NONE"},
        {"compatibility": "FULL_TRANSITIVE"},
        {"compatibility": "y"},
        {"compatibilityGroup": "g"},
        {"normalize": True},
        {"alias": "t"},
        {"alias": None},
        {"overrideMetadata": {"properties": {"o": "1"}}},
    ]
)
FLAGS = st.booleans()


class Registry(RuleBasedStateMachine):
    """One registry, two contexts, few subjects and texts, so that they meet often."""

    @initialize()
    def start(self) -> None:
        self.decider = Decider()
        self.meant: dict[tuple[str, int], str] = {}
        self.highest: dict[str, int] = {}
        self.numbers: set[tuple[str, str, int]] = set()

    # --- commands

    @rule(name=SUBJECTS, text=TEXTS, references=REFERENCES, metadata=METADATA, force=FLAGS)
    def register(
        self, name: Subject, text: str, references: Any, metadata: str, force: bool
    ) -> None:
        body = sent(text, *references, metadata=metadata)
        self.do(Register(name, body, force=force))

    @rule(name=SUBJECTS, text=TEXTS, version=st.sampled_from([-1, 0, 1, 2, 3]))
    def register_expecting(self, name: Subject, text: str, version: int) -> None:
        self.do(Register(name, sent(text, version=version)))

    @rule(name=SUBJECTS, text=TEXTS, schema_id=NUMBERS, version=st.none() | NUMBERS)
    def register_with_id(
        self, name: Subject, text: str, schema_id: int, version: int | None
    ) -> None:
        self.do(Register(name, sent(text, schema_id=schema_id, version=version)), chosen=True)

    @rule(
        name=SUBJECTS,
        version=NUMBERS,
        schema_id=NUMBERS,
        text=st.sampled_from("abc"),
        references=REFERENCES,
        deleted=FLAGS,
    )
    def import_version(
        self, name: Subject, version: int, schema_id: int, text: str, references: Any, deleted: bool
    ) -> None:
        numbered = [(other, max(number, 1)) for other, number in references]
        command = Import(name, version, schema_id, content(text, *numbered), deleted=deleted)
        self.do(command, chosen=True)

    @rule(name=SUBJECTS, spec=SPECS, permanent=FLAGS)
    def delete_version(self, name: Subject, spec: str, permanent: bool) -> None:
        self.do(DeleteVersion(name, spec, permanent=permanent))

    @rule(name=SUBJECTS, permanent=FLAGS)
    def delete_subject(self, name: Subject, permanent: bool) -> None:
        self.do(DeleteSubject(name, permanent=permanent))

    @rule(name=SUBJECTS, spec=SPECS)
    def restore(self, name: Subject, spec: str) -> None:
        self.do(RestoreVersion(name, spec))

    @rule(place=PLACES, values=CONFIGS)
    def configure(self, place: Subject, values: dict[str, Any]) -> None:
        self.do(SetConfig(place, values))

    @rule(place=PLACES)
    def delete_config(self, place: Subject) -> None:
        self.do(DeleteConfig(place))

    @rule(place=PLACES, mode=MODES, force=FLAGS)
    def set_mode(self, place: Subject, mode: str, force: bool) -> None:
        self.do(SetMode(place, mode, force=force))

    @rule(place=PLACES, recursive=FLAGS)
    def delete_mode(self, place: Subject, recursive: bool) -> None:
        self.do(DeleteMode(place, recursive=recursive))

    @rule(name=st.sampled_from([".", ".c", ".d"]))
    def delete_context(self, name: str) -> None:
        self.do(DeleteContext(name))

    @rule(name=SUBJECTS, text=TEXTS, references=REFERENCES, deleted=FLAGS)
    def look_up(self, name: Subject, text: str, references: Any, deleted: bool) -> None:
        assert not self.do(LookUp(name, sent(text, *references), deleted=deleted))

    @rule(name=SUBJECTS, text=TEXTS, spec=st.none() | SPECS)
    def check(self, name: Subject, text: str, spec: str | None) -> None:
        assert not self.do(Check(name, spec, sent(text)))

    def do(self, command: Any, *, chosen: bool = False) -> tuple[Any, ...]:
        """The records. ``chosen``: the client chooses ids and versions, also ones that went."""
        catalog = self.decider.catalog
        mode = None
        if isinstance(command, SetConfig | DeleteConfig):
            mode = mode_in_scope(catalog, command.subject)
        elif isinstance(command, Register | DeleteVersion | DeleteSubject | RestoreVersion):
            mode = mode_in_scope(catalog, followed(catalog, command.subject))
        decision = self.decided(command)
        if decision is None:
            return ()
        assert not (mode and mode.read_only and decision.records), "READONLY lets nothing through"
        self.remember(decision, chosen)
        self.decider.apply(decision)
        if isinstance(command, Register | Import):
            self.again(command, decision)
        return decision.records

    def decided(self, command: Any) -> Decision | None:
        """None where it is refused."""
        try:
            return self.decider.decided(command)
        except RegistryError as error:
            if error.status not in (400, 404, 409, 422):
                raise
            return None

    def again(self, command: Register | Import, first: Decision) -> None:
        """A client that got no answer sends its request again: nothing changes."""
        if isinstance(command, Register) and _means_what_is_there(command):
            return
        second = self.decided(command)
        assert second is not None
        assert not second.records
        assert second.reply.version == first.reply.version
        assert second.reply.schema.md5 == first.reply.schema.md5

    def remember(self, decision: Decision, chosen: bool) -> None:
        """What the records say of ids and numbers, compared with what was ever said."""
        contents = {(context, schema_id) for context, schema_id, _ in decision.contents}
        for record in decision.records:
            if isinstance(record, SchemaAdded):
                place = record.context, record.schema_id
                assert place in contents
                assert chosen or record.schema_id > self.highest.get(record.context, 0)
                assert chosen or place not in self.meant, "no id means two contents"
                self.meant[place] = record.md5
                self.highest[record.context] = max(
                    self.highest.get(record.context, 0), record.schema_id
                )
            elif isinstance(record, VersionAdded):
                number = record.context, record.subject, record.version
                assert chosen or number not in self.numbers, "no number is used twice"
                self.numbers.add(number)
            elif isinstance(record, ModeSet):
                assert record.mode != "X"

    # --- what holds

    @invariant()
    def ids_resolve_and_references_do_not_dangle(self) -> None:
        catalog = self.decider.catalog
        for name, context in catalog.contexts.items():
            for subject_name, there in context.subjects.items():
                assert list(there.versions) == sorted(there.versions)
                for entry in there.versions.values():
                    schema = context.schemas[entry.schema_id]
                    assert (subject_name, entry.version) in schema.used_by
                    assert (name, entry.schema_id) in self.decider.texts
                    assert entry.version <= there.last_version
            for schema in context.schemas.values():
                assert schema.used_by, "an id goes with its last version"
                assert self.meant[name, schema.schema_id] == schema.md5
                assert schema.schema_id in catalog.ids_of(name, schema.md5)
                text = self.decider.texts[name, schema.schema_id]
                assert schema.content(text).md5() == schema.md5
                assert len(list(targets(catalog, name, schema.references))) == len(
                    schema.references
                )
                by_id.by_id(catalog, schema.schema_id, Subject(name, ""))
            assert context.last_id == self.highest.get(name, 0)

    @invariant()
    def lists_and_single_answers_agree(self) -> None:
        catalog = self.decider.catalog
        for qualified in lists.subjects(catalog):
            name = subject(qualified)
            if followed(catalog, name) != name:
                continue
            numbers = lists.versions(catalog, name)
            assert numbers
            assert lists.version(catalog, name, "latest").version.version == numbers[-1]
            for number in numbers:
                found = lists.version(catalog, name, str(number))
                place = Subject(name.context, "")
                used = by_id.uses(catalog, found.version.schema_id, place)
                assert (qualified, number) in used

    @invariant()
    def the_records_build_the_same_catalog(self) -> None:
        replayed = Catalog()
        for number, record in enumerate(self.decider.records, 1):
            replayed.apply(number, from_json(to_json(record)))
        assert replayed.contexts == self.decider.catalog.contexts


def _means_what_is_there(command: Register) -> bool:
    """The latest text, the latest version of a reference, or a version that is another one then."""
    latest = any(reference.version == -1 for reference in command.sent.references)
    return not command.sent.text or latest or "confluent:version" in command.sent.metadata


TestRegistry = Registry.TestCase
TestRegistry.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
