"""What a mirror reports: how far it has copied, and which offsets it could not copy.

There is one file, :mod:`.mirror_report`. A mirror makes no claims: what the source's collector
counted is the claim, what the target's collector counted is the observation.
"""
