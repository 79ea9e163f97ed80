"""Classification: which reason a failure has. An operator's rules first, then the built-in table."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from retrier.domain.values import dataclass
from retrier.policy import reasons
from retrier.policy.facts import Facts, name_of
from retrier.policy.patterns import LOOKED_AT, Globs, Patterns, matches
from retrier.policy.reasons import GATEWAY_CODES

_MOST_TYPES = 1024
"""Types of exceptions whose reason is remembered: a hundred patterns are compared to find one."""

MOST_CRASHES = 10
"""How often a worker may crash over a message before it is poison, unless the settings say more."""

UNSAID = "no failure headers"
"""What `failure_reason` says of a message that arrived without failure headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonRule:
    """Gives a reason to the failures that match all its conditions; an empty one asks nothing.

    `message` is searched in the beginning of the exception's message: an operator's pattern is a
    text, one of the set `gateway` is compiled by `re`. A rule with `built_in` is asked last: it
    gives another name to what is left with one of these reasons.
    """

    reason: str
    queue: Globs = ()
    exception: Globs = ()
    failure_reason: Globs = ()
    message: str | re.Pattern[str] | None = None
    message_type: Globs = ()
    built_in: Globs = ()

    def may_match(self, facts: Facts) -> bool:
        """Say whether a failure matches, whatever its message is."""
        pairs = (
            (self.queue, facts.queue),
            (self.exception, facts.exception_type),
            (self.failure_reason, facts.failure_reason),
            (self.message_type, facts.message_type),
        )
        return all(matches(wanted, text) for wanted, text in pairs if wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What is left to be asked of failures that differ in their messages only.

    `otherwise` is their reason if none of the rules finds what it searches for.
    """

    rules: tuple[ReasonRule, ...]
    otherwise: str

    def reason_of(self, message: str | None, patterns: Patterns) -> str:
        """Return the reason of a failure with this message; the patterns are those of all rules."""
        text = None if message is None else message[:LOOKED_AT]
        found: frozenset[str] | None = None
        for rule in self.rules:
            wanted = rule.message
            if wanted is None:
                return rule.reason
            if text is None:
                continue
            if isinstance(wanted, str):
                found = patterns.find_in(text) if found is None else found
                fits = wanted in found
            else:
                fits = wanted.search(text) is not None
            if fits:
                return rule.reason
        return self.otherwise


EXCEPTIONS: Sequence[tuple[str, Globs]] = (
    # Of databases: a transaction that could not be serialized, which has nothing to do with texts.
    (reasons.DEPENDENCY_FAILURE, ("SerializationFailure*", "CannotSerialize*")),
    (
        reasons.TIMEOUT_EXCEEDED,
        (
            *("*Timeout*", "*TimedOut*", "*DeadlineExceeded*", "*TimeLimitExceeded*"),
            *("TaskCanceled*", "QueryCanceled*", "ETIMEDOUT", "ESOCKETTIMEDOUT"),
            *("Timeout::*", "deadlineExceeded*", "timeoutError"),
        ),
    ),
    (
        reasons.SERIALIZATION_ERROR,
        (
            *("*Json*", "*JSON*", "*Serializ*", "*Deserializ*", "UnicodeDecode*", "UnicodeEncode*"),
            *(
                "*DecodeError*",
                "*DecodingFailed*",
                "Pickling*",
                "Unpickling*",
                "*MessageConversion*",
            ),
            *(
                "*NotReadable*",
                "MismatchedInput*",
                "UnrecognizedProperty*",
                "InvalidProtocolBuffer*",
            ),
            *(
                "Avro*",
                "Xml*",
                "XML*",
                "YAML*",
                "*ParseE*",
                "*ParserE*",
                "Unmarshal*",
                "SyntaxError",
            ),
        ),
    ),
    (
        reasons.TRANSPORT_UNAVAILABLE,
        (
            *("*Connect*", "*Disconnect*", "*Reconnect*", "Socket*", "*BrokenPipe*"),
            *("*Unreachable*", "NoRouteToHost*", "UnknownHost*", "*NameResolution*", "gaierror"),
            *("DNSError", "*SSL*", "*TLS*", "*Transport*", "*Network*", "AlreadyClosed*"),
            *("ClosedChannel*", "*ProtocolError", "NoHttpResponse*", "ResourceAccess*", "URLError"),
            *(
                "FetchError",
                "MaxRetryError",
                "ChunkedEncodingError",
                "NoBrokersAvailable",
                "OpError",
            ),
            *("*url.Error", "*amqp.Error", "ECONN*", "ENOTFOUND", "EAI_AGAIN", "EPIPE"),
            *("EHOST*", "ENET*"),
        ),
    ),
    (reasons.INVALID_MESSAGE, ("InvalidMessage*", "InvalidTask*")),
    (reasons.POISON_MESSAGE, ("Poison*",)),
    (
        reasons.VALIDATION_FAILURE,
        (
            *("*Validation*", "Argument*", "IllegalArgument*", "InvalidArgument*"),
            *("*ArgumentNotValid*", "RecordInvalid", "ZodError", "*ConstraintViolation*"),
            *("*IntegrityViolation*", "IntegrityError", "UniqueViolation*", "*UniqueConstraint*"),
            "DuplicateKey*",
        ),
    ),
    (
        reasons.DEPENDENCY_FAILURE,
        (
            *("*ServiceUnavailable*", "*BadGateway*", "*InternalServerError*", "HttpRequest*"),
            *("HTTPError", "HTTPStatusError", "HttpServerError*", "ServerError", "ServerException"),
            *("ClientResponseError", "WebException", "AxiosError", "Feign*", "*Refit.ApiException"),
            *(
                "*TooManyRequests*",
                "*RateLimit*",
                "*Throttl*",
                "*CircuitBreaker*",
                "BrokenCircuit*",
            ),
            *(
                "CallNotPermitted*",
                "*Rpc*",
                "StatusRuntime*",
                "Sql*",
                "SQL*",
                "Db*",
                "DB*",
                "*JDBC*",
            ),
            *("*Database*", "*DataAccess*", "*Deadlock*", "CannotAcquireLock*", "OperationalError"),
            *("InterfaceError", "StatementInvalid", "QueryException", "PDOException", "PSQL*"),
            *("Npgsql*", "Postgres*", "PgError", "MySql*", "MySQL*", "Oracle*", "Mongo*", "Redis*"),
            *("Jedis*", "Prisma*", "SQLite3::*", "PG::*", "Mysql2::*", "*pq.Error"),
        ),
    ),
)
"""The built-in table, from the first line on: the last part of the exception's type.

A name with a dot or colons is compared with the whole type.
"""

DEATHS = {
    "rejected": reasons.HANDLER_EXCEPTION,
    "expired": reasons.TIMEOUT_EXCEEDED,
    "maxlen": reasons.DEPENDENCY_FAILURE,
    "delivery_limit": reasons.POISON_MESSAGE,
}
"""RabbitMQ's words for why it dead-letters."""

_REJECTED = {
    "RETRIES_EXCEEDED": reasons.POISON_MESSAGE,
    "TASKMESSAGE_INVALID": reasons.INVALID_MESSAGE,
}
"""What a worker says when it gives a message up (`x-caf-worker-rejected`)."""


def find_candidates(
    facts: Facts, rules: Sequence[ReasonRule], most_crashes: int = MOST_CRASHES
) -> Candidates:
    """Return what a failure may be classified under; its message is not looked at."""
    if facts.unsent:
        # Before all others: the exception is that of an earlier failure, which was not repeated.
        away = not facts.unsendable
        return Candidates(
            rules=(), otherwise=reasons.TRANSPORT_UNAVAILABLE if away else reasons.INVALID_MESSAGE
        )
    if facts.known is not None:
        # Its trace and its headers are not at hand: derived anew the reason would be another one.
        return Candidates(rules=(), otherwise=facts.known)
    left = tuple(rule for rule in rules if rule.may_match(facts))
    built_in = _find_built_in(facts, most_crashes)
    renamed = (rule.reason for rule in left if built_in in rule.built_in)
    return Candidates(
        rules=tuple(rule for rule in left if not rule.built_in),
        otherwise=next(renamed, built_in),
    )


def _find_built_in(facts: Facts, most_crashes: int) -> str:
    said = facts.failure_reason
    named = reasons.find_named(said)
    if named is not None and named != reasons.HANDLER_EXCEPTION:
        # That one says nothing: earlier workers wrote it of each exception, a refused connection too.
        return named
    if facts.rejected in _REJECTED:
        return _REJECTED[facts.rejected]
    if facts.crashes > most_crashes:
        return reasons.POISON_MESSAGE
    if facts.exception_type is not None:
        return _of_exception(facts.inner or facts.exception_type)
    if said is None or said == UNSAID:
        return reasons.UNKNOWN
    return DEATHS.get(said, reasons.HANDLER_EXCEPTION)


@lru_cache(maxsize=_MOST_TYPES)
def _of_exception(exception_type: str) -> str:
    name = name_of(exception_type)
    found = (
        reason
        for reason, of_name, of_type in _BY_EXCEPTION
        if matches(of_name, name) or matches(of_type, exception_type)
    )
    return next(found, reasons.HANDLER_EXCEPTION)


def _is_whole(wanted: str) -> bool:
    """Say whether a name of the table is that of a whole type."""
    return "." in wanted or "::" in wanted


_BY_EXCEPTION = [
    (
        reason,
        tuple(each for each in wanted if not _is_whole(each)),
        tuple(each for each in wanted if _is_whole(each)),
    )
    for reason, wanted in EXCEPTIONS
]
"""The built-in table, apart what is compared with the name and what with the whole type."""


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
