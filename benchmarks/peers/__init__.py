"""Peers without a maintained package, written from their papers."""
