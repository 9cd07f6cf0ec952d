"""Where a broker listens, which addresses clients get, and TLS."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tallymark.broker.settings.fields.part import Port, SettingsPart
from tallymark.broker.settings.listeners import Listener, parse_listeners, parse_protocol_map
from tallymark.net.tls.contexts import ClientAuth
from tallymark.net.tls.principals import PrincipalRules


def _principal_rules(text: str) -> str:
    PrincipalRules(text)
    return text


class ListenerFields(SettingsPart):
    """The broker's number, its listeners and their certificates."""

    node_id: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """The broker's number, unique in its cluster (also: ``broker.id``)."""

    host_name: str = "127.0.0.1"
    """The address to listen on. Loopback unless you say otherwise."""

    port: Port = 9092
    """The port to listen on; 0 takes any free one."""

    advertised_host_name: str = ""
    """The host in the address that clients get; empty: ``host.name``. Needed where that is a
    wildcard like 0.0.0.0, which no client can connect to."""

    advertised_port: Port = 0
    """The port in the address that clients get; 0: the one listened on."""

    listeners: str = ""
    """Several places to listen, each with a name that says how it is secured:
    ``PLAINTEXT://127.0.0.1:9092,SASL_SSL://10.0.0.7:9094``. It is used in place of ``host.name``
    and ``port``. The names are PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, and those of
    ``listener.security.protocol.map``."""

    advertised_listeners: str = ""
    """The address that clients of each listener get, by the listener's name:
    ``SASL_SSL://broker-7.example:9094``. Clients of a listener that is not named here get its
    own."""

    listener_security_protocol_map: str = ""
    """Names of your own for listeners: ``INSIDE:SASL_PLAINTEXT,OUTSIDE:SASL_SSL``. Without
    ``listeners`` the one of ``host.name`` and ``port`` is called PLAINTEXT, so
    ``PLAINTEXT:SASL_SSL`` secures it."""

    listeners_allow_plaintext: bool = False
    """Whether a listener that is reached from other machines may go without TLS: everything on
    the network can then be read and changed, passwords of PLAIN included."""

    ssl_keystore_type: Literal["PEM"] = "PEM"
    """The form of keystore and truststore; PEM is the only one."""

    ssl_keystore_location: str = ""
    """The PEM file with the broker's private key and its certificate chain. It is read again at
    SIGHUP, for new connections. To other brokers that ask for a certificate, the broker shows
    this one."""

    ssl_key_password: str = ""
    """The password of the private key, where it is encrypted."""

    ssl_truststore_type: Literal["PEM"] = "PEM"
    """See ``ssl.keystore.type``."""

    ssl_truststore_location: str = ""
    """The PEM file with the authorities whose certificates clients may show, and which this broker
    trusts when it connects to other brokers (there, empty means the system's). It is read again at
    SIGHUP, for new connections."""

    ssl_client_auth: ClientAuth = "none"
    """Whether clients of SSL listeners show a certificate: ``none``, ``requested`` or ``required``.
    Its distinguished name is the user: ``User:CN=alice,O=Example``. (Listeners of SASL_SSL ask for
    none, there SASL names the user.)"""

    ssl_principal_mapping_rules: Annotated[str, AfterValidator(_principal_rules)] = "DEFAULT"
    """How a distinguished name becomes a user: ``RULE:^CN=([^,]+),.*$/$1/L,DEFAULT`` takes the
    common name in lower case. The first rule that fits counts; DEFAULT is the name as it is."""

    ssl_handshake_timeout_ms: Annotated[int, Field(ge=100, le=600_000)] = 10_000
    """A TLS handshake that takes longer is given up."""

    def listening(self) -> tuple[Listener, ...]:
        """The listeners: those of ``listeners``, or the one of ``host.name`` and ``port``."""
        protocols = parse_protocol_map(self.listener_security_protocol_map)
        if not self.listeners:
            return (Listener("PLAINTEXT", protocols["PLAINTEXT"], self.host_name, self.port),)
        return parse_listeners(self.listeners, protocols)

    def advertised(self) -> tuple[Listener, ...]:
        """The addresses that clients get in place of the listeners' own, by the listener's name."""
        protocols = parse_protocol_map(self.listener_security_protocol_map)
        if self.advertised_listeners:
            return parse_listeners(self.advertised_listeners, protocols)
        if self.listeners or not (self.advertised_host_name or self.advertised_port):
            return ()
        host, port = self.advertised_host_name or self.host_name, self.advertised_port
        return (Listener("PLAINTEXT", protocols["PLAINTEXT"], host, port),)
