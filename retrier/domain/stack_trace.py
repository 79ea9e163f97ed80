"""Where an exception was thrown: the telling frame of a .NET, Java, Node or Python stack trace."""

import re

LONGEST_LINE = 2000

PYTHON = re.compile(r'\s*(?:\|\s*)*File "(?P<file>[^"]+)", line \d+(?:, in (?P<function>.+))?')
AT = re.compile(r"\s*at (?:async )?(?P<frame>.+)")
NODE_FILE = re.compile(r"(?P<file>\S+?):\d+(?::\d+)?")
CALL = re.compile(r"(?P<function>[^()]+)\((?P<inside>[^()]*)")
JAVA_PLACE = re.compile(r"[^\s,]+\.\w+(?::\d+)?|Native Method|Unknown Source|<generated>")
"""What Java writes where .NET has parameters: these always have a space or are empty."""


def first_frame(stack_trace: str, exception_message: str | None) -> str | None:
    """Return the frame that names the cause, without lines and paths; None if none is found.

    .NET, Java, Node: the first `at` line. Python: the last `File` line, the innermost call. The
    exception's message is taken out first: it may look like a frame.
    """
    lines = [line[:LONGEST_LINE] for line in _without(stack_trace, exception_message).splitlines()]
    python = [match for line in lines if (match := PYTHON.match(line))]
    if python:
        return _python_frame(python[-1])
    frames = (_at_frame(match["frame"]) for line in lines if (match := AT.match(line)))
    return next((frame for frame in frames if frame), None)


def _without(stack_trace: str, message: str | None) -> str:
    """Take the message out where a header line quotes it, not wherever its letters occur."""
    return stack_trace.replace(f": {message}", ": ") if message else stack_trace


def _python_frame(match: re.Match[str]) -> str:
    return f"{_file_name(match['file'])} in {match['function'] or '<module>'}"


def _at_frame(frame: str) -> str | None:
    if place := NODE_FILE.fullmatch(frame.strip()):
        return _file_name(place["file"])
    call = CALL.match(frame)
    if call is None:
        return None
    function = call["function"]
    if function.endswith(" ") or JAVA_PLACE.fullmatch(call["inside"]):
        return function.strip()
    return f"{function}({call['inside']})"


def _file_name(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]
