"""The OpenAPI document and the reference page."""
