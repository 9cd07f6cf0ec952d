"""The options of ``valueFormat=avro``, and the reader's schema, fetched once on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tallymark.errors import TallymarkError, UserError
from tallymark_spark_jobs.engine.files import here

if TYPE_CHECKING:
    from tallymark.serialization import RegistryClient
    from tallymark_spark_jobs.source.avro.reader_schema import ReaderSchema

FORMAT: Final = "valueFormat"
SCHEMA: Final = "avro.schema"
SUBJECT: Final = "avro.subject"
VERSION: Final = "avro.version"
MODE: Final = "avro.mode"
REGISTRY: Final = "schema.registry.url"
_LOGIN: Final = {
    "schema.registry.username": "username",
    "schema.registry.password": "password",
    "schema.registry.token": "token",
    "schema.registry.ssl.truststore.location": "ssl_truststore_location",
}
AVRO_OPTIONS: Final = (FORMAT, SCHEMA, SUBJECT, VERSION, MODE, REGISTRY, *_LOGIN)


@dataclass(frozen=True, slots=True)
class AvroSettings:
    """How values are decoded. ``text`` is the reader's schema, or ``subject`` and ``version`` name
    it (0: the latest; no subject: that of the one topic). ``permissive``: what cannot be decoded is
    null, and further columns say why. ``login``: of the registry's client. ``fixed``: the reader's
    schema itself, once the driver has asked for it, so that all tasks decode with the same one."""

    registry: str
    text: str = ""
    subject: str = ""
    version: int = 0
    permissive: bool = False
    login: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    fixed: ReaderSchema | None = None

    def client(self) -> RegistryClient:
        """A client of the registry, to be closed."""
        from tallymark.serialization import RegistryClient

        login = dict(self.login)
        if path := login.get("ssl_truststore_location"):
            login["ssl_truststore_location"] = here(path)
        return RegistryClient(self.registry, **login)  # type: ignore[arg-type]

    def reader(self, topics: tuple[str, ...]) -> ReaderSchema:
        """The reader's schema. Raises UserError where none is named, or the registry has none."""
        from tallymark_spark_jobs.source.avro.reader_schema import ReaderSchema

        if self.fixed is not None:
            return self.fixed
        if self.text:
            return ReaderSchema(self.text)
        subject = self.subject
        if not subject:
            if len(topics) != 1:
                raise UserError(
                    f"{FORMAT}=avro needs one schema to read the values of several topics with",
                    f"give {SUBJECT} or {SCHEMA}",
                )
            subject = f"{topics[0]}-value"
        return self._asked(subject)

    def _asked(self, subject: str) -> ReaderSchema:
        from tallymark_spark_jobs.source.avro.reader_schema import ReaderSchema

        with self.client() as registry:
            try:
                if self.version:
                    found = registry.version(subject, self.version)
                else:
                    found = registry.latest(subject)
                if found is not None:
                    says = f"version {found.version} of {subject}"
                    return ReaderSchema(found.text, registry.reference_texts(found.schema), says)
            except (TallymarkError, OSError) as error:
                raise UserError(f"the schema of {subject} cannot be had: {error}") from error
        version = f"version {self.version}" if self.version else "version"
        raise UserError(
            f"the registry at {self.registry} has no {version} of the subject {subject}",
            f"give {SUBJECT}, or the reader's schema itself as {SCHEMA}",
        )


def parse_avro(options: Mapping[str, str]) -> AvroSettings | None:
    """From options with names in lower case; None: values stay bytes. UserError names the one that
    is wrong."""
    word = options.get(FORMAT.lower(), "bytes").strip().lower()
    if word not in ("bytes", "avro"):
        raise UserError(f"the option {FORMAT} is {word!r}", "give bytes or avro")
    if word == "bytes":
        for name in AVRO_OPTIONS[1:]:
            if name.lower() in options:
                raise UserError(f"the option {name} needs {FORMAT}=avro", "give that, too")
        return None
    if not options.get(REGISTRY, "").strip():
        raise UserError(f"{FORMAT}=avro needs the option {REGISTRY}", "give http://HOST:PORT[,...]")
    if options.get("mode", "records").strip().lower() != "records":
        raise UserError(f"{FORMAT}=avro is for mode=records", "leave one of them out")
    text, subject = options.get(SCHEMA, "").strip(), options.get(SUBJECT, "").strip()
    if text and (subject or VERSION in options):
        raise UserError(f"{SCHEMA} and {SUBJECT} exclude each other", "give one of them")
    return AvroSettings(
        options[REGISTRY].strip(),
        text,
        subject,
        _version(options.get(VERSION, "latest").strip().lower()),
        _permissive(options.get(MODE, "failfast").strip().lower()),
        {theirs: options[name] for name, theirs in _LOGIN.items() if options.get(name)},
    )


def _version(word: str) -> int:
    if word == "latest":
        return 0
    if word.isdecimal() and int(word) > 0:
        return int(word)
    raise UserError(f"the option {VERSION} is {word!r}", "give latest or a number from 1 up")


def _permissive(word: str) -> bool:
    if word not in ("failfast", "permissive"):
        raise UserError(f"the option {MODE} is {word!r}", "give FAILFAST or PERMISSIVE")
    return word == "permissive"
