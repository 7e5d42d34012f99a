"""The HTTP service: predictions, labels and maps of models, and a web page that shows them."""
