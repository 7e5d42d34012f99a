"""Look into a fitted model: explanations, neighbouring labels, maps, confusions, reports."""
