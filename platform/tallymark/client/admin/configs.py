"""Configurations of topics, brokers and groups: describe the values in force, and change them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

from tallymark.client.admin.base import AdminBase
from tallymark.client.admin.results import Outcomes, Results, refusal
from tallymark.errors import CODES, ConnectError, KafkaError
from tallymark.protocol import messages
from tallymark.protocol.schema import Message, Request

R = TypeVar("R", bound=Message)

Kind = Literal["topic", "broker", "broker-logger", "client-metrics", "group"]
KINDS: Final[Mapping[Kind, int]] = {
    "topic": 2,
    "broker": 4,
    "broker-logger": 8,
    "client-metrics": 16,
    "group": 32,
}
SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "file",
    5: "default",
    6: "broker-logger",
    7: "client-metrics",
    8: "group",
}
"""Where a value comes from: set for this topic, for this broker, for all brokers (dynamically), in
the broker's settings file, or nowhere (Kafka's ConfigSource)."""
TYPES: Final = {
    1: "bool",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}


class ConfigResource(NamedTuple):
    """A thing with a configuration: a topic by name, a broker by its id ("" means all)."""

    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One source of a configuration, with the value there."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A configuration in force. ``value`` is None for secrets; ``synonyms`` are all sources with a
    value, and the first of them is in force; ``source`` is one of :data:`SOURCES`."""

    name: str
    value: str | None
    source: str
    read_only: bool = False
    sensitive: bool = False
    type: str = ""
    documentation: str = ""
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether it is a default: not set for this resource."""
        return self.source not in ("topic", "broker", "broker-logger", "client-metrics", "group")


@dataclass(frozen=True, slots=True)
class ListChange:
    """Add values (comma-separated) to a list, or remove them from it."""

    operation: Literal["append", "subtract"]
    value: str


Change: TypeAlias = str | ListChange | None
"""A new value; None: back to the default."""
Configs: TypeAlias = dict[str, ConfigEntry]


class ConfigAdmin(AdminBase):
    """The methods of Admin for configurations."""

    def describe_configs(
        self,
        resources: Iterable[ConfigResource | tuple[Kind, str]],
        *,
        names: Iterable[str] | None = None,
        documentation: bool = False,
    ) -> Results[ConfigResource, Configs]:
        """Every configuration (or those of ``names``) of the resources, with its source."""
        keys = None if names is None else tuple(names)

        async def attempt(pending: list[ConfigResource]) -> Outcomes[ConfigResource, Configs]:
            outcomes: Outcomes[ConfigResource, Configs] = {}
            for owner, mine in _by_owner(pending).items():
                request = messages.DescribeConfigsRequest(
                    resources=tuple(
                        messages.DescribeConfigsRequestResource(
                            resource_type=KINDS[one.kind],
                            resource_name=one.name,
                            configuration_keys=keys,
                        )
                        for one in mine
                    ),
                    include_synonyms=True,
                    include_documentation=documentation,
                )
                outcomes |= await self._describe_configs(owner, request, mine)
            return outcomes

        wanted = [ConfigResource(*resource) for resource in resources]
        return self._settle(wanted, attempt, "describing configurations")

    def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, Change]]
        | Mapping[tuple[Kind, str], Mapping[str, Change]],
        *,
        validate_only: bool = False,
    ) -> Results[ConfigResource, None]:
        """Change single configurations; the others stay (KIP-339). A text sets the value, None
        resets it to the default, a :class:`ListChange` changes a list. Either all changes of a
        resource are made or none."""
        wanted = {ConfigResource(*resource): change for resource, change in changes.items()}

        async def attempt(pending: list[ConfigResource]) -> Outcomes[ConfigResource, None]:
            outcomes: Outcomes[ConfigResource, None] = {}
            for owner, mine in _by_owner(pending).items():
                request = messages.IncrementalAlterConfigsRequest(
                    resources=tuple(_changed(one, wanted[one]) for one in mine),
                    validate_only=validate_only,
                )
                outcomes |= await self._alter_configs(owner, request, mine)
            return outcomes

        return self._settle(wanted, attempt, "changing configurations")

    async def _describe_configs(
        self,
        owner: int | None,
        request: messages.DescribeConfigsRequest,
        mine: list[ConfigResource],
    ) -> Outcomes[ConfigResource, Configs]:
        outcomes: Outcomes[ConfigResource, Configs] = {}
        try:
            response = await self._ask_owner(owner, request)
        except (ConnectError, KafkaError) as error:
            return dict.fromkeys(mine, error)
        for one in response.results:
            key = _resource(one.resource_type, one.resource_name)
            outcomes[key] = (
                refusal(one.error_code, f"{key.kind} {key.name}", one.error_message)
                if one.error_code
                else {entry.name: _entry(entry) for entry in one.configs}
            )
        return outcomes

    async def _alter_configs(
        self,
        owner: int | None,
        request: messages.IncrementalAlterConfigsRequest,
        mine: list[ConfigResource],
    ) -> Outcomes[ConfigResource, None]:
        outcomes: Outcomes[ConfigResource, None] = {}
        try:
            response = await self._ask_owner(owner, request)
        except (ConnectError, KafkaError) as error:
            return dict.fromkeys(mine, error)
        for one in response.responses:
            key = _resource(one.resource_type, one.resource_name)
            outcomes[key] = (
                refusal(one.error_code, f"{key.kind} {key.name}", one.error_message)
                if one.error_code
                else None
            )
        return outcomes

    async def _ask_owner(self, owner: int | None, request: Request[R]) -> R:
        if owner is None:
            return await self._cluster.ask_controller(request)
        if owner not in self._cluster.metadata.brokers:
            await self._cluster.refresh([])
        address = self._cluster.metadata.brokers.get(owner)
        if address is None:
            raise KafkaError(CODES["BROKER_NOT_AVAILABLE"], f"there is no broker {owner}")
        return await self._cluster.ask(address, request)


def _by_owner(resources: Iterable[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    """The broker to ask -> its resources: the configurations of one broker are requested from that
    broker, all others from the controller (None)."""
    found: dict[int | None, list[ConfigResource]] = {}
    for resource in resources:
        own = resource.kind in ("broker", "broker-logger") and resource.name.isdecimal()
        found.setdefault(int(resource.name) if own else None, []).append(resource)
    return found


def _resource(kind: int, name: str) -> ConfigResource:
    words: dict[int, Kind] = {number: word for word, number in KINDS.items()}
    return ConfigResource(words.get(kind, "topic"), name)


def _changed(
    resource: ConfigResource, changes: Mapping[str, Change]
) -> messages.IncrementalAlterConfigsRequestResource:
    return messages.IncrementalAlterConfigsRequestResource(
        resource_type=KINDS[resource.kind],
        resource_name=resource.name,
        configs=tuple(_operation(name, change) for name, change in changes.items()),
    )


def _operation(name: str, change: Change) -> messages.IncrementalAlterConfigsRequestConfig:
    number, value = 0, change
    if change is None:
        number = 1
    elif isinstance(change, ListChange):
        number, value = {"append": 2, "subtract": 3}[change.operation], change.value
    assert not isinstance(value, ListChange)
    return messages.IncrementalAlterConfigsRequestConfig(
        name=name, config_operation=number, value=value
    )


def _entry(config: messages.DescribeConfigsResponseConfig) -> ConfigEntry:
    return ConfigEntry(
        config.name,
        config.value,
        SOURCES.get(config.config_source, "unknown"),
        config.read_only,
        config.is_sensitive,
        TYPES.get(config.config_type, ""),
        config.documentation or "",
        tuple(
            ConfigSynonym(one.name, one.value, SOURCES.get(one.source, "unknown"))
            for one in config.synonyms
        ),
    )
