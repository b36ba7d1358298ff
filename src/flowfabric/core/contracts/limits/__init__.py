"""Args and results of budgets and quotas."""
