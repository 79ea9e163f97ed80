"""The composition root: the only package that builds all parts, starts them and stops them."""

from retrier.app.check import CheckResult, check, upgrade_database
from retrier.app.database_copy import CopiedDatabase, CopyStep, copy_database
from retrier.app.dialects import TriedMessage, try_messages, written
from retrier.app.service import serve
from retrier.app.tokens import create_token, find_tokens, revoke_token, write_token
from retrier.app.verify import Verification, verify

__all__ = [
    "CheckResult",
    "CopiedDatabase",
    "CopyStep",
    "TriedMessage",
    "Verification",
    "check",
    "copy_database",
    "create_token",
    "find_tokens",
    "revoke_token",
    "serve",
    "try_messages",
    "upgrade_database",
    "verify",
    "write_token",
    "written",
]
