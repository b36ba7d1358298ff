"""Args and results of suspensions, signals, secrets and steps."""
