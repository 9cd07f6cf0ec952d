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
            "zookeeper.allow.open=true if nobody but the brokers reaches it"
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
