"""The command line: reads options, calls the service or the composition root, sets an exit code."""

from retrier.cli.application import app, main

__all__ = ["app", "main"]
