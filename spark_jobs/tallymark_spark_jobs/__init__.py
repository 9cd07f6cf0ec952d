"""Tallymark."""
