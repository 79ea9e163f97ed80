"""Consumers on the far side: messages fail, fail again, and are confirmed."""

from datetime import datetime, timedelta
from uuid import uuid4

from retrier.domain import headers
from retrier.domain.wire import Edit
from tests.properties.model.sends import STAGING, Sent
from tests.properties.model.world import World
from tests.support.factories import ERROR_QUEUE, FAILED_AT
from tests.support.raw_messages import raw_properties, retrier_headers

BROKEN = b"\xff\xff broken"


class FarSide:
    """All consumers together. Times go on by a second whenever somebody looks at the clock."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._broker = world.transport.broker
        self._codec = world.transport.codec
        self._seconds = 0
        self._number = 0
        self.failed: list[tuple[bytes, bytes]] = []
        self.confirmed: list[bytes] = []
        self.put = 0
        """How many messages were put on the error queue."""

    def time(self, when: str) -> datetime | None:
        """Return a time: the present, long ago, or none."""
        self._seconds += 1
        present = FAILED_AT + timedelta(seconds=self._seconds)
        return {"now": present, "early": FAILED_AT - timedelta(hours=1), "none": None}[when]

    def fail(self, queue: str, *, when: str = "now", stream: str | None = None) -> None:
        """Let a message nobody knows fail, of a stream if one is named."""
        self._number += 1
        extra = {"Shop.Number": str(self._number)} | self._failure(queue, when)
        extra |= {} if stream is None else {headers.STREAM: stream}
        raw = raw_properties(retrier_headers(**extra), message_id=f"m{self._number}")
        self._put(raw, b"body of message %d" % self._number)

    def fail_again(
        self, sent: Sent, *, when: str = "now", retry_id: str = "this", drops: str = ""
    ) -> None:
        """Let a retry fail: with its retry id, another one, or none; perhaps without a header."""
        edit = Edit(
            drop_headers=lambda name: name in {headers.RETRY_ID, drops},
            set_headers=self._failure(sent.queue, when)
            | {"this": {headers.RETRY_ID: sent.retry_id}, "another": OTHER, "none": {}}[retry_id],
        )
        self._put(self._codec.edit(sent.raw, edit), sent.body)

    def fail_anew(self, which: int, *, when: str) -> bool:
        """Let a message that failed fail once more without a retry: somebody published it again."""
        if not self.failed:
            return False
        raw, body = self.failed[which % len(self.failed)]
        queue = self._codec.read(raw).text("Retrier.FailedQueue") or ""
        self._put(self._codec.edit(raw, Edit(set_headers=self._failure(queue, when))), body)
        return True

    def redeliver(self, which: int) -> bool:
        """Let the broker hand out once more what it handed out before."""
        if not self.failed:
            return False
        raw, body = self.failed[which % len(self.failed)]
        self.put += 1
        self._broker.put(ERROR_QUEUE, raw, body, redelivered=True)
        return True

    def confirm(self, key: str, *, when: str) -> None:
        """Send the word that a retry succeeded."""
        at = self.time(when)
        said = at.strftime("%Y-%m-%d %H:%M:%S:%f Z") if at else "soon"
        raw = raw_properties({headers.UNIQUE_MESSAGE_ID: key, headers.RETRY_SUCCESSFUL: said})
        self.confirmed.append(raw)
        self._put(raw, b"")

    def confirm_twice(self, which: int) -> bool:
        """Send a confirmation that was sent before."""
        if self.confirmed:
            self._put(self.confirmed[which % len(self.confirmed)], b"")
        return bool(self.confirmed)

    def send_nonsense(self, kind: str) -> None:
        """Put something on the error queue that is no failure."""
        ours = self._world.bench.context.retries.installation_id
        lost = {headers.INSTALLATION_ID: ours, headers.STAGING_ID: str(uuid4())}
        raw = {"broken": BROKEN, "strange": raw_properties({}), "lost copy": raw_properties(lost)}
        self._put(raw[kind], b"")

    def dead_letter(self, which: int) -> bool:
        """Let the broker bring a copy to the error queue that went to the staging queue once."""
        published = self._world.transport.published
        copies = [each for each in published if each.queue == STAGING]
        if copies:
            copy = copies[which % len(copies)]
            self._put(self._codec.edit(copy.raw, DEAD), copy.body)
        return bool(copies)

    def _failure(self, queue: str, when: str) -> dict[str, str]:
        at = self.time(when)
        return {
            "Retrier.FailedQueue": queue,
            "Retrier.TimeOfFailure": at.isoformat() if at else "",
            "Retrier.Endpoint": "shop",
            "Retrier.Exception.Type": ("ValueError", "KeyError")[self._seconds % 2],
            "Retrier.Exception.Message": f"failure {self._seconds}",
        }

    def _put(self, raw: bytes, body: bytes) -> None:
        self.put += 1
        if body:
            self.failed.append((raw, body))
        self._broker.put(ERROR_QUEUE, raw, body)


DEAD = Edit(set_headers={"x-death": "as the broker writes it"})
OTHER = {headers.RETRY_ID: "00000000-0000-0000-0000-000000000000"}
