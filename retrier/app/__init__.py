"""The composition root: the only place that builds objects, starts them and stops them."""

from retrier.app.checking import CheckResult, check, upgrade_database
from retrier.app.service import serve

__all__ = ["CheckResult", "check", "serve", "upgrade_database"]
