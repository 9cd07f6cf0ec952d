"""The administrator's client: everything about a cluster that is not publishing or consuming.

>>> with Admin(bootstrap_servers="127.0.0.1:9092") as admin:   # doctest: +SKIP
...     admin.create_topic("clicks", 12, {"retention.ms": "86400000"})
...     admin.group_lag("loader")

One file a subject: :mod:`.admin_topics`, :mod:`.admin_configs`, :mod:`.admin_groups`,
:mod:`.admin_offsets` (:mod:`.admin_reset`), :mod:`.admin_lag`, :mod:`.admin_records`,
:mod:`.admin_cluster`, :mod:`.admin_acls`,
:mod:`.admin_users`. How requests find the broker that can answer them,
and when they are asked again, is :mod:`.admin_routes`.
"""

from __future__ import annotations

from tallymark.client.admin_acls import AclAdmin
from tallymark.client.admin_cluster import ClusterAdmin
from tallymark.client.admin_configs import ConfigAdmin
from tallymark.client.admin_lag import LagAdmin
from tallymark.client.admin_topics import TopicAdmin
from tallymark.client.admin_users import UserAdmin


class Admin(TopicAdmin, ConfigAdmin, LagAdmin, ClusterAdmin, AclAdmin, UserAdmin):
    """Manages one cluster, ours or Apache Kafka. Thread-safe; close it, or use ``with``.

    Methods about many things give :class:`~.admin_results.Results`: what succeeded, and for the
    rest why not; ``.check()`` raises if anything failed. What a broker that has just lost its part
    (controller, leader, coordinator) refuses is asked again for ``request_timeout_ms``. Any call
    raises ConnectError or AuthenticationError when the cluster cannot be reached, KafkaError
    UNSUPPORTED_VERSION when its brokers do not serve the request.
    """
