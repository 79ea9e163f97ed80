"""Handlers: how they are registered, and how one is called with a message."""

import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from retrier.domain.headers import COMPLETED_STEPS
from retrier.domain.streams import find_said, read_said, unite
from retrier.domain.wire import header_text
from retrier.errors import ConfigurationError
from retrier.worker.outcomes import (
    Broken,
    Done,
    Ended,
    Failed,
    InvalidMessage,
    Postponed,
    Problem,
    Reason,
    Transient,
)

_FORKS = [0]
"""In how many forks, one in the other, this process is. To ask for its id is a call to the system."""


def _note_fork() -> None:
    _FORKS[0] += 1


os.register_at_fork(after_in_child=_note_fork)

_HERE = str(Path(__file__).parent)
_MOST_ARGUMENTS = 2
_DEEPEST = 20
"""So deep is a field looked for that cannot be told."""
_NOT_JSON = (b"NaN", b"Infinity")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What a handler is told about its message, if it takes a second argument."""

    id: str | None
    queue: str
    headers: Mapping[str, object]
    body: bytes
    crashes: int
    """How often a handler was started with this message and did not finish: its process died."""
    retry_id: str | None
    """The same on all copies of one retry; None if the message is no retry."""
    said: list[str] = field(default_factory=list, repr=False, compare=False)
    """What the handler has said of completed steps."""

    @property
    def completed_steps(self) -> str | None:
        """What is done already, as `Retrier.CompletedSteps` says it: by all attempts so far."""
        return unite([header_text(self.headers, COMPLETED_STEPS), *self.said])

    def complete(self, *steps: str | int) -> None:
        """Note steps that are done: names, or flags. If the message fails, its retry has them."""
        self.said.extend(read_said(steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A function or a class that handles the messages of one queue."""

    queue: str
    name: str
    call: Callable[..., Any]
    arguments: int
    parse: Callable[[bytes], object]
    message_type: str | None
    is_class: bool

    def handle(self, message: Message, tries: int = 1, *, tells: bool = True) -> Ended:
        """Call it, up to `tries` times; never raises, except MemoryError.

        `tells`: somebody is told its result. If not, it may return whatever it likes.
        """
        ended = self._handle_once(message, 1, tells=tells)
        for attempt in range(2, tries + 1):
            if not _is_worth_a_try(ended):
                break
            ended = self._handle_once(message, attempt, tells=tells)
            if isinstance(ended, Done):
                ended = replace(ended, attempts=attempt)
        return ended

    def _handle_once(self, message: Message, attempt: int, *, tells: bool) -> Ended:
        forks = _FORKS[0]
        try:
            returned = self._call(self.parse(message.body), message)
        except MemoryError:
            raise
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything, also SystemExit
            if _FORKS[0] != forks:
                leave_child(error)
            message.complete(*find_said(error))
            return _judge_raised(error, attempt)
        if _FORKS[0] != forks:
            leave_child(None)
        return _judge(returned, tells=tells)

    def _call(self, content: object, message: Message) -> object:
        made = self.call(*(content, message)[: self.arguments])
        return made() if self.is_class else made


def make_handler(queue: str, call: Callable[..., Any], model: Any) -> Handler:
    """Return the handler of a queue. Raises ConfigurationError for what cannot be called."""
    is_class = inspect.isclass(call)
    problems = [*_find_problems(queue, call, is_class=is_class)]
    if problems:
        raise ConfigurationError(problems)
    return Handler(
        queue=queue,
        name=call.__name__,
        call=call,
        arguments=_count_arguments(call) or 1,
        parse=make_parser(model),
        message_type=None if model in (None, bytes) else getattr(model, "__name__", None),
        is_class=is_class,
    )


def make_parser(model: Any) -> Callable[[bytes], object]:
    """Return what makes the handler's argument of a body: bytes, or what pydantic reads.

    An error names fields and rules, and never a value: the body may hold what nobody may see.
    """
    if model in (None, bytes):
        return bytes
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - only with a model

    adapter = TypeAdapter(model)

    def parse(body: bytes) -> object:
        try:
            return adapter.validate_json(body)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            raise InvalidMessage("; ".join(_name(each) for each in found)) from None

    return parse


def _name(error: Mapping[str, Any]) -> str:
    path = ".".join(map(str, error["loc"]))
    return f"{path}: {error['type']}" if path else str(error["type"])


def _find_problems(queue: str, call: Any, *, is_class: bool) -> Iterator[str]:
    name = getattr(call, "__name__", None)
    if not queue:
        yield "a handler needs the name of a queue"
    if not callable(call) or name is None:
        yield f"the handler of {queue!r} is no function and no class"
        return
    body = call.__call__ if is_class else call
    if inspect.iscoroutinefunction(body) or inspect.isgeneratorfunction(body):
        yield f"{name}: a handler is a plain function, not async and no generator"
    elif is_class and not _is_called_without_arguments(call):
        yield f"{name}: a class needs a method __call__(self), which does the work"
    elif _count_arguments(call) is None:
        yield f"{name}: a handler takes one argument, the content, or two: content and Message"


