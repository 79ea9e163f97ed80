"""The command line: reads options, asks the service or the composition root, ends with a code."""

from retrier.cli.application import app, main
from retrier.cli.command import with_exit_code

__all__ = ["app", "main", "with_exit_code"]
