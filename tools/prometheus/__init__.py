"""Prometheus and promtool, for tests of what is scraped and of alerts."""
