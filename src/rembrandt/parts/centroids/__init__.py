"""Label centroids."""
