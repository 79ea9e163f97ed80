"""`retrier demo`: a small shop that fails, the service beside it, and what one can do about it.

The shop stands for somebody else's program: it knows the broker and the failure headers, and
nothing of the service's store.
"""

from retrier.demo.demo import run_demo

__all__ = ["run_demo"]
