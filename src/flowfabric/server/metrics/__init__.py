"""Prometheus metrics: counters of this process, gauges of the store."""
