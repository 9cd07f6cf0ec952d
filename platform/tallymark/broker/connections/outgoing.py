"""How this broker connects to others, from its settings: which of their listeners, TLS, its user.

Keystore and truststore are those of the broker's own listeners, as in Kafka: brokers of a cluster
trust the same authorities. The password is in memory only; no error and no repr has it.
"""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.listeners import Listener
from tallymark.errors import UserError
from tallymark.net.sasl.mechanisms import SaslCredentials
from tallymark.net.tls.contexts import client_context

log: Final = logging.getLogger(__name__)
_PLAINTEXT: Final = Listener("PLAINTEXT", "PLAINTEXT", "", 0)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """``listener``: other brokers are connected to at their listener of the same name, which must
    have the same security protocol. ``tls`` None: plain text; ``sasl`` None: no user is known."""

    listener: Listener = _PLAINTEXT
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    sasl: SaslCredentials | None = None


def outgoing(settings: BrokerSettings) -> Outgoing:
    """The settings as what a connection needs. UserError names a file that cannot be used."""
    listener = settings.inter_broker_listener()
    tls = sasl = None
    if listener.tls:
        truststore, keystore = settings.ssl_truststore_location, settings.ssl_keystore_location
        tls = client_context(
            Path(truststore) if truststore else None,
            Path(keystore) if keystore else None,
            settings.ssl_key_password,
            check_hostname=bool(settings.ssl_endpoint_identification_algorithm),
        )
    if listener.sasl and settings.inter_broker_user:
        sasl = SaslCredentials(
            settings.inter_broker_user,
            settings.inter_broker_password,
            settings.sasl_mechanism_inter_broker_protocol,
        )
    return Outgoing(listener, tls, sasl)


def read_again(settings: BrokerSettings, before: Outgoing) -> Outgoing:
    """As :func:`outgoing`, for new connections after a renewal of certificates. A file that cannot
    be used is logged, and what was there ``before`` stays."""
    try:
        renewed = outgoing(settings)
    except UserError as error:
        log.error("certificates for connections to brokers stay as they were: %s", error)
        return before
    if renewed.tls is not None:
        log.info("certificates for connections to brokers read again")
    return renewed
