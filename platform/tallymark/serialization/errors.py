"""What serialization raises, beside ConnectError and TimedOutError of the client."""

from __future__ import annotations

from tallymark.errors import TallymarkError


class SerializationError(TallymarkError):
    """A value that does not fit its schema, bytes that do not decode, or an impossible schema."""


class RegistryError(TallymarkError):
    """The registry answered with an error: HTTP ``status``, its own ``code``, ``message``."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(f"the schema registry answered {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
