"""The clusters of a deployment as a repair needs them."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from tallymark.client import Admin, Producer, SimpleConsumer
from tallymark.client.core.security.deployment import ConnectionSettings, connection_settings
from tallymark.deployment import Deployment
from tallymark.errors import UserError
from tallymark_audit.collector.partitions.compacted import is_compacted
from tallymark_audit.repair.tails import PREFIX, open_tail
from tallymark_audit.repair.upstream import Reader

CLIENT: Final = "tallymark-audit-repair"


@dataclass
class OpenedClusters:
    """Opens clusters as they are needed; the stack closes them. UserError: there is no such one."""

    deployment: Deployment
    stack: ExitStack
    _readers: dict[str, SimpleConsumer] = field(default_factory=dict[str, SimpleConsumer])
    _producers: dict[str, Producer] = field(default_factory=dict[str, Producer])
    _admins: dict[str, Admin] = field(default_factory=dict[str, Admin])

    def reader(self, cluster: str) -> Reader:
        """What transactions aborted is left out, as collectors leave it out. Of a source that is
        the folder of saved records, these."""
        if cluster.startswith(PREFIX):
            return open_tail(cluster, self.reader)
        if cluster not in self._readers:
            reader = SimpleConsumer(
                **self._connection(cluster), client_id=CLIENT, isolation="read_committed"
            )
            self._readers[cluster] = self.stack.enter_context(reader)
        return self._readers[cluster]

    def producer(self, cluster: str) -> Producer:
        """One that neither stamps nor claims: the records keep the stamps they have."""
        if cluster not in self._producers:
            producer = Producer(**self._connection(cluster), client_id=CLIENT, audit=False)
            self._producers[cluster] = self.stack.enter_context(producer)
        return self._producers[cluster]

    def compacted(self, cluster: str, topic: str) -> bool:
        """Whether the topic keeps only the latest record of each key; of one that is not there
        that does not matter."""
        if cluster.startswith(PREFIX):
            return False
        if cluster not in self._admins:
            admin = Admin(**self._connection(cluster), client_id=CLIENT)
            self._admins[cluster] = self.stack.enter_context(admin)
        return is_compacted(self._admins[cluster], topic)

    def _connection(self, cluster: str) -> ConnectionSettings:
        try:
            return connection_settings(self.deployment.cluster(cluster))
        except KeyError as error:
            raise UserError(str(error.args[0]), "the plan is of another deployment") from error
