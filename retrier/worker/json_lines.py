"""A format for the log of a worker: one JSON object a line, for whoever wants it."""

import json
import logging
from datetime import UTC, datetime

_OF_EVERY_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """A formatter: time, level, logger and message, and the fields that came with the line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. What JSON has not is written as text."""
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: each for name, each in vars(record).items() if name not in _OF_EVERY_RECORD},
        }
        if record.exc_info:
            told["exception_trace"] = self.formatException(record.exc_info)
        try:
            return json.dumps(told, default=str, allow_nan=False)
        except ValueError:  # a number that JSON has not, in a field of somebody else's
            return json.dumps({name: str(value) for name, value in told.items()})
