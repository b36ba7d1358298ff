"""Connections to Valkey: one server, a primary with replicas, or a cluster."""
