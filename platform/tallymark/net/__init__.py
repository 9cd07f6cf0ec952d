"""Bytes over TCP: framing, TLS, SASL, and the connections of both sides.

Reading order: :mod:`.addresses`, :mod:`.inbox` (bytes into frames), :mod:`.server` (the broker's
side), :mod:`.client` (the side of clients), :mod:`.sasl` and :mod:`.tls`, :mod:`.limits` (bounds
for each peer), :mod:`.web` (HTTP).
"""
