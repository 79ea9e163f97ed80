"""The set `gateway`: rules that give the ten reasons of calls to a service behind a gateway."""

import re
from dataclasses import replace

from retrier.policy import reasons
from retrier.policy.classification import ReasonRule
from retrier.policy.globs import Globs
from retrier.policy.reasons import GATEWAY_CODES

GATEWAY_SET = "gateway"
"""What the set is called in `policies.classify`."""

_PHRASES = (
    "bad request|unauthorized|payment required|forbidden|(?:resource |file )?not found"
    "|method not allowed|not acceptable|proxy authentication required|request time-?out|conflict|gone"
    "|length required|precondition failed|request entity too large|payload too large"
    "|content too large|uri too long|unsupported media type|unprocessable entity"
    "|unprocessable content|locked|failed dependency|too early|upgrade required"
    "|too many requests|internal server error|not implemented|bad gateway"
    "|(?:service |server )?unavailable|service temporarily unavailable|gateway time-?out"
)
_HTTP_WORDS = r"(?:error|status|response|request|code|returned|client|server|failed)"
_BEFORE = (
    rf"\bhttp(?:error|/\d(?:\.\d)?)?\W{{1,3}}(?:{_HTTP_WORDS}\W{{1,3}}){{0,4}}",
    r"\bstatus[^\w/\n]{0,3}(?:(?:code|error|was|is|of)[^\w/\n]{1,3}){0,2}",
    r"\bindicate success\W{1,3}",
    r"\bresponse code\W{1,3}",
    r"\b(?:client|server) error\W{1,3}",
    r"\bresulted in an? \W?",
    r"\breturned(?: an)? error\W{1,4}",
    r"\b(?:returned|responded with|answered|replied with)\W{1,2}",
    r"\berror occurred \(",
    r"\bcode=",
)
"""What HTTP clients write before the status of an answer."""

_BARE = (
    rf"\b(?=\d\d\d\W{{1,3}}(?:{_PHRASES})\b)",
    r"\A\W{0,2}(?=\d\d\d(?:, message=| client error| server error| : ))",
    r"\btoo many (?=\d\d\d error responses)",
)
"""How they write a status that nothing says to be one but what follows."""

_STATUS = (
    rf"(?si)\A(?>.*?(?:{'|'.join((*_BEFORE, *_BARE))})(?=[45]\d\d(?!\d)))"
    r"{first}"
)
"""The first status of a text: a later one may be a part of an address."""

_WORDS_4XX = (
    r"(?i)\bstatus code (?:BadRequest|Unauthorized|PaymentRequired|Forbidden|NotFound|MethodNotAllowed"
    r"|NotAcceptable|RequestTimeout|Conflict|Gone|PreconditionFailed|RequestEntityTooLarge"
    r"|UnsupportedMediaType|Unprocessable\w{6,7}|Locked|TooManyRequests)\b"
    r"|\A(?:Bad Request|Unauthorized|Forbidden|Not Found|Method Not Allowed|Not Acceptable|Conflict|Gone"
    r"|Unsupported Media Type|Unprocessable (?:Entity|Content)|Too Many Requests)\.?\Z"
)
_WORDS_5XX = (
    r"(?i)\bstatus code (?:InternalServerError|NotImplemented|BadGateway|ServiceUnavailable"
    r"|GatewayTimeout)\b"
    r"|\A(?:Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out)\.?\Z"
)
_LATE = r"(?i)\btimed out\b|\btimeout of \d|\bdeadline exceeded\b|\bi/o timeout\b|\bE(?:SOCKET)?TIMEDOUT\b"
_NO_ANSWER = (
    r"(?i)\bconnection (?:refused|reset|closed|aborted)\b|\bbroken pipe\b|\bfailed to connect\b"
    r"|\bno such host\b|\bname or service not known\b|\bno route to host\b|\bnetwork is unreachable\b"
    r"|\btemporary failure in name resolution\b|\bcould not resolve host\b|\bsocket hang up\b"
    r"|\bE(?:CONNREFUSED|CONNRESET|CONNABORTED|NOTFOUND|AI_AGAIN|HOSTUNREACH|NETUNREACH|PIPE)\b"
)

_BY_NAME: tuple[tuple[str, Globs], ...] = (
    ("GW_5XX", ("GW_UNAVAILABLE",)),
    ("GW_4XX", ("PARSE_ERROR", "VALIDATION_ERROR", "INVALID_MAPPING")),
    ("UNKNOWN", ("MEMORY_ERROR",)),
)
"""Codes of the inside and the public one of each."""

_BY_TEXT = (
    ("GW_4XX", _STATUS.replace("{first}", "4")),
    ("GW_5XX", _STATUS.replace("{first}", "5")),
    ("GW_4XX", _WORDS_4XX),
    ("GW_5XX", _WORDS_5XX),
    ("GW_TIMEOUT", _LATE),
    ("GW_5XX", _NO_ANSWER),
)

_BY_TYPE: tuple[tuple[str, Globs], ...] = (
    ("GW_TIMEOUT", ("*Timeout*", "*TimedOut*")),
    (
        "GW_4XX",
        (
            *("*HttpClientError*", "*HTTPClientException", "*Exception\\ClientException"),
            *("*BadRequest*", "*Unauthorized*", "*Unprocessable*", "*TooManyRequests*"),
        ),
    ),
    (
        "GW_5XX",
        (
            *("*Connect*", "*Socket*", "*Unreachable*", "*BadGateway*", "*Unavailable*"),
            *("*HttpServerError*", "*InternalServerError*", "*Exception\\ServerException"),
        ),
    ),
    ("GW_4XX", ("*Validation*", "*Parse*", "*JSON*", "*Json*", "*Serializ*")),
    ("UNKNOWN", ("*MemoryError", "*OutOfMemory*")),
    ("IO_ERROR", ("*IOError", "*IOException", "*OSError", "*FileNotFound*")),
)

_BY_REASON: tuple[tuple[str, Globs], ...] = (
    ("GW_5XX", (reasons.TRANSPORT_UNAVAILABLE, reasons.DEPENDENCY_FAILURE)),
    ("GW_TIMEOUT", (reasons.TIMEOUT_EXCEEDED,)),
    (
        "GW_4XX",
        (reasons.VALIDATION_FAILURE, reasons.SERIALIZATION_ERROR, reasons.INVALID_MESSAGE),
    ),
    ("UNKNOWN", (reasons.HANDLER_EXCEPTION, reasons.UNKNOWN)),
)
"""What is left has a built-in reason, and each a code: only what is poison has none."""


def make_gateway_rules(*, queue: Globs = (), message_type: Globs = ()) -> tuple[ReasonRule, ...]:
    """Return the rules: codes that the headers name, then texts, then types, then what is left.

    Limited to queues and types of messages, if they are given.
    """
    named = [*((code, (code,)) for code in GATEWAY_CODES), *_BY_NAME]
    rules = (
        *(ReasonRule(reason=code, failure_reason=names) for code, names in named),
        *(ReasonRule(reason=code, exception=names) for code, names in named),
        *(ReasonRule(reason=code, message=re.compile(text)) for code, text in _BY_TEXT),
        *(ReasonRule(reason=code, exception=names) for code, names in _BY_TYPE),
        *(ReasonRule(reason=code, built_in=names) for code, names in _BY_REASON),
    )
    return tuple(replace(rule, queue=queue, message_type=message_type) for rule in rules)
