"""The settings of one broker: a frozen class whose fields are its reference manual.

A field ``log_segment_bytes`` is the setting ``log.segment.bytes``; its docstring is its
documentation. The fields are in the room :mod:`tallymark.broker.settings.fields`. Settings come
from Kafka's names (:mod:`tallymark.broker.settings.text`) or from keywords
(``BrokerSettings(num_partitions=4)``, in Python).
"""

from __future__ import annotations

from typing import Self

from pydantic import ConfigDict, model_validator

from tallymark.broker.settings.checks import check_together
from tallymark.broker.settings.fields.access import AccessFields
from tallymark.broker.settings.fields.clients import ClientFields
from tallymark.broker.settings.fields.environment import EnvironmentFields
from tallymark.broker.settings.fields.inter_broker import InterBrokerFields
from tallymark.broker.settings.fields.leads import LeadFields
from tallymark.broker.settings.fields.logs import LogFields
from tallymark.broker.settings.fields.replication import ReplicationFields
from tallymark.broker.settings.fields.transactions import TransactionFields


# Pydantic takes the fields of the last class first: they are listed from the listeners on.
class BrokerSettings(
    EnvironmentFields,
    TransactionFields,
    ClientFields,
    LeadFields,
    ReplicationFields,
    LogFields,
    AccessFields,
    InterBrokerFields,
):
    """All settings of a broker. Times are milliseconds, sizes bytes, -1 means no limit."""

    model_config = ConfigDict(defer_build=False)

    @model_validator(mode="after")
    def _they_go_together(self) -> Self:
        check_together(self)
        return self