def _is_called_without_arguments(made: Any) -> bool:
    if "__call__" not in dir(made) or not inspect.isfunction(made.__call__):
        return False
    try:
        inspect.signature(made.__call__).bind(None)
    except TypeError:
        return False
    return True


def _count_arguments(call: Callable[..., Any]) -> int | None:
    """Return how many arguments to call it with: two only if it needs a second one."""
    signature = inspect.signature(call)
    for number in range(1, _MOST_ARGUMENTS + 1):
        try:
            signature.bind(*range(number))
        except TypeError:
            continue
        return number
    return None


def leave_child(error: BaseException | None) -> NoReturn:
    """End a process that the handler has forked: it is no worker, and the connections are not its own.

    It ends as a program ends that comes to its end, or raises this.
    """
    code: object = 0
    match error:
        case None:
            pass
        case SystemExit(code=given):
            code = given
        case _:
            traceback.print_exception(error)
            code = 1
    if not isinstance(code, int | None):
        sys.stderr.write(f"{code}\n")
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit((code or 0) & 0xFF)


def _judge(returned: object, *, tells: bool) -> Done:
    is_failure = isinstance(returned, Failed)
    result = returned.details if isinstance(returned, Failed) else returned
    if result is None or not tells:
        return Done(by_own_account=is_failure)
    try:
        return Done(_to_json(result), by_own_account=is_failure)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - values of somebody else's, which may raise anything
        # The work is done. Whatever its value is, it must not be a reason to do it again.
        return Done(by_own_account=is_failure, untold=_describe_unserializable(result, error))


def _describe_unserializable(result: object, error: Exception) -> str:
    """Return which field of a result cannot be told, its type, and why; never a value."""
    where, what = "", result
    seen = {id(result)}
    for _ in range(_DEEPEST):
        inner = _find_untold(what)
        if inner is None or id(inner[1]) in seen:
            break
        name, what = inner
        seen.add(id(what))
        where = f"{where}.{name}" if where else name
    field_name = f"its field {where}" if where else "it"
    why = "" if isinstance(error, TypeError | _pydantic_error()) else f" ({type(error).__name__})"
    return f"{field_name} is a {type(what).__name__}, which is no JSON{why}"


def _find_untold(value: object) -> tuple[str, object] | None:
    """Return the first part of a value that cannot be told, with its name."""
    parts: Iterable[tuple[object, object]]
    match value:
        case Mapping():
            parts = value.items()
        case list() | tuple() | set() | frozenset():
            parts = enumerate(value)
        case _ if hasattr(value, "__dict__") and not isinstance(value, type):
            parts = vars(value).items() if _is_told_by_field(value) else ()
        case _:
            parts = ()
    for name, part in parts:
        try:
            _to_json(part)
        except Exception:  # noqa: BLE001 - as in _judge
            return str(name), part
    return None


def _is_told_by_field(value: object) -> bool:
    return is_dataclass(value) or hasattr(type(value), "model_fields")


def _pydantic_error() -> type[Exception]:
    from pydantic_core import PydanticSerializationError  # noqa: PLC0415 - as in _to_json

    return PydanticSerializationError


def _judge_raised(error: BaseException, attempt: int) -> Ended:
    match error:
        case Transient():
            return Postponed(type(error.__cause__ or error).__name__)
        case InvalidMessage():
            return Broken(make_problem(error, Reason.INVALID), attempt)
        case TimeoutError():
            return Broken(make_problem(error, Reason.TIMEOUT), attempt)
        case _:
            return Broken(make_problem(error, Reason.EXCEPTION), attempt)


def _to_json(value: object) -> bytes:
    """Return it as JSON. A number that JSON has not (NaN, infinity) is null, as in a model."""
    from pydantic_core import to_json  # noqa: PLC0415 - only if something is returned

    written = to_json(value, inf_nan_mode="null")
    if any(word in written for word in _NOT_JSON):  # a model may insist on it
        json.loads(written, parse_constant=_refuse)
    return written


def _refuse(word: str) -> None:
    raise ValueError(f"a result cannot have {word}: it is not JSON")


def _is_worth_a_try(ended: Ended) -> bool:
    match ended:
        case Broken(problem):
            return problem.reason is not Reason.INVALID
        case _:
            return False


def make_problem(error: BaseException, reason: Reason, caller: str = _HERE) -> Problem:
    """Return an exception in words.

    Left out of the trace are the first frames, those in the folder `caller`: that code called what
    failed, and is the same in all traces.
    """
    return Problem(
        reason=reason,
        type=type(error).__name__,
        message=_say(error),
        stack_trace=_trace(error, caller),
        steps=find_said(error),
    )


def _say(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as worse:  # noqa: BLE001 - an exception that cannot even be told
        return f"({type(worse).__name__} while it was told)"


def _trace(error: BaseException, caller: str) -> str:
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(caller):
        frames = frames.tb_next
    try:
        return "".join(traceback.format_exception(type(error), error, frames))
    except Exception as worse:  # noqa: BLE001 - an exception that cannot even be told
        return f"{type(error).__name__}: ({type(worse).__name__} while it was told)\n"
