"""Commands that are servers: a broker, a mirror, ZooKeeper, Apache Kafka.

One file for each command.
"""
