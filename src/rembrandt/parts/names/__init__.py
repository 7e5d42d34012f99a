"""Names, other names and descriptions of labels, matched against the text."""
