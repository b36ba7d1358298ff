"""The rules of budgets, quotas and admission."""
