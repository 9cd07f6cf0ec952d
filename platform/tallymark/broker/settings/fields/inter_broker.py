"""How this broker connects to the other brokers of its cluster, and logs in there."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator

from tallymark.broker.settings.fields.listening import ListenerFields
from tallymark.broker.settings.listeners import Listener
from tallymark.net.sasl.mechanisms import SCRAM_SHA_512


def _upper(text: object) -> object:
    return text.strip().upper() if isinstance(text, str) else text


class InterBrokerFields(ListenerFields):
    """The listener between brokers, and this broker's user."""

    inter_broker_listener_name: Annotated[str, BeforeValidator(_upper)] = ""
    """The listener, of those in ``listeners``, by which brokers connect to each other: the same on
    all brokers. Empty: the one of ``security.inter.broker.protocol``."""

    security_inter_broker_protocol: Annotated[
        Literal["", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"], BeforeValidator(_upper)
    ] = ""
    """The same by the name of a security protocol: the listener that is named after it. Not
    together with ``inter.broker.listener.name``. Empty: PLAINTEXT, and where there is no listener
    of that name the first one."""

    sasl_mechanism_inter_broker_protocol: Literal["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"] = (
        SCRAM_SHA_512
    )
    """How this broker logs in at others, where their listener asks for it; one of
    ``sasl.enabled.mechanisms``. PLAIN sends the password to the other broker."""

    inter_broker_user: str = ""
    """The user as which this broker logs in at others (``tallymark users add``). With
    ``authorizer.enable`` it needs ``super.users`` or the right to ``cluster-action``. (In place of
    Kafka's ``sasl.jaas.config`` of the listener.)"""

    inter_broker_password: str = ""
    """The password of ``inter.broker.user``."""

    ssl_endpoint_identification_algorithm: Literal["https", ""] = "https"
    """``https``: the certificate of another broker must be for the host that it advertises. Empty:
    it may be for any name, of an authority in ``ssl.truststore.location``."""

    def inter_broker_listener(self) -> Listener:
        """The listener by which brokers connect to each other. ValueError where there is none of
        that name."""
        listening = {listener.name: listener for listener in self.listening()}
        name, protocol = self.inter_broker_listener_name, self.security_inter_broker_protocol
        if not name and not protocol:
            return listening.get("PLAINTEXT") or next(iter(listening.values()))
        found = listening.get(name or protocol)
        if found is None:
            setting = "inter.broker.listener.name" if name else "security.inter.broker.protocol"
            way_out = f"add it to listeners, or {'name' if name else 'set'} another one"
            if protocol:
                way_out += " by inter.broker.listener.name"
            raise ValueError(
                f"{setting}={name or protocol}: there is no listener of that name "
                f"(there are {', '.join(listening)}); {way_out}"
            )
        return found
