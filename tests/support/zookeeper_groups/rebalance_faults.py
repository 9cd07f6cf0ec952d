"""What goes wrong in the simulated world of a group: each fault strikes one consumer, or all."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rebalance_consumer import Consumer
    from rebalance_world import World

TOPICS = ("t1", "t2", "u")
BROKERS = 3
CONSUMERS_AT_MOST = 5
PARTITIONS_AT_MOST = 6


def strike(world: World) -> None:
    """One fault, by the world's dice."""
    world.random.choice(_FAULTS)(world, world.random.choice(world.consumers))


def change_once(world: World) -> None:
    """One change of those that nobody needs help to get over."""
    world.random.choice(_CHANGES)(world, world.random.choice(world.consumers))


def reconnect(world: World, consumer: Consumer) -> None:
    """Before the session timed out, or after."""
    if world.crashes and world.random.random() < 0.5:
        world.note(f"{consumer.name}'s session times out")
        world.registry.expire(consumer.session)
    world.note(f"{consumer.name} is connected again")
    consumer.connect()


def _lose_connection(world: World, consumer: Consumer) -> None:
    """Or get it back."""
    if not consumer.connected:
        reconnect(world, consumer)
    elif world.crashes or not consumer.leaving:
        # Who loses the connection while it leaves cannot store its offsets any more.
        world.note(f"{consumer.name} loses its connection")
        consumer.suspend()


def _lose_session_unseen(world: World, consumer: Consumer) -> None:
    """As a process does that was stopped for longer than its session."""
    if world.crashes and consumer.served:
        world.note(f"{consumer.name}'s session ends unseen")
        world.registry.expire(consumer.session)
        world.registry.drop_watches(consumer.name)


def _leave(world: World, consumer: Consumer) -> None:
    if _staying(world) > 1 and consumer.connected and not consumer.leaving:
        world.note(f"{consumer.name} is told to stop")
        consumer.stop()


def _join(world: World, consumer: Consumer) -> None:
    if len(world.consumers) < CONSUMERS_AT_MOST:
        world.add()


def _kill(world: World, consumer: Consumer) -> None:
    """Its owner nodes stand until its session times out."""
    if world.crashes and _staying(world) > 1:
        world.note(f"{consumer.name} is killed")
        world.consumers.remove(consumer)
        world.registry.drop_watches(consumer.name)


def _change_topic(world: World, consumer: Consumer) -> None:
    topic = world.random.choice(TOPICS)
    have = len(world.registry.topics.get(topic, ()))
    if have and world.random.random() < 0.2:
        world.note(f"{topic} is deleted")
        world.registry.delete_topic(topic)
    elif have < PARTITIONS_AT_MOST:
        count = max(have, sum(1 for name, _ in world.ends if name == topic))
        world.put_topic(topic, min(count + world.random.randint(1, 2), PARTITIONS_AT_MOST))


def _change_broker(world: World, consumer: Consumer) -> None:
    broker = world.random.randrange(BROKERS)
    alive = broker not in world.registry.brokers
    world.note(f"broker {broker} {'comes' if alive else 'goes'}")
    world.registry.set_broker(broker, alive)


def _become_slow(world: World, consumer: Consumer) -> None:
    world.note(f"{consumer.name} does nothing for a while")
    consumer.paused_until = world.steps + world.random.randint(20, 150)


def _delete_member_node(world: World, consumer: Consumer) -> None:
    """As a person or a tool may."""
    world.note(f"{consumer.name}'s node is deleted")
    world.registry.leave(consumer.name)


def _produce(world: World, consumer: Consumer) -> None:
    for place in world.ends:
        world.ends[place] += 1


def _staying(world: World) -> int:
    return sum(not consumer.leaving for consumer in world.consumers)


_FAULTS = (
    _lose_connection,
    _lose_connection,
    _leave,
    _join,
    _change_topic,
    _change_broker,
    _become_slow,
    _delete_member_node,
    _kill,
    _lose_session_unseen,
    _produce,
)
_CHANGES = (_leave, _join, _change_topic, _change_topic, _delete_member_node, _kill)
