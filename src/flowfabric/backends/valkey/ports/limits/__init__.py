"""Budgets, quotas and admission on Valkey."""
