"""A consumer in a process of its own that confirms each retry at once, and says what came when.

`python -m tests.benchmarks.confirming URL QUEUE COUNT` writes a line when it consumes, then a line
for each message in the order in which they came: the seconds since the first one, and its id.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from subprocess import PIPE, Popen
from time import perf_counter

from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.benchmarks.raw_line import RawLine
from tests.support.raw_messages import raw_properties

UNIQUE_ID = "ServiceControl.Retry.UniqueMessageId"
ANSWERS_TO = "ServiceControl.Retry.AcknowledgementQueue"
SUCCESSFUL = "ServiceControl.Retry.Successful"
CONSUMES = "consumes"
PREFETCH = 500


@dataclass(frozen=True, slots=True)
class Handled:
    """A retry that was confirmed, so many seconds after the first one."""

    after: float
    unique_id: str


def confirm_all(url: str, queue: str, count: int) -> Iterator[Handled]:
    """Confirm so many retries, each as soon as it is there."""
    line, codec, begin = RawLine(url), AmqpPropertyCodec(), 0.0
    line.confirm()
    line.consume(queue, PREFETCH)
    sys.stdout.write(f"{CONSUMES}\n")
    sys.stdout.flush()
    for _ in range(count):
        while not line.inbox:
            line.read()
        taken = line.inbox.popleft()
        begin = begin or perf_counter()
        headers = codec.read(taken.raw).headers
        unique_id = str(headers[UNIQUE_ID])
        answer = {UNIQUE_ID: unique_id, SUCCESSFUL: "true"}
        line.publish(str(headers[ANSWERS_TO]), raw_properties(answer, delivery_mode=2), b"")
        line.ack(taken.tag)
        yield Handled(perf_counter() - begin, unique_id)
    line.settle()
    line.close()


class Confirming:
    """Such a process. `collect` waits until it has confirmed everything."""

    def __init__(self, url: str, queue: str, count: int) -> None:
        words = [sys.executable, "-m", __spec__.name, url, queue, str(count)]
        self._process = Popen(words, stdout=PIPE, text=True)  # noqa: S603 - our own module
        if self._process.stdout is None or self._process.stdout.readline().strip() != CONSUMES:
            raise RuntimeError("the consumer does not consume")

    def collect(self, deadline: float) -> list[Handled]:
        """Return what it handled, in its order."""
        told, _ = self._process.communicate(timeout=deadline)
        if self._process.returncode:
            raise RuntimeError(f"the consumer ended with {self._process.returncode}")
        pairs = (line.split() for line in told.splitlines())
        return [Handled(float(after), unique_id) for after, unique_id in pairs]

    def end(self) -> None:
        """End it, if it lives."""
        self._process.kill()
        self._process.communicate()


if __name__ == "__main__":
    for handled in list(confirm_all(sys.argv[1], sys.argv[2], int(sys.argv[3]))):
        sys.stdout.write(f"{handled.after:.6f} {handled.unique_id}\n")
