"""What policies see of a failure, and what is inside an exception that says nothing.

A stack trace of Java, .NET, Python, Node, PHP or Ruby names the causes. Each line is looked at once,
and only the beginning and the end of a long trace.
"""

import re
from collections.abc import Iterator

from retrier.domain.failed_message import Cause, FailureDetails
from retrier.domain.values import dataclass

WRAPPERS = frozenset(
    {
        "AggregateError",
        "AggregateException",
        "ApplicationException",
        "AsyncError",
        "BaseException",
        "BaseExceptionGroup",
        "CompletionException",
        "CompositeException",
        "EJBException",
        "Error",
        "ErrorException",
        "Exception",
        "ExceptionGroup",
        "ExecutionException",
        "HandlerFailedException",
        "IOError",
        "IOException",
        "InvocationTargetException",
        "ListenerExecutionFailedException",
        "MessageDeliveryException",
        "MessageHandlingException",
        "MessagingException",
        "NestedRuntimeException",
        "NestedServletException",
        "OSError",
        "ReflectionException",
        "RetryError",
        "RuntimeCamelException",
        "RuntimeError",
        "RuntimeException",
        "ServletException",
        "StandardError",
        "SystemCallError",
        "SystemException",
        "TargetInvocationException",
        "Throwable",
        "TypeInitializationException",
        "UncheckedExecutionException",
        "UncheckedIOException",
        "UndeclaredThrowableException",
        "UnhandledError",
        "WrappedException",
        "errorString",
        "fundamental",
        "joinError",
        "withMessage",
        "withStack",
        "wrapError",
        "wrapErrors",
    }
)
"""Types that say nothing of the kind of a failure, by the last part of their names."""

TYPE_END = re.compile(r"[.+$/:\\]")
"""What stands before the last part of the name of a type."""

_HALF = 32 * 1024
"""Characters that are looked at, at the beginning and at the end of a trace."""
_TEXT = 4096

_FETCH_FAILED = "fetch failed"

_NAME = r"[A-Za-z_*][\w.+$`\\:*/]{0,299}"
_MARKS = (
    ("aused by: ", re.compile(rf"^[ \t|]*[Cc]aused by: ({_NAME})", re.MULTILINE)),
    ("---> ", re.compile(rf"---> (?:\(Inner Exception #\d{{1,4}}\) )?({_NAME})")),
    ("[cause]: ", re.compile(rf"\[cause\]: ({_NAME})")),
)
"""How Java, .NET and Node name what is inside, from the outermost inward.

Each is looked for as a plain text first, which costs little where nothing is inside.
"""

_PHP = re.compile(rf"(?:\A|^Next )({_NAME})", re.MULTILINE)
_RUBY = re.compile(r"^[^\n]{0,2000} \(([A-Z]\w{0,99}(?:::\w{1,99}){0,9})\)$", re.MULTILINE)
_PYTHON_END = re.compile(rf"({_NAME})(?:: |:?$)")
_PYTHON_GROUP = re.compile(r"\s*\| ?")

_SAID = {
    "connection refused": "ECONNREFUSED",
    "connection reset": "ECONNRESET",
    "broken pipe": "EPIPE",
    "no such host": "ENOTFOUND",
    "name or service not known": "ENOTFOUND",
    "temporary failure in name resolution": "EAI_AGAIN",
    "no route to host": "EHOSTUNREACH",
    "network is unreachable": "ENETUNREACH",
    "i/o timeout": "ETIMEDOUT",
    "timed out": "ETIMEDOUT",
    "context deadline exceeded": "ETIMEDOUT",
}
"""What the operating system is quoted with, in small letters, and its code."""

_CODES = frozenset({*_SAID.values(), "ECONNABORTED", "ESOCKETTIMEDOUT"})


def name_of(exception_type: str) -> str:
    """Return the last part of the name of a type."""
    return TYPE_END.split(exception_type)[-1]


