"""Many nodes in one request: ZooKeeper's multiRead (3.6 and later), which kazoo does not have.

A cluster of ten thousand partitions keeps as many state nodes; read one by one, each costs two
system calls and two thread switches on our side. The request, and the response, are::

    ( type i32 = 4 (getData) | done u8 = 0 | error i32 = -1 | path string | watch u8 = 0 ) ...
      type i32 = -1          | done u8 = 1 | error i32 = -1

    ( type i32 = 4 | done u8 = 0 | error i32 | data buffer | stat 68 bytes
    | type i32 = -1 | done u8 = 0 | error i32 | error i32 ) ...
      type i32 = -1 | done u8 = 1 | error i32

Strings and buffers follow their length, an i32.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kazoo.protocol.states import ZnodeStat

NO_NODE: Final = -101
"""ZooKeeper's error code of a node that is not there."""

_MULTI_READ: Final = 22
_GET_DATA: Final = 4
_HEAD: Final = struct.Struct("!iBi")
_INT: Final = struct.Struct("!i")
_STAT: Final = struct.Struct("!qqqqiiiqiiq")
_ITEM_HEAD: Final = _HEAD.pack(_GET_DATA, 0, -1)
_END: Final = _HEAD.pack(-1, 1, -1)


class MultiRead(NamedTuple):
    """The request, in the form of kazoo's own. The answer of each path is (data, stat), or the
    error's code."""

    paths: Sequence[str]

    @property
    def type(self) -> int:
        """The operation's number in the request header."""
        return _MULTI_READ

    def serialize(self) -> bytearray:
        """The body of the request."""
        body = bytearray()
        for path in self.paths:
            text = path.encode()
            body += _ITEM_HEAD + _INT.pack(len(text)) + text + b"\0"
        return body + _END

    @staticmethod
    def deserialize(data: Any, offset: int) -> list[tuple[bytes, ZnodeStat] | int]:
        """The answers, in the order of the paths."""
        answers: list[tuple[bytes, ZnodeStat] | int] = []
        while True:
            kind, done, _ = _HEAD.unpack_from(data, offset)
            offset += _HEAD.size
            if done:
                return answers
            if kind == _GET_DATA:
                (length,) = _INT.unpack_from(data, offset)
                offset += _INT.size
                content = bytes(data[offset : offset + max(0, length)])
                offset += max(0, length)
                answers.append((content, ZnodeStat._make(_STAT.unpack_from(data, offset))))
                offset += _STAT.size
            else:
                answers.append(int(_INT.unpack_from(data, offset)[0]))
                offset += _INT.size
