"""What settings of a broker need of each other. A ValueError names the settings and the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.broker.settings.config_types import split
from tallymark.broker.settings.listeners import WILDCARDS, endpoints, off_loopback
from tallymark.coordination import Access
from tallymark.net.sasl.mechanisms import OAUTHBEARER
from tallymark.net.sasl.oauth_urls import check_oauth_url

if TYPE_CHECKING:
    from tallymark.broker.settings.broker import BrokerSettings


def check_together(settings: BrokerSettings) -> None:
    """Raise ValueError for the first thing that does not go together."""
    _zookeeper_can_be_closed(settings)
    _lists_are_in_a_place_that_is_closed(settings)
    _clients_can_connect(settings)
    _listeners_are_secure(settings)
    _tokens_can_be_checked(settings)
    _brokers_can_connect(settings)
    _followers_are_heard_of_in_time(settings)
    if not settings.log_dirs:
        raise ValueError("log.dirs names no folder")


def _zookeeper_can_be_closed(settings: BrokerSettings) -> None:
    asked = "zookeeper_set_acl" in settings.model_fields_set and settings.zookeeper_set_acl
    if asked and not (settings.zookeeper_user or Access.from_environment().user):
        raise ValueError("zookeeper.set.acl needs zookeeper.user and zookeeper.password")


def _lists_are_in_a_place_that_is_closed(settings: BrokerSettings) -> None:
    in_zookeeper = settings.authorizer_enable and settings.enable_zookeeper
    if not in_zookeeper or settings.zookeeper_allow_open:
        return
    known = settings.zookeeper_user or Access.from_environment().user
    if not (known and settings.zookeeper_set_acl):
        raise ValueError(
            "authorizer.enable: users and access-control lists are in ZooKeeper, where whoever "
            "reaches it can give himself every right; set zookeeper.user and "
            "zookeeper.password (and leave zookeeper.set.acl on), or say "
            "zookeeper.allow.open=true if only the brokers reach it"
        )


def _clients_can_connect(settings: BrokerSettings) -> None:
    host = settings.host_name
    if not settings.listeners and host in WILDCARDS and not settings.advertised_host_name:
        raise ValueError(f"host.name={host} needs advertised.host.name")
    endpoints(settings.listening(), settings.advertised())


def _listeners_are_secure(settings: BrokerSettings) -> None:
    for listener in settings.listening():
        if listener.tls and not settings.ssl_keystore_location:
            raise ValueError(f"{listener} needs ssl.keystore.location")
        if not (listener.tls or settings.listeners_allow_plaintext) and off_loopback(listener):
            raise ValueError(
                f"{listener} is reached from other machines without TLS: use SSL or SASL_SSL, "
                "or say listeners.allow.plaintext=true"
            )


def _tokens_can_be_checked(settings: BrokerSettings) -> None:
    if OAUTHBEARER not in split(settings.sasl_enabled_mechanisms):
        return
    if not settings.sasl_oauthbearer_jwks_endpoint_url:
        raise ValueError("OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url")
    try:
        check_oauth_url(settings.sasl_oauthbearer_jwks_endpoint_url)
    except ValueError as error:
        raise ValueError(f"sasl.oauthbearer.jwks.endpoint.url: {error}") from None


def _followers_are_heard_of_in_time(settings: BrokerSettings) -> None:
    wait = settings.replica_fetch_wait_max_ms
    for name, longest in (
        ("replica.lag.time.max.ms", settings.replica_lag_time_max_ms),
        ("replica.socket.timeout.ms", settings.replica_socket_timeout_ms),
    ):
        if wait > longest:
            raise ValueError(
                f"replica.fetch.wait.max.ms={wait} must not be above {name}={longest}: a follower "
                "with nothing to copy would be taken for a dead one"
            )


def _brokers_can_connect(settings: BrokerSettings) -> None:
    if settings.inter_broker_listener_name and settings.security_inter_broker_protocol:
        raise ValueError(
            "inter.broker.listener.name and security.inter.broker.protocol both name the listener "
            "between brokers; set one of them"
        )
    listener = settings.inter_broker_listener()
    user, password = settings.inter_broker_user, settings.inter_broker_password
    if bool(user) != bool(password):
        missing = "inter.broker.password" if user else "inter.broker.user"
        raise ValueError(f"{missing} is missing: a broker logs in at others with both")
    if user and not listener.sasl:
        raise ValueError(
            f"inter.broker.user is given, but the listener between brokers, {listener}, asks for "
            "no log-in: name one with SASL by inter.broker.listener.name"
        )
    named = settings.inter_broker_listener_name or settings.security_inter_broker_protocol
    if listener.sasl and named and not user:
        raise ValueError(
            f"brokers log in at each other at {listener}: set inter.broker.user and "
            "inter.broker.password (tallymark users add makes a user)"
        )
    enabled, mechanism = (
        settings.sasl_enabled_mechanisms,
        (settings.sasl_mechanism_inter_broker_protocol),
    )
    if listener.sasl and user and mechanism not in split(enabled):
        raise ValueError(
            f"sasl.mechanism.inter.broker.protocol={mechanism} is not enabled "
            f"(sasl.enabled.mechanisms={enabled}): use one that is, or enable it on all brokers"
        )
