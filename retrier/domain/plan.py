"""Plans: what a preview counted, as a token that a request can name."""

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, replace
from hashlib import sha256

from retrier.domain.retry_operation import RetryRequest
from retrier.domain.selection import Selection, chosen_parts

LONGEST = 200
"""Characters of a token at most."""

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The selection of a preview (its hash), its cut-off, and how many messages it counted."""

    selection_hash: str
    cut_off: int
    total: int

    @property
    def token(self) -> str:
        """The plan as an opaque text, for an address or JSON."""
        parts = f"{self.selection_hash}.{self.cut_off}.{self.total}"
        return urlsafe_b64encode(parts.encode()).decode().rstrip("=")


def read_plan(token: str) -> Plan | None:
    """Return the plan of a token; None if it is no token."""
    try:
        padded = token + "=" * (-len(token) % 4)
        digest, cut_off, total = urlsafe_b64decode(padded.encode()).decode().split(".")
        numbers = int(cut_off), int(total)
    except ValueError:
        return None
    if not _DIGEST.fullmatch(digest) or not all(0 <= each < 2**63 for each in numbers):
        return None
    return Plan(selection_hash=digest, cut_off=numbers[0], total=numbers[1])


def hash_selection(selection: Selection) -> str:
    """Return the hash of a selection: equal for equal ones, whatever the order of their ids."""
    ids = None if selection.ids is None else sorted(set(selection.ids))
    parts = {"ids": ids, "parts": dict(chosen_parts(selection))}
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def within(request: RetryRequest, plan: Plan) -> RetryRequest:
    """Bound a request by a plan: what failed since is left out, and no more is taken than it had.

    Of one that counted nothing the cut-off is bound enough: a limit is at least 1.
    """
    limit = min(request.terms.limit or plan.total, plan.total) or request.terms.limit
    return replace(request, cut_off=plan.cut_off, terms=replace(request.terms, limit=limit))
