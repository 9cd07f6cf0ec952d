"""The shape of the clusters' settings: their brokers, how clients are secured there, ZooKeeper."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tallymark.deployment.parts import LOOPBACK, Name, Part, Port


class ZooKeeperSettings(Part):
    """The coordination service. ``embedded`` starts Apache ZooKeeper as a child of ``up``."""

    host: str = LOOPBACK
    """Where ZooKeeper listens and is found."""
    port: Port = 2181
    """Its client port."""
    embedded: bool = True
    """Whether ``tallymark up`` starts it."""
    session_timeout_ms: Annotated[int, Field(ge=2000, le=300_000)] = 6000
    """How long a broker or consumer may be silent before it counts as gone."""

    @property
    def connect(self) -> str:
        return f"{self.host}:{self.port}"


class BrokerAddress(Part):
    """One broker of a cluster: where it listens, and which address clients get."""

    id: Annotated[int, Field(ge=0)] = 0
    """Unique in the cluster."""
    host: str = LOOPBACK
    """Where it listens."""
    port: Port
    """Its port."""
    advertised_host: str = ""
    """The address that clients get; empty: the same as ``host``."""

    @property
    def address(self) -> str:
        return f"{self.advertised_host or self.host}:{self.port}"


class ClusterSecurity(Part):
    """How clients are secured at the cluster's brokers, by Kafka's names. Passwords are never in
    the settings: they are in a file that few may read, or in the environment."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """What the listener speaks that clients come to."""
    ssl_truststore_location: str = ""
    """PEM file of the authorities that are trusted; empty: the system's."""
    ssl_keystore_location: str = ""
    """PEM file with key and certificate chain, for brokers that want a client certificate."""
    ssl_key_password_file: str = ""
    """File whose first line is the password of that key, if it is encrypted."""
    ssl_endpoint_identification_algorithm: Literal["https", ""] = "https"
    """Empty: the broker's certificate may be for any name."""
    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = ""
    """How clients log in."""
    sasl_username: str = ""
    """The user name for SASL."""
    sasl_password_file: str = ""
    """File whose first line is the password."""
    sasl_password_env: str = ""
    """Or the name of an environment variable that holds it."""
    sasl_oauthbearer_token_endpoint_url: str = ""
    """For OAUTHBEARER, where tokens come from: ``https://...``, which gives them for a client id
    and its secret, or ``file:///...``, a file that holds one and is renewed from outside."""
    sasl_oauthbearer_client_credentials_client_id: str = ""
    """As which client."""
    sasl_oauthbearer_client_credentials_client_secret_file: str = ""
    """File whose first line is its secret."""
    sasl_oauthbearer_scope: str = ""
    """The scope that is asked for; empty: the endpoint's default."""


class Cluster(Part):
    """One cluster, ours or Apache Kafka. ``chroot`` is its root in ZooKeeper."""

    name: Name
    """How the cluster is called in settings, commands and verdicts."""
    kind: Literal["tallymark", "apache-kafka"] = "tallymark"
    """Whose brokers they are. Of Apache Kafka's only the brokers are asked; ZooKeeper holds no more
    than the groups of our own consumers, below ``chroot``."""
    brokers: tuple[BrokerAddress, ...]
    """Its brokers; of an Apache Kafka cluster some are enough to find the others."""
    chroot: str = ""
    """Empty: ``/<name>``."""
    embedded: bool = True
    """Whether ``tallymark up`` starts its brokers."""
    broker_settings: dict[str, str | int | float | bool] = Field(default_factory=dict, repr=False)
    """For every broker of the cluster, by the names of ``tallymark broker --help-settings``, or of
    Apache Kafka's ``server.properties``."""
    security: ClusterSecurity = ClusterSecurity()
    """How clients are secured at its brokers."""

    @model_validator(mode="after")
    def _brokers_have_ids_of_their_own(self) -> Self:
        ids = [broker.id for broker in self.brokers]
        if len(set(ids)) != len(ids):
            raise ValueError(f"two brokers of {self.name} have the same id")
        return self

    @model_validator(mode="after")
    def _apache_kafka_is_started_alone(self) -> Self:
        if self.kind == "apache-kafka" and self.embedded and len(self.brokers) != 1:
            raise ValueError(
                f"of Apache Kafka only a cluster of one broker can be started: give {self.name} "
                "one, or embedded = false"
            )
        return self

    @property
    def root(self) -> str:
        return self.chroot or f"/{self.name}"

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)
