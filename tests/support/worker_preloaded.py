"""Imports what a worker process needs, once, in the server that all of them are forked from."""

import tests.support.worker_process  # noqa: F401
