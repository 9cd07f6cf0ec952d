"""How a message is declared: one frozen dataclass for all its versions.

A field says its wire type, the versions it is in, and what it means::

    @wire
    class ProduceRequestPartition(Struct):
        index: int = f(Int32, about="Number of the partition.")
        records: Buffer | None = f(Records, nullable_since=0, about="Record batches.")

The order of the fields is their order on the wire (KIP-482 calls the grammar "the Kafka message
format"). Tagged fields are written after all others, by tag. :mod:`tallymark.protocol.readers` and
:mod:`tallymark.protocol.writers` turn a declaration and a version into code.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar, cast, dataclass_transform

from tallymark.protocol.api import ApiKey

T = TypeVar("T")
Response_co = TypeVar("Response_co", bound="Message", covariant=True)

Buffer: TypeAlias = bytes | bytearray | memoryview
"""What a bytes or records field is given; decoding yields a ``memoryview`` of the frame."""

ZERO_UUID: Final = uuid.UUID(int=0)
_WIRE: Final = "wire"
_UNSET: Final[Any] = object()


class Kind(Generic[T]):
    """A wire type whose Python side is ``T``."""

    __slots__ = ("default", "name")

    def __init__(self, name: str, default: T) -> None:
        self.name = name
        self.default = default

    def __repr__(self) -> str:
        return self.name


class Fixed(Kind[T]):
    """A type of fixed size, big-endian, read and written by ``struct`` format ``code``."""

    __slots__ = ("code",)

    def __init__(self, name: str, code: str, default: T) -> None:
        super().__init__(name, default)
        self.code = code


class Array(Kind[Sequence[T]]):
    """A counted sequence of ``element``; decodes to a tuple, encodes from any sequence."""

    __slots__ = ("element",)

    def __init__(self, element: Kind[T] | type[T]) -> None:
        super().__init__(f"[]{element}", ())
        self.element = element


Int8: Final = Fixed[int]("int8", "b", 0)
Int16: Final = Fixed[int]("int16", "h", 0)
Int32: Final = Fixed[int]("int32", "i", 0)
Int64: Final = Fixed[int]("int64", "q", 0)
Float64: Final = Fixed[float]("float64", "d", 0.0)
Bool: Final = Fixed[bool]("bool", "?", False)
Uuid: Final = Kind[uuid.UUID]("uuid", ZERO_UUID)
String: Final = Kind[str]("string", "")
Bytes: Final = Kind[Buffer]("bytes", b"")
Records: Final = Kind[Buffer]("records", cast(Buffer, None))


@dataclass(frozen=True, slots=True)
class WireField:
    """What the wire knows about one dataclass field. ``index`` is its place in the class."""

    name: str
    index: int
    kind: Any
    default: Any
    about: str
    since: int
    until: int | None
    nullable_since: int | None
    tag: int | None

    def present(self, version: int) -> bool:
        """Whether messages of ``version`` carry the field."""
        return version >= self.since and (self.until is None or version <= self.until)

    def nullable(self, version: int) -> bool:
        """Whether null is allowed in ``version``."""
        return self.nullable_since is not None and version >= self.nullable_since


def f(
    kind: Kind[T] | type[T],
    *,
    about: str,
    since: int = 0,
    until: int | None = None,
    nullable_since: int | None = None,
    tag: int | None = None,
    default: T | None = _UNSET,
) -> T:
    """Declare a field: in versions ``since`` to ``until`` (inclusive, None: all later ones).

    ``nullable_since`` is the first version in which it may be null, ``tag`` makes it a tagged
    field (KIP-482: left out while it equals its default), ``default`` is what an absent field
    has; without it zero, "", (), or a struct of defaults.
    """
    if default is _UNSET:
        default = kind() if isinstance(kind, type) else kind.default
    facts = (kind, default, about, since, until, nullable_since, tag)
    field: Any = dataclasses.field(default=default, metadata={_WIRE: facts})
    return cast(T, field)


@dataclass_transform(frozen_default=True)
def wire(cls: type[T]) -> type[T]:
    """Make a struct of ``cls``: a frozen dataclass with slots."""
    return dataclass(frozen=True, slots=True)(cls)


class Struct:
    """Base of everything that has wire fields; every subclass is decorated with :func:`wire`."""

    __slots__ = ()


class Message(Struct):
    """A request or a response: a struct that travels by itself."""

    __slots__ = ()
    api_key: ClassVar[ApiKey]
    valid_versions: ClassVar[tuple[int, int]]
    """Lowest and highest version the declaration covers, inclusive."""
    flexible_from: ClassVar[int]
    """First version with compact lengths and tagged fields (KIP-482)."""


class Request(Message, Generic[Response_co]):
    """A request; the parameter is the class of its response."""

    __slots__ = ()


def wire_fields(cls: type[Struct]) -> Iterator[WireField]:
    """The fields of ``cls`` in wire order, over all versions."""
    for index, field in enumerate(dataclasses.fields(cast(Any, cls))):
        kind, default, about, since, until, nullable_since, tag = field.metadata[_WIRE]
        yield WireField(field.name, index, kind, default, about, since, until, nullable_since, tag)
