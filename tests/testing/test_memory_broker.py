"""What one broker in memory keeps is not another one's."""

from __future__ import annotations

import gc
from pathlib import Path

from tallymark import Admin
from tallymark.testing import MemoryBroker


def quotas(broker: MemoryBroker) -> int:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        return len(admin.describe_quotas())


def limit(broker: MemoryBroker) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        everyone = (("user", None),)
        admin.alter_quotas({everyone: {"producer_byte_rate": 10.0}}).check()


def test_a_quota_of_one_broker_is_not_in_force_at_another() -> None:
    """A test gave users a quota of ten bytes a second. It was kept in ``/memory/broker`` on the
    real disk, so every broker in memory of that machine was slow from then on: producers waited for
    half a minute, in tests that know nothing of quotas."""
    with MemoryBroker() as broker:
        limit(broker)
        assert quotas(broker) == 1
        broker.stop()
        broker.start()
        assert quotas(broker) == 1, "it is kept over a restart"
        with MemoryBroker() as other:
            assert quotas(other) == 0


def test_nothing_of_it_is_left_on_the_disk() -> None:
    broker = MemoryBroker()
    folder: Path = broker.settings.log_dirs[0].parent
    with broker:
        limit(broker)
        assert folder.exists()
    del broker
    gc.collect()
    assert not folder.exists()
