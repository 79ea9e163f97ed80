"""The composition root: the only package that builds all parts, starts them and stops them."""

from retrier.app.check import check, upgrade_database
from retrier.app.check_result import CheckResult
from retrier.app.service import serve
from retrier.app.verify import Verification, verify

__all__ = ["CheckResult", "Verification", "check", "serve", "upgrade_database", "verify"]
