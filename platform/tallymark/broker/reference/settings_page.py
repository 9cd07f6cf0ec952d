"""Prints docs/broker-settings.md from the code: run it with ``python -m``."""

from __future__ import annotations

from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.config_describe import Described, describe_broker
from tallymark.broker.settings.group_configs import GROUP_RULES
from tallymark.broker.settings.names import OTHER_NAMES, kafka_name
from tallymark.broker.settings.properties_file import UNITS, WITHOUT_EFFECT
from tallymark.broker.settings.topic_config import TopicConfig
from tallymark.broker.settings.topic_configs import RULES

HEAD = """# Settings of a broker

Names are Apache Kafka's where Kafka has the setting. They are given

* in a file like Kafka's `server.properties`: `tallymark broker --config FILE`,
* one by one: `tallymark broker --set NAME=VALUE`, which wins over a file,
* by a deployment, in `broker_settings` of a cluster ([settings.md](settings.md)):
  `tallymark broker --settings FILE --cluster NAME --id N`,
* in Python: `BrokerSettings(num_partitions=4)`.

Times are milliseconds, sizes bytes; -1 means no limit. A setting takes effect when the broker
starts. Clients see them by DescribeConfigs, secrets excepted. An unknown name is an error that
names the nearest known one.

Those marked *at run time* are also in force at once when they are changed with AlterConfigs or
IncrementalAlterConfigs: for one broker (a resource of type broker with its id) or for all of them
(the empty name). What was set for the one counts first, then what was set for all, then what the
broker was started with. It is kept over a restart, in ZooKeeper (`/config/brokers`, as Kafka has
it) or in `security.json` of the first data folder.

This page is made from the code:
`python -m tallymark.broker.reference.settings_page > docs/broker-settings.md`.
"""

TOPICS = """
## Topic configs

Set with CreateTopics, changed with AlterConfigs and IncrementalAlterConfigs, in force at once. A
topic that does not set one has the broker's. These are all configs of Apache Kafka 4.1 (and
`flush.before.expose`). Those with *no effect here* are checked, kept and described, and change
nothing.

| config | type | broker's setting, or default | |
|---|---|---|---|
"""

GROUPS = """
## Group configs

Set with IncrementalAlterConfigs on a resource of type group. They are for groups of Kafka's newer
protocols, which are not served: they are checked, kept and described, and change nothing.

| config | type | default | |
|---|---|---|---|
"""

FILES = """
## Kafka's files

`--config` takes a `server.properties` as it is. Converted to milliseconds:

"""


def reference() -> str:
    """The whole page."""
    rows = "".join(_row(config) for config in describe_broker(BrokerSettings()))
    return (
        f"{HEAD}\n| setting | type | default | |\n|---|---|---|---|\n{rows}"
        f"{TOPICS}{''.join(_topic_rows())}{GROUPS}{''.join(_group_rows())}{FILES}{''.join(_file_lines())}"
    )


def _row(config: Described) -> str:
    others = [old for old, new in OTHER_NAMES.items() if new == config.name]
    name = f"`{config.name}`" + "".join(f", `{other}`" for other in others)
    dynamic = "" if config.read_only else " *At run time.*"
    kind = config.type.name.lower()
    return f"| {name} | {kind} | {_value(config.value)} | {_text(config.doc)}{dynamic} |\n"


def _topic_rows() -> list[str]:
    return [
        f"| `{row.name}` | {row.type.name.lower()} | {_inherited(row.setting, row.default)} "
        f"| {_text(row.doc)}{_effect(row)} |\n"
        for row in RULES.values()
    ]


def _group_rows() -> list[str]:
    return [
        f"| `{row.name}` | {row.type.name.lower()} | {_value(row.default)} | {_text(row.doc)} |\n"
        for row in GROUP_RULES.values()
    ]


def _inherited(setting: str, default: str) -> str:
    return f"`{kafka_name(setting)}`" if setting else _value(default)


def _effect(row: TopicConfig) -> str:
    return f" *No effect here: {_text(row.without_effect)}.*" if row.without_effect else ""


def _file_lines() -> list[str]:
    converted = [
        f"* `{name}` is `{target}`\n" for target, names in UNITS.items() for name, _ in names
    ]
    skipped = [f"| `{name}` | skipped | {why} |\n" for name, why in WITHOUT_EFFECT.items()]
    head = "\nThese have no effect here; the log names those that are skipped:\n\n"
    return [*converted, head, "| name | value | why |\n|---|---|---|\n", *skipped]


def _value(value: str | None) -> str:
    return f"`{value}`" if value else "(empty)"


def _text(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(reference(), end="")  # noqa: T201  (it is what this module does)
