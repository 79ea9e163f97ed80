"""`retrier demo`: a small shop whose orders fail, the service beside it, and their retries.

The shop stands for a program of the user: it uses the broker and the failure headers, but not the
store of the service.
"""

from retrier.demo.demo import run_demo

__all__ = ["run_demo"]
