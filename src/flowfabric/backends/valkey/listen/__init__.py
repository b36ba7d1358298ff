"""Blocking reads and subscriptions: event tails, frame tails, wakeups, parked claims."""
