"""Log records as JSON, one object a line::

    {"time": "2026-01-31T12:00:00.123Z", "level": "INFO", "logger":
     "tallymark.broker.leadership.apply_image", "message": "leader epoch started partition=t-0
     epoch=3", "partition": "t-0", "epoch": 3}

Each ``name=%s`` of a log call is also a field of its own, with the argument as its value: no reader
has to parse the message.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from typing import Any, Final

from pythonjsonlogger.json import JsonFormatter

from tallymark.processes.log_rates import shortened
from tallymark.untrusted import escaped_json

_CONVERSION: Final = re.compile(
    r"%%|(?:(?<![\w.-])(?P<name>[a-z_][a-z0-9_.]*)=)?%[-#0 +]*\d*(?:\.\d+)?[diouxXeEfFgGcrsa]"
)
_OWN: Final = ("time", "level", "logger", "message", "error")


class JsonLines(JsonFormatter):
    """The formatter. A field with the name of one of ours gets an underscore at its end."""

    def __init__(self) -> None:
        super().__init__(json_default=str, json_ensure_ascii=False)

    def format(self, record: logging.LogRecord) -> str:
        """The line; what does not print is ``\\uXXXX`` in it."""
        return escaped_json(super().format(record))

    def add_fields(
        self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]
    ) -> None:
        """The fields of the line, in this order."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        log_data["time"] = f"{moment}.{int(record.msecs):03d}Z"
        log_data["level"] = record.levelname
        log_data["logger"] = record.name
        log_data["message"] = record.getMessage()
        for name, value in _fields(record):
            log_data[f"{name}_" if name in _OWN else name] = value
        if record.exc_info:
            log_data["error"] = shortened(str(self.formatException(record.exc_info)))


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    """``name=%s`` of the call and the argument that belongs to it."""
    arguments = record.args
    if not isinstance(record.msg, str) or not isinstance(arguments, tuple):
        return
    conversions = (found for found in _CONVERSION.finditer(record.msg) if found[0] != "%%")
    for found, value in zip(conversions, arguments, strict=False):
        if found["name"] is not None:
            plain = value is None or isinstance(value, bool | int | float | str)
            yield found["name"], value if plain else str(value)
