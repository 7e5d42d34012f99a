"""The parts of a model: each scores labels in its own way and owns all that concerns it."""
