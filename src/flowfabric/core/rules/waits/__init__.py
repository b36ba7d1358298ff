"""The rules of suspensions, waitpoints and signals."""
