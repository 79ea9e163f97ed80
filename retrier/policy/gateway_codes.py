"""The set `gateway`: rules that give the ten reasons of calls to a service behind a gateway."""

import re

from retrier.policy.classification import ReasonRule
from retrier.policy.globs import Globs
from retrier.policy.reasons import GATEWAY_CODES

GATEWAY_SET = "gateway"
"""What the set is called in `policies.classify`."""

_HTTP = r"(?i)\b(?:http|status)\W{{0,3}}(?:code\W{{0,3}})?{0}\d\d\b"

_BY_NAME: tuple[tuple[str, Globs], ...] = (
    ("GW_5XX", ("GW_UNAVAILABLE",)),
    ("GW_4XX", ("PARSE_ERROR", "VALIDATION_ERROR", "INVALID_MAPPING")),
    ("UNKNOWN", ("MEMORY_ERROR",)),
)
"""Codes of the inside and the public one of each."""

_BY_TYPE: tuple[tuple[str, Globs], ...] = (
    ("GW_TIMEOUT", ("*Timeout*", "*TimedOut*")),
    ("GW_5XX", ("*Connection*", "*Socket*", "*Unreachable*", "*BadGateway*", "*Unavailable*")),
    ("GW_4XX", ("*Validation*", "*Parse*", "*JSON*", "*Json*", "*Serializ*")),
    ("UNKNOWN", ("*MemoryError", "*OutOfMemory*")),
    ("IO_ERROR", ("*IOError", "*IOException", "*OSError", "*FileNotFound*")),
)


def make_gateway_rules() -> tuple[ReasonRule, ...]:
    """Return the rules: codes that the headers name, then HTTP statuses, then types."""
    named = [*((code, (code,)) for code in GATEWAY_CODES), *_BY_NAME]
    return (
        *(ReasonRule(reason=code, failure_reason=names) for code, names in named),
        *(ReasonRule(reason=code, exception=names) for code, names in named),
        ReasonRule(reason="GW_4XX", message=re.compile(_HTTP.format(4))),
        ReasonRule(reason="GW_5XX", message=re.compile(_HTTP.format(5))),
        *(ReasonRule(reason=code, exception=names) for code, names in _BY_TYPE),
    )
