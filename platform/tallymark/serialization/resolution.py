"""Values written with one schema, read as another: Avro's schema resolution.

fastavro resolves; what a reader's defaults are it leaves as the JSON of the schema says them, so
they are turned into values here, once.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import fastavro
import fastavro.validation

from tallymark.serialization.codec import AvroCodec, Decoding
from tallymark.serialization.errors import SerializationError

_NONE: Final = object()
_NUMBERS: Final = ("int", "long", "float", "double")


class Resolution(Decoding):
    """Decodes what ``writer`` wrote into values of ``reader``'s schema: its fields, by name or
    alias, with its defaults and its types. Thread-safe.

    A default that is no value of its field is none. ``tags``: where the writer had a union, values
    of named types (records, enums, fixed) come as ``(name, value)``, by the reader's names. Raises
    SerializationError where the two schemas have different names, and the reader's no alias for
    the other one.
    """

    def __init__(self, writer: AvroCodec, reader: AvroCodec, *, tags: bool = False) -> None:
        _check_names(writer, reader)
        by_fastavro = _ByFastavro(writer, reader, tags)
        super().__init__(_checked(writer, by_fastavro) if writer.recursive else by_fastavro)


def _check_names(writer: AvroCodec, reader: AvroCodec) -> None:
    """fastavro would refuse each value, with both schemas written out in the error."""
    if not (writer.name and reader.name):
        return
    aliases = reader.parsed.get("aliases", ())
    if _simple(writer.name) not in {_simple(reader.name), *map(_simple, aliases)}:
        raise SerializationError(
            f"what was written as {writer.name} is not read as {reader.name}; give the reader's "
            f"schema the alias {writer.name}, or leave out the reader"
        )


def _simple(name: str) -> str:
    return name.rpartition(".")[2]


def _checked(writer: AvroCodec, read: Callable[[io.BytesIO], Any]) -> Callable[[io.BytesIO], Any]:
    """For recursive schemas: the writer's codec decodes first and raises RecursionError where the
    data is so deep that fastavro would end the process (see :mod:`.inspection`)."""

    def read_twice(stream: io.BytesIO) -> Any:
        start = stream.tell()
        writer.read(stream)
        stream.seek(start)
        return read(stream)

    return read_twice


class _ByFastavro:
    def __init__(self, writer: AvroCodec, reader: AvroCodec, tags: bool) -> None:
        self._tags = tags
        self._writer, _ = copy.deepcopy((writer.parsed, writer.known))
        self._reader, known = copy.deepcopy((reader.parsed, reader.known))
        _apply_aliases(self._writer, self._reader)
        # A list or a dict would be the same object in every value.
        self._copied = False
        fields = [field for record in _records(self._reader) for field in record["fields"]]
        with_default = [field for field in fields if "default" in field]
        for field, default in [(field, _default(field, known)) for field in with_default]:
            if default is _NONE:
                del field["default"]  # what needs it is refused, as where there is none
            else:
                field["default"] = default
                self._copied |= isinstance(default, list | dict)
        _narrow_first(self._reader)

    def __call__(self, stream: io.BytesIO) -> Any:
        value = fastavro.schemaless_reader(
            stream, self._writer, self._reader, return_named_type=self._tags
        )
        return copy.deepcopy(value) if self._copied else value


def _apply_aliases(writer: Any, reader: Any) -> None:
    """Give the writer's fields the names that the reader has for them, as Avro says and Java does:
    only in records of the same full name, or of an alias of it. fastavro looks for the same name
    first, and mixes up fields where one took the name that another had."""
    names: dict[str, dict[str, str]] = {}
    for record in _records(reader):
        of_record: dict[str, str] = {}
        for field in record["fields"]:
            of_record |= dict.fromkeys(field.pop("aliases", ()), field["name"])
        for name in (record["name"], *_full_aliases(record)):
            names[name] = of_record
    for record in _records(writer):
        of_record = names.get(record["name"], {})
        own = [field["name"] for field in record["fields"]]
        for field, name in zip(record["fields"], _renamed(own, of_record), strict=True):
            field["name"] = name


def _full_aliases(record: Mapping[str, Any]) -> Iterator[str]:
    """Full names: an alias without a namespace is in that of the record."""
    namespace = record["name"].rpartition(".")[0]
    for alias in record.get("aliases", ()):
        yield alias if "." in alias or not namespace else f"{namespace}.{alias}"


def _renamed(own: list[str], names: Mapping[str, str]) -> list[str]:
    """The new name of each field; those keep their own which would be two of one name."""
    new = [names.get(name, name) for name in own]
    while len(set(new)) < len(new):
        new = [
            before if new.count(after) > 1 else after
            for before, after in zip(own, new, strict=True)
        ]
    return new


def _narrow_first(node: Any) -> None:
    """Of the numbers in a union the narrow types first, since fastavro takes the first branch that
    fits: a long would become a double where there is a long, too. Java looks for the same type."""
    if isinstance(node, list):
        places = [place for place, branch in enumerate(node) if _kind(branch) in _NUMBERS]
        numbers = sorted((node[place] for place in places), key=_narrowness)
        for place, branch in zip(places, numbers, strict=True):
            node[place] = branch
        for branch in node:
            _narrow_first(branch)
    elif isinstance(node, dict):
        for field in node.get("fields", ()):
            _narrow_first(field["type"])
        for key in ("items", "values", "type"):
            _narrow_first(node.get(key))


def _kind(branch: Any) -> Any:
    kind = branch["type"] if isinstance(branch, dict) else branch
    return kind if isinstance(kind, str) else ""


def _narrowness(branch: Any) -> int:
    return _NUMBERS.index(_kind(branch))


def _records(node: Any) -> Iterator[dict[str, Any]]:
    """All records that are written out in a schema."""
    if isinstance(node, list):
        for branch in node:
            yield from _records(branch)
    elif isinstance(node, dict):
        if "fields" in node and node["type"] in ("record", "error"):
            yield node
            for field in node["fields"]:
                yield from _records(field["type"])
        for key in ("items", "values", "type"):
            yield from _records(node.get(key))


def _default(field: Mapping[str, Any], known: Mapping[str, Any]) -> Any:
    """The default of a field as decoding would give it: bytes, dates, records with all fields.
    ``_NONE`` if it is no value of its type: Java takes any text as the default of an enum."""
    try:
        value = _from_json(field["default"], field["type"], known)
        # A record around it tells fastavro the named types.
        schema: Any = {
            "type": "record",
            "name": "tallymark.Default",
            "fields": [{"name": "value", "type": field["type"]}],
            "__fastavro_parsed": True,
            "__named_schemas": known,
        }
        stream = io.BytesIO()
        fastavro.validation.validate({"value": value}, schema)
        fastavro.schemaless_writer(stream, schema, {"value": value})
        stream.seek(0)
        found: Any = fastavro.schemaless_reader(stream, schema, None)
        return found["value"]
    # Validation, writing and logical types each raise what they like.
    except Exception:
        return _NONE


def _from_json(json: Any, kind: Any, known: Mapping[str, Any]) -> Any:
    """A value from JSON, as Avro writes defaults: bytes are text of the characters 0 to 255."""
    if isinstance(kind, list):
        return _of_some_branch(json, kind, known)
    if isinstance(kind, str):
        if kind in known:
            return _from_json(json, known[kind], known)
        if kind == "bytes":
            return json.encode("latin-1")
        return float(json) if kind in ("float", "double") and json is not None else json
    name = kind["type"]
    if name in ("record", "error"):
        return {
            field["name"]: _from_json(
                json[field["name"]] if field["name"] in json else field["default"],
                field["type"],
                known,
            )
            for field in kind["fields"]
        }
    if name == "fixed":
        return json.encode("latin-1")
    if name == "array":
        return [_from_json(item, kind["items"], known) for item in json]
    if name == "map":
        return {key: _from_json(item, kind["values"], known) for key, item in json.items()}
    return json if name == "enum" else _from_json(json, name, known)


def _of_some_branch(json: Any, branches: list[Any], known: Mapping[str, Any]) -> Any:
    for branch in branches:
        try:
            value = _from_json(json, branch, known)
            holder: Any = {"type": "record", "name": "tallymark.Branch", "fields": []}
            holder["fields"].append({"name": "value", "type": branch})
            holder |= {"__fastavro_parsed": True, "__named_schemas": known}
            fastavro.validation.validate({"value": value}, holder)
        # A value of another branch fails in any way.
        except Exception:
            continue
        return value
    raise ValueError("the default is of no branch")
