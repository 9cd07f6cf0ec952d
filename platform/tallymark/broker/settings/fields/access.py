"""How clients log in, what they may do, and where is recorded what administrators did."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from tallymark.broker.settings.config_types import LONG_MAX, list_of
from tallymark.broker.settings.fields.part import SettingsPart
from tallymark.net.sasl.mechanisms import ALL_MECHANISMS


def _mechanisms(text: str) -> str:
    list_of(*ALL_MECHANISMS)(text)
    return text


class AccessFields(SettingsPart):
    """SASL, access-control lists, and the trail of administrators."""

    sasl_enabled_mechanisms: Annotated[str, AfterValidator(_mechanisms)] = (
        "SCRAM-SHA-256,SCRAM-SHA-512"
    )
    """How clients of SASL listeners may log in: ``SCRAM-SHA-256``, ``SCRAM-SHA-512``, ``PLAIN``,
    which check the same users (``tallymark users``), and ``OAUTHBEARER``: a JSON Web Token (JWT)
    names the user."""

    sasl_oauthbearer_jwks_endpoint_url: str = ""
    """Where the public keys are that tokens are checked with, a JSON Web Key Set:
    ``https://...`` or ``file:///...`` (``http`` on this machine alone). They are read again from
    time to time, and when a token names a key that is not known, at most once in 10 seconds."""

    sasl_oauthbearer_jwks_endpoint_refresh_ms: Annotated[int, Field(ge=1000, le=86_400_000)] = (
        3_600_000
    )
    """How often the keys are read again."""

    sasl_oauthbearer_expected_audience: str = ""
    """The audience that tokens must have (``aud``): one of these, comma separated. Empty: any, so a
    token of the issuer for another service can log in, too."""

    sasl_oauthbearer_expected_issuer: str = ""
    """The issuer that tokens must have (``iss``); empty: any that signs with the keys."""

    sasl_oauthbearer_sub_claim_name: Annotated[str, Field(min_length=1)] = "sub"
    """The claim with the user: ``alice`` there is ``User:alice``."""

    sasl_oauthbearer_scope_claim_name: Annotated[str, Field(min_length=1)] = "scope"
    """The claim that lists scopes: a text with blanks, or a list."""

    sasl_oauthbearer_required_scope: str = ""
    """A scope that tokens must have; empty: none. (Not one of Kafka's settings.)"""

    sasl_oauthbearer_clock_skew_seconds: Annotated[int, Field(ge=0, le=3600)] = 30
    """How far the clocks of the issuer and the broker may be apart."""

    connections_max_reauth_ms: Annotated[int, Field(ge=0, le=LONG_MAX)] = 0
    """Clients have to log in again on their open connection before so long (KIP-368); it is closed
    otherwise. A token holds until it expires, and no longer than this. 0: the other mechanisms hold
    for as long as the connection is open."""

    sasl_server_max_receive_size: Annotated[int, Field(ge=1024, le=2**31 - 1)] = 524_288
    """The largest request of a client that has not logged in yet."""

    connection_failed_authentication_delay_ms: Annotated[int, Field(ge=0, le=60_000)] = 100
    """A client whose log-in failed gets the error so much later."""

    authorizer_enable: bool = False
    """Whether access-control lists are in force (``tallymark acls``). Once they are, a user
    may do only what an entry allows."""

    super_users: str = ""
    """Users that may do everything, whatever the lists say:
    ``User:alice;User:CN=admin,O=Example``."""

    allow_everyone_if_no_acl_found: bool = False
    """Whether all users may use a resource that has no entry."""

    admin_trail_file: str = ""
    """The file with every creation, change and deletion of topics, configs, users, quotas,
    access-control lists, groups and records, by which user, from where, and with which result: one
    JSON object a line. Empty: ``admin-trail.jsonl`` in the first of ``log.dirs``; ``none``:
    nowhere."""

    admin_trail_file_max_bytes: Annotated[int, Field(ge=4096, le=2**40)] = 16_777_216
    """The file is renamed to ``.1`` at this size, that to ``.2``, and so on."""

    admin_trail_files_kept: Annotated[int, Field(ge=0, le=1000)] = 10
    """How many renamed ones are kept."""

    admin_trail_topic: str = ""
    """A topic that gets the same, each broker in a partition that it leads; empty: none. Where it
    is not there it is made with up to three replicas, and keeps a year."""
