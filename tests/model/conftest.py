"""Saving waits for the disk, and disks are shared: no deadline per example."""

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
