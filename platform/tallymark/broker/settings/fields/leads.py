"""How leads of partitions with several replicas move: at a clean stop, back to preferred leaders,
and to replicas that lack records. No effect on a partition with one replica."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from tallymark.broker.settings.fields.part import Positive, SettingsPart

_INT_MAX: Final = 2**31 - 1


class LeadFields(SettingsPart):
    """Clean stops, preferred leaders, unclean elections."""

    controlled_shutdown_enable: bool = True
    """Whether a broker that stops hands over its leads before, while it still answers. Without,
    producers and consumers wait until the controller has seen that it is gone. Has an effect only
    on partitions with several replicas."""

    controlled_shutdown_max_retries: Annotated[int, Field(ge=0, le=1000)] = 3
    """A stop waits for the hand-over ``controlled.shutdown.retry.backoff.ms``, so many times; then
    it goes on without. Has an effect only on partitions with several replicas."""

    controlled_shutdown_retry_backoff_ms: Annotated[int, Field(ge=0, le=_INT_MAX)] = 5000
    """See ``controlled.shutdown.max.retries``: by default a stop waits 15 s at most, and only while
    another broker could take a lead. Has an effect only on partitions with several replicas."""

    shutdown_timeout_ms: Annotated[int, Field(ge=1000, le=_INT_MAX)] = 30_000
    """How long a stop waits, after the hand-over, for answers, background work and
    ZooKeeper. What has not ended by then is left, and the logs are closed as after a kill, so that
    the next start checks them. Time for the disk is not counted."""

    auto_leader_rebalance_enable: bool = True
    """Whether leads go back by themselves to the preferred leaders, the first replica of each
    partition. The setting of the broker that is the controller counts. Has an effect only on
    partitions with several replicas."""

    leader_imbalance_check_interval_seconds: Positive = 300
    """How often the controller looks whether leads should go back. Has an effect only on partitions
    with several replicas."""

    leader_imbalance_per_broker_percentage: Annotated[int, Field(ge=0, le=100)] = 10
    """Leads go back to a broker when others lead more than so many percent of the partitions that
    it should lead. Has an effect only on partitions with several replicas."""

    unclean_leader_election_enable: bool = False
    """Whether a replica that lacks records may become leader where no other one is left: the
    records are lost then (topic: ``unclean.leader.election.enable``). The setting of the broker
    that is the controller counts. Has an effect only on partitions with several replicas."""
