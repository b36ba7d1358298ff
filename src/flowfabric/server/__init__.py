"""The HTTP server: every port as an API, live streams, workers in any language, and the dashboard.

Nothing is imported here, so that the command line loads the server's dependencies only to serve.
"""
