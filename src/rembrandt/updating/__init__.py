"""More examples and labels for a fitted model, whatever scorers it has."""

from rembrandt.updating.model import outside, refit_due, update_model

__all__ = ["outside", "refit_due", "update_model"]
