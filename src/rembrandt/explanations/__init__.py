"""Why labels are predicted: the contribution of every feature to their log-odds."""
