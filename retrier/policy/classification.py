"""Classification: which reason a failure has. An operator's rules first, then the built-in table."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from retrier.policy import globs, reasons
from retrier.policy.chains import name_of
from retrier.policy.facts import Facts
from retrier.policy.globs import Globs
from retrier.policy.pattern_time import LOOKED_AT

_MOST_TYPES = 1024
"""Types of exceptions whose reason is remembered: a hundred patterns are compared to find one."""

MOST_CRASHES = 10
"""How often a worker may crash over a message before it is poison, unless the settings say more."""

UNSAID = "no failure headers"
"""What `failure_reason` says of a message that arrived without failure headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonRule:
    """Gives a reason to the failures that match all its conditions; an empty one asks nothing.

    `message` is searched in the beginning of the exception's message. A rule with `built_in` is
    asked last: it gives another name to what is left with one of these reasons.
    """

    reason: str
    queue: Globs = ()
    exception: Globs = ()
    failure_reason: Globs = ()
    message: re.Pattern[str] | None = None
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
        return all(globs.matches(wanted, text) for wanted, text in pairs if wanted)

    def finds(self, text: str | None) -> bool:
        """Say whether the message has what is searched for, if anything is."""
        if self.message is None:
            return True
        return text is not None and self.message.search(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What is left to be asked of failures that differ in their messages only.

    `otherwise` is their reason if none of the rules finds what it searches for.
    """

    rules: tuple[ReasonRule, ...]
    otherwise: str

    def reason_of(self, message: str | None) -> str:
        """Return the reason of a failure with this message."""
        text = message and message[:LOOKED_AT]
        return next((rule.reason for rule in self.rules if rule.finds(text)), self.otherwise)


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
        return Candidates(rules=(), otherwise=reasons.TRANSPORT_UNAVAILABLE)
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
    names = name_of(exception_type), exception_type
    found = (
        reason
        for reason, wanted in EXCEPTIONS
        if any(globs.matches((each,), names[_is_whole(each)]) for each in wanted)
    )
    return next(found, reasons.HANDLER_EXCEPTION)


def _is_whole(wanted: str) -> bool:
    """Say whether a name of the table is that of a whole type."""
    return "." in wanted or "::" in wanted
