"""Names of subjects, with the context they are in (``:.context:subject``)."""

from __future__ import annotations

from typing import Final, NamedTuple

from tallymark_schema_registry import errors

DEFAULT_CONTEXT: Final = "."
GLOBAL_CONTEXT: Final = ".__GLOBAL"
"""Its level and mode hold for every context that has none of its own."""
MAX_NAME: Final = 1000
"""Characters of a subject's name, its context included."""
MAX_BYTES: Final = 2_500
"""The same in UTF-8: a key of PostgreSQL has some 2,700 bytes at most."""
_SHORT: Final = MAX_BYTES // 4 - 1
"""Characters that are never too many."""


class Subject(NamedTuple):
    """``name`` "" is not a subject: it is the place of the context's own level and mode."""

    context: str
    name: str

    @property
    def qualified(self) -> str:
        """As clients write it: ``name`` in the default context, else ``:.context:name``."""
        if self.context == DEFAULT_CONTEXT:
            return self.name
        return f":{self.context}:{self.name}"

    @property
    def context_place(self) -> Subject:
        """Where the context's own level and mode are kept."""
        return Subject(self.context, "")


GLOBAL: Final = Subject(GLOBAL_CONTEXT, "")


def parse_subject(text: str, context: str = DEFAULT_CONTEXT) -> Subject:
    """The subject that ``text`` names. ``context`` is that of a text which names none: of the path
    (``/contexts/{c}/...``), or of the schema that refers to the subject.

    Raises the 42208 error where it is neither a name nor ``:.context:name``."""
    if not text.isprintable() or len(text) > MAX_NAME:
        raise errors.invalid_subject(text)
    if not text.startswith(":"):
        found = Subject(context, text)
    else:
        named, colon, name = text[1:].partition(":")
        if not colon or not named.startswith("."):
            raise errors.invalid_subject(text)
        found = Subject(named, name)
    if len(found.context) + len(found.name) > _SHORT and _size(found) > MAX_BYTES:
        raise errors.invalid_subject(text)
    return found


def _size(subject: Subject) -> int:
    return len(subject.qualified.encode(errors="surrogatepass"))


def check_registrable(subject: Subject) -> None:
    """Raises the 42208 error where no version can be registered under this name."""
    if not subject.name or subject.context == GLOBAL_CONTEXT:
        raise errors.invalid_subject(subject.qualified)