def find_inner(
    exception_type: str | None, message: str | None, stack_trace: str | None
) -> str | None:
    """Return the first type inside that says something; None if the outermost does, or none does.

    Where only a text tells it, as in Go and Node, it is the code of the operating system.
    """
    if exception_type is None:
        return None
    name = name_of(exception_type)
    if name not in WRAPPERS and not (name == "TypeError" and message == _FETCH_FAILED):
        return None
    trace = _cut(stack_trace or "")
    inner = (each for each in _walk(name, trace) if name_of(each) not in WRAPPERS)
    return next(inner, None) or _find_said((message or "")[:_TEXT]) or _find_said(trace)


def _cut(trace: str) -> str:
    return trace if len(trace) <= 2 * _HALF else f"{trace[:_HALF]}\n{trace[-_HALF:]}"


def _walk(outermost: str, trace: str) -> Iterator[str]:
    """Yield the types inside, from the outermost inward."""
    if "Traceback (most recent call last)" in trace:
        ends = list(_find_python_ends(trace))
        yield from ends if outermost.endswith("ExceptionGroup") else reversed(ends)
        return
    for mark, pattern in _MARKS:
        if mark in trace:
            yield from (each.rstrip(":") for each in pattern.findall(trace))
    if "\nNext " in trace:
        # PHP begins with the innermost one.
        yield from (each.rstrip(":") for each in reversed(_PHP.findall(trace)[:-1]))
    if ":in " in trace:
        yield from _RUBY.findall(trace)


def _find_python_ends(trace: str) -> Iterator[str]:
    """Yield the type of each exception of a Python trace: the line behind its last frame."""
    in_frames = False
    for line in trace.split("\n"):
        if in_frames and line.startswith(" ") and "|" not in line:
            continue
        text = line[group.end() :] if (group := _PYTHON_GROUP.match(line)) else line
        if text.lstrip(" +").startswith("Traceback (most recent call last)"):
            in_frames = True
        elif in_frames and text.strip() and not text[0].isspace():
            in_frames = False
            if match := _PYTHON_END.match(text.rstrip()):
                yield match[1].rstrip(":")


def _find_said(text: str) -> str | None:
    """Return the code of what is quoted first."""
    found = [(_find_word(text, code), code) for code in _CODES]
    small = text.lower()
    found += [(_find_word(small, said), code) for said, code in _SAID.items()]
    return min(((at, code) for at, code in found if at >= 0), default=(0, None))[1]


def _find_word(text: str, word: str) -> int:
    """Return where it begins; -1 if it is not there, or in the midst of another word."""
    at = text.find(word)
    return -1 if at > 0 and text[at - 1].isalnum() else at


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a rule may match and what a reason is derived from; equal facts have equal reasons.

    `failure_reason` is the headers' own word. `crashes` is how often a worker crashed over the
    message (`x-caf-worker-retry`); `rejected` is what it said when it gave up
    (`x-caf-worker-rejected`). `inner` is the type inside an exception that says nothing. `unsent` means that
    a retry could not be sent: the broker returned or refused it; `unsendable`, that it does so each
    time, for what the message is. `known` is the reason that the failure has already, where it has not happened anew.
    """

    queue: str
    endpoint: str | None = None
    message_type: str | None = None
    exception_type: str | None = None
    exception_message: str | None = None
    failure_reason: str | None = None
    crashes: int = 0
    rejected: str | None = None
    inner: str | None = None
    unsent: bool = False
    unsendable: bool = False
    known: str | None = None


def facts_of(details: FailureDetails | Cause) -> Facts:
    """Return what the failure headers say; or the stored cause, which knows of no crashes."""
    worker = details if isinstance(details, FailureDetails) else None
    trace = worker.stack_trace if worker else None
    return Facts(
        queue=details.queue,
        endpoint=details.endpoint,
        message_type=details.message_type,
        exception_type=details.exception_type,
        exception_message=details.exception_message,
        failure_reason=details.failure_reason,
        crashes=worker.crashes if worker else 0,
        rejected=worker.rejected if worker else None,
        inner=find_inner(details.exception_type, details.exception_message, trace),
    )
