"""Encoders and decoders: subjects, what is registered, the latest version, the guid in a header."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from scripted_registry import Answer, Asked, ScriptedRegistry

from tallymark.errors import UserError
from tallymark.serialization import (
    AvroCodec,
    AvroDecoder,
    AvroEncoder,
    Reference,
    RegistryClient,
    RegistryError,
    Schema,
    SerializationError,
    by_record,
    by_topic_and_record,
)

ONE = '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"int"}]}'
TWO = ONE.replace("]}", ',{"name":"b","type":"int","default":0}]}')
GUID = "0af3ff9c-db8e-4c9f-a2c2-4b6e6a2b3c4d"
RULES = {"domainRules": [{"name": "encrypt", "kind": "TRANSFORM", "mode": "WRITEREAD"}]}


class Shelf:
    """A registry with a few schemas: answers by id, guid and subject."""

    def __init__(self) -> None:
        self.by_id: dict[int, dict[str, Any]] = {}
        self.latest: dict[str, int] = {}

    def put(self, schema_id: int, text: str, subject: str = "t-value", **more: Any) -> None:
        self.by_id[schema_id] = {"schema": text, "guid": GUID, **more}
        self.latest[subject] = schema_id

    def __call__(self, asked: Asked) -> Answer | None:
        parts = asked.path.partition("?")[0].split("/")[1:]
        match (asked.method, parts):
            case ("GET", ["schemas", "ids", number]):
                found = self.by_id.get(int(number))
            case ("GET", ["schemas", "guids", guid]):
                found = next((one for one in self.by_id.values() if one["guid"] == guid), None)
            case ("GET", ["subjects", subject, "versions", _]) if subject in self.latest:
                latest = self.latest[subject]
                found = self.by_id[latest] | {"subject": subject, "version": 1, "id": latest}
            case ("POST", ["subjects", subject, *_]) if subject in self.latest:
                latest = self.latest[subject]
                found = self.by_id[latest] | {"subject": subject, "version": 1, "id": latest}
            case _:
                found = None
        return Answer(found) if found else Answer({"error_code": 40401, "message": "none"}, 404)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def server(shelf: Shelf) -> Iterator[ScriptedRegistry]:
    with ScriptedRegistry(shelf) as server:
        yield server


@pytest.fixture
def client(server: ScriptedRegistry) -> Iterator[RegistryClient]:
    with RegistryClient(server.url, attempts=1) as client:
        yield client


@pytest.mark.parametrize(
    ("options", "subject"),
    [
        ({}, "t-value"),
        ({"is_key": True}, "t-key"),
        ({"subject": "mine"}, "mine"),
        ({"subject": by_record}, "n.R"),
        ({"subject": by_topic_and_record}, "t-n.R"),
        ({"subject": lambda topic, record, is_key: f"{record}.{topic}.{is_key}"}, "n.R.t.False"),
    ],
)
def test_subjects(
    shelf: Shelf, server: ScriptedRegistry, client: RegistryClient, options: Any, subject: str
) -> None:
    shelf.put(7, ONE, subject)
    encoder = AvroEncoder(client, ONE, **options)
    assert encoder("t", {"a": 1}) == encoder("t", {"a": 1}) == b"\0\0\0\0\7\2"
    assert encoder.schema_id("t") == 7
    assert server.asked == [Asked("POST", f"/subjects/{subject}/versions", {"schema": ONE})]


def test_a_schema_without_a_name_has_no_subject(client: RegistryClient) -> None:
    with pytest.raises(UserError, match="without a name"):
        AvroEncoder(client, '"int"', by_record)("t", 1)


def test_nothing_is_registered_unless_it_may_be(
    shelf: Shelf, server: ScriptedRegistry, client: RegistryClient
) -> None:
    encoder = AvroEncoder(client, ONE, auto_register=False, normalize=True)
    with pytest.raises(RegistryError, match="no version of the subject 't-value'; register it"):
        encoder("t", {"a": 1})
    shelf.put(7, ONE)
    assert encoder("t", {"a": 1}) == b"\0\0\0\0\7\2"
    lookup = Asked("POST", "/subjects/t-value?normalize=true", {"schema": ONE})
    assert server.asked == [lookup, lookup]
    AvroEncoder(client, ONE, normalize=True)("t", {"a": 1})
    assert server.asked[-1].path == "/subjects/t-value/versions?normalize=true"


def test_the_latest_version(shelf: Shelf, server: ScriptedRegistry, client: RegistryClient) -> None:
    """Found again once a minute; while the registry is in trouble the known one stays."""
    now = 0.0
    encoder = AvroEncoder(client, use_latest_version=True)
    encoder._clock = lambda: now
    with pytest.raises(RegistryError, match="'t-value' has no version"):
        encoder("t", {"a": 1})
    shelf.put(7, ONE)
    assert encoder("t", {"a": 1}) == b"\0\0\0\0\7\2"
    shelf.put(8, TWO)
    now = 59
    assert encoder("t", {"a": 1})[4] == 7
    now = 61
    server.script = lambda _: Answer({"error_code": 50001, "message": "store"}, 500)
    asked = len(server.asked)
    assert [encoder("t", {"a": 1})[4] for _ in range(5)] == [7] * 5
    assert len(server.asked) == asked + 1
    server.script = shelf
    now = 67
    assert encoder("t", {"a": 1}) == b"\0\0\0\0\x08\2\0"
    now = 200
    assert encoder.schema_id("t") == 8
    assert all(asked.method == "GET" for asked in server.asked)
    with pytest.raises(UserError, match="no schema"):
        _ = encoder.codec


def test_rules_that_nobody_would_run(shelf: Shelf, client: RegistryClient) -> None:
    """Values written without them would be in plain text where they should be encrypted."""
    shelf.put(7, ONE, ruleSet=RULES)
    with pytest.raises(SerializationError, match="has rules"):
        AvroEncoder(client, use_latest_version=True)("t", {"a": 1})
    shelf.put(7, "message M {}", schemaType="PROTOBUF")
    with pytest.raises(SerializationError, match="of the type PROTOBUF"):
        AvroEncoder(client, use_latest_version=True)("t", {"a": 1})
    with pytest.raises(SerializationError, match="schema 7 is of the type PROTOBUF"):
        AvroDecoder(client).decode(b"\0\0\0\0\7\2")


def test_the_guid_in_a_header(
    shelf: Shelf, server: ScriptedRegistry, client: RegistryClient
) -> None:
    shelf.put(7, ONE)
    encoder = AvroEncoder(client, ONE)
    value, headers = encoder.encode_with_header("t", {"a": 1})
    assert (value, headers) == encoder.encode_with_header("t", {"a": 1})
    assert value == b"\2"
    assert headers == [("__value_schema_id", b"\1" + bytes.fromhex(GUID.replace("-", "")))]
    decoder = AvroDecoder(client)
    assert decoder("t", value, headers) == decoder.decode(value, headers) == {"a": 1}
    assert decoder("t", b"\0\0\0\0\7\2", [("x", b"y"), ("__key_schema_id", b"z")]) == {"a": 1}
    assert decoder("t", value, [("__value_schema_id", b"\0\0\0\0\7")]) == {"a": 1}
    shelf.put(7, ONE, "t-key")
    value, headers = AvroEncoder(client, ONE, is_key=True).encode_with_header("t", {"a": 1})
    assert headers[0][0] == "__key_schema_id"
    assert AvroDecoder(client, is_key=True).decode(value, headers) == {"a": 1}
    assert sum("guids" in asked.path for asked in server.asked) == 1


@pytest.mark.parametrize("header", [b"", b"\1", b"\2" * 17, b"\1" * 18, b"\0\0\0\7"])
def test_headers_that_are_no_ids(client: RegistryClient, header: bytes) -> None:
    with pytest.raises(SerializationError, match="__value_schema_id is no id of a schema"):
        AvroDecoder(client).decode(b"\2", [("__value_schema_id", header)])


def test_references_are_followed(
    shelf: Shelf, server: ScriptedRegistry, client: RegistryClient
) -> None:
    kind = '{"type":"enum","name":"n.K","symbols":["A","B"]}'
    user = '{"type":"record","name":"n.U","fields":[{"name":"k","type":"K"}]}'
    to_kind = {"name": "n.K", "subject": "kinds", "version": 4}
    shelf.put(3, kind, "kinds")
    shelf.put(7, user, references=[to_kind])
    schema = Schema(user, (Reference("n.K", "kinds", 4),))
    data = AvroEncoder(client, schema)("t", {"k": "B"})
    assert data == b"\0\0\0\0\7\2"
    assert server.asked[-1] == Asked(
        "POST", "/subjects/t-value/versions", {"schema": user, "references": [to_kind]}
    )
    with RegistryClient(server.url) as fresh:
        assert AvroDecoder(fresh).decode(data) == {"k": "B"}
        reader = AvroCodec('{"type":"record","name":"n.U","fields":[]}')
        assert AvroDecoder(fresh, reader).decode(data) == {}
        assert AvroDecoder(fresh, schema).decode(data) == {"k": "B"}
        latest = AvroEncoder(fresh, use_latest_version=True)
        assert latest("t", {"k": "B"}) == data


def test_a_reader_gives_every_version_as_its_own(shelf: Shelf, client: RegistryClient) -> None:
    shelf.put(7, ONE)
    shelf.put(8, TWO)
    decoder = AvroDecoder(client, TWO)
    assert decoder.decode(b"\0\0\0\0\7\2") == {"a": 1, "b": 0}
    assert decoder.decode(b"\0\0\0\0\x08\2\4") == {"a": 1, "b": 2}
    assert AvroDecoder(client, json.loads(ONE)).decode(b"\0\0\0\0\x08\2\4") == {"a": 1}
    with pytest.raises(SerializationError, match=r"as n\.R is not read as n\.S"):
        AvroDecoder(client, ONE.replace('"R"', '"S"')).decode(b"\0\0\0\0\7\2")


def test_what_is_kept_is_bounded(shelf: Shelf, client: RegistryClient) -> None:
    for number in range(1, 1011):
        shelf.put(number, '"int"')
    decoder = AvroDecoder(client)
    for number in range(1, 1011):
        assert decoder.decode(b"\0" + number.to_bytes(4, "big") + b"\2") == 1
    assert len(decoder._codecs) == 1000
    encoder = AvroEncoder(client, '"int"', "t-value")
    for number in range(10_010):
        encoder(str(number), 1)
    assert len(encoder._known) < 10_001


def test_an_encoder_needs_a_schema(client: RegistryClient) -> None:
    with pytest.raises(UserError, match="needs a schema"):
        AvroEncoder(client)
