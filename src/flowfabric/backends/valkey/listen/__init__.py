"""Blocking reads and subscriptions: event tails, frame tails, wake-ups, parked claims."""
