"""The brokers' group protocol, the client's side: the machine, assignors, offsets."""
