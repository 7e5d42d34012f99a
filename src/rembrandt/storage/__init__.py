"""Arrays in files, atomic replacement of files and folders, locks, and checkpoints of a fit."""
