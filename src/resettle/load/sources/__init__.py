"""Whoever measures how busy nodes are: the metrics API, and Prometheus. They touch the world."""
