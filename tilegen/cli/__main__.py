"""`python -m tilegen.cli`."""

from tilegen.cli import app

app()
