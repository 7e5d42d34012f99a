"""The HTTP service: models answered for over HTTP, and a page to look at them."""
