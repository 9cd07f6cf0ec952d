"""Doubles and fixtures that ship with Tallymark, for its tests and for yours."""
