"""The administrator's client: everything about a cluster that is not publishing or consuming.

>>> with Admin(bootstrap_servers="127.0.0.1:9092") as admin:   # doctest: +SKIP
...     admin.create_topic("clicks", 12, {"retention.ms": "86400000"})
...     admin.group_lag("loader")

One file a subject: :mod:`.topics`, :mod:`.configs`, :mod:`.groups`,
:mod:`.offsets` (:mod:`.reset`), :mod:`.lag`, :mod:`.records`,
:mod:`.cluster`, :mod:`.features`, :mod:`.moves`, :mod:`.transactions`, :mod:`.acls`,
:mod:`.users`. :mod:`.routes` finds the broker that can answer a request, and decides
when to send it again.
"""

from __future__ import annotations

from tallymark.client.admin.acls import AclAdmin
from tallymark.client.admin.cluster import ClusterAdmin
from tallymark.client.admin.configs import ConfigAdmin
from tallymark.client.admin.features import FeaturesAdmin
from tallymark.client.admin.lag import LagAdmin
from tallymark.client.admin.moves import MovesAdmin
from tallymark.client.admin.transactions.finding import TransactionAdmin
from tallymark.client.admin.users import UserAdmin


class Admin(
    ConfigAdmin,
    LagAdmin,
    TransactionAdmin,
    ClusterAdmin,
    FeaturesAdmin,
    MovesAdmin,
    AclAdmin,
    UserAdmin,
):
    """Manages one cluster, ours or Apache Kafka. Thread-safe; close it, or use ``with``.

    Methods about many things return :class:`~.results.Results`: the values of those that
    succeeded, and an error for each of the rest; ``.check()`` raises if anything failed. A broker
    that has just lost its role (controller, leader, coordinator) refuses requests; they are sent
    again, for up to ``request_timeout_ms``. Any call raises ConnectError or AuthenticationError
    when the cluster cannot be reached, KafkaError UNSUPPORTED_VERSION when its brokers do not serve
    the request.
    """
