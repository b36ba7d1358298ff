"""The ports on Valkey, one module per noun."""
