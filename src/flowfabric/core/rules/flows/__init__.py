"""The rules of flows: edges, joins, cascades, replay."""
