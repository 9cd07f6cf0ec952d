"""The consumer connector: groups coordinated in ZooKeeper, streams, offsets."""
