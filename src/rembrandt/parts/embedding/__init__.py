"""The label embedding of the paper."""
