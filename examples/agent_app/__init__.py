"""A web app whose agent streams to the browser, asks before it spends, and survives its worker's death.

`python -m examples.agent_app`
"""
