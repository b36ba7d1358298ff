"""Admission and claim: who gets what next, and why something does not run."""
