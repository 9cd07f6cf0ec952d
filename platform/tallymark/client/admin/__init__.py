"""Topics, configurations, groups, offsets, records, users, ACLs."""
