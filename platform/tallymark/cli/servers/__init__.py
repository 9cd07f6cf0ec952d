"""Commands that are servers: a broker, a mirror, ZooKeeper, Apache Kafka.

One file for each command. Each reads its settings, starts the server, prints a line when it is
ready, and serves until SIGTERM or Ctrl-C.
"""
