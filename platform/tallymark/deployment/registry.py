"""The shape of the schema registry's settings: where it listens, who may log in, what it stores."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PrivateAttr

from tallymark.deployment.parts import LOOPBACK, Part, Port


class RegistryTokens(Part):
    """JSON Web Tokens of an issuer (OpenID Connect) with which clients may log in at the registry.
    Needs the extra ``oauth``, and ``access_file``, whose roles the tokens name."""

    jwks: str = ""
    """Where the issuer's public keys are: ``https://...`` or ``file:///...``; empty: no such tokens
    are taken."""
    issuer: str = ""
    """What a token must have as ``iss``; empty: anything."""
    audience: tuple[str, ...] = ()
    """One of these must be in a token's ``aud``; empty: any token of the issuer is taken."""
    user_claim: str = "sub"
    """The claim that names the user."""
    roles_claim: str = "roles"
    """The claim that lists roles; dots lead into objects (``realm_access.roles``)."""
    leeway_s: float = Field(default=30.0, ge=0, le=600)
    """How far the clocks of the issuer and the registry may be apart, in seconds."""
    refresh_s: float = Field(default=300.0, ge=10)
    """How often the keys are read again, in seconds."""


class RegistrySettings(Part):
    """The schema registry."""

    host: str = LOOPBACK
    """Where it listens."""
    port: Port = 8081
    """Its port."""
    advertised_host: str = ""
    """What clients use; empty: the same as ``host``."""
    embedded: bool = True
    """Whether ``tallymark up`` starts it."""
    allow_plaintext: bool = False
    """Whether other machines may reach it without TLS or without a log-in."""
    access_file: str = ""
    """Users, tokens and their rights on subjects, as ``tallymark registry-access`` writes them.
    With it every request needs a log-in, and ``users_file`` of ``[security]`` is not used here."""
    tokens: RegistryTokens = RegistryTokens()
    """Log-ins by tokens of an issuer."""
    store: str = Field(default="", repr=False)
    """SQLAlchemy address; empty: SQLite in ``data_dir/registry.db``. ``${NAME}`` is replaced by a
    variable of the environment, ``${file:PATH}`` by the first line of a file."""
    response_profile: Literal[7, 8] = 7
    """Whose answers it gives: 7 those of the ecosystem's servers up to 7.4, which every client
    reads; 8 those of 8.2 and later (``schemaType``, ``guid``, ``ts``, ``deleted``, code 40901)."""
    _scheme: str = PrivateAttr("http")

    @property
    def url(self) -> str:
        return f"{self._scheme}://{self.advertised_host or self.host}:{self.port}"

    def secured(self) -> None:
        """It speaks TLS, as ``[security]`` says."""
        self._scheme = "https"
