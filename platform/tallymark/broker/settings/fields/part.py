"""What the parts of a broker's settings have in common: Kafka's names, kinds of numbers, and that
no secret is printed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from tallymark.broker.settings.config_types import LONG_MAX
from tallymark.broker.settings.names import is_secret, kafka_name

Positive = Annotated[int, Field(ge=1, le=LONG_MAX)]
Limit = Annotated[int, Field(ge=-1, le=LONG_MAX)]
"""-1: there is no limit."""
Port = Annotated[int, Field(ge=0, le=65535)]


class SettingsPart(BaseModel):
    """Some fields of the settings. A field ``log_segment_bytes`` is the setting
    ``log.segment.bytes``; its docstring is its documentation."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=kafka_name,
        populate_by_name=True,
        use_attribute_docstrings=True,
        defer_build=True,  # no part is made alone: it needs no validator
    )

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """The fields without secrets, for every form of printing, in debuggers and tracebacks
        too."""
        for name, value in super().__repr_args__():
            yield name, "(hidden)" if value and name and is_secret(name) else value
