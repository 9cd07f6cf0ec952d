"""Reading without a group: the simple consumer, fetching, what a fetch answers."""
