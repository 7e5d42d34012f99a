"""Attacks on readers, model folders, stores, checkpoints and writers; each prints one line of
figures.
"""
