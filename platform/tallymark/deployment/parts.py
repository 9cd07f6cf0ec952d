"""The base class of all parts of the settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Port = Annotated[int, Field(ge=0, le=65535)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,48}$")]
LOOPBACK = "127.0.0.1"


class Part(BaseModel):
    """One table of the settings file. The docstring below a field is its description: code and
    docs/settings.md say the same."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
