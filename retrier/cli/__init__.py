"""The command line: reads options, calls the service or the composition root, sets an exit code."""

from retrier.cli.application import app, main
from retrier.cli.command import with_exit_code

__all__ = ["app", "main", "with_exit_code"]
