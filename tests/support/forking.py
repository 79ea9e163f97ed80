"""The one process of a test run that services and workers are forked from: so they start quickly.

Python has one such process for all that ask for it, and one list of what it loads. With a list each,
the last one that was imported would be used, and the others' children would load everything again.
"""

import multiprocessing

PRELOADED = (
    "pytest",
    "retrier.app.service",
    "tests.support.forked_service",
    "tests.support.worker_process",
    "tests.support.warm_start",
)
"""What its children inherit. Python leaves out in silence what it cannot import there."""

FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(list(PRELOADED))
