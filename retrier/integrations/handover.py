"""Hands over what has to be told of a task that has ended; what cannot be now is owed, and said."""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from retrier.integrations.account import Account, Deed
from retrier.integrations.owed import Debt, Hold, Owed, never

LONGEST_SAID = 16 * 1024
"""Characters of a line from which a task can be rebuilt."""
BEHIND_OTHERS = "others wait for the same queue"


def call(act: Callable[[], None]) -> None:
    """Call it here and now."""
    act()


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """A message about a task. `publish` raises what `describe` puts into words.

    `publish_late` does the same over a connection of its own, so that nobody waits for it. `hold`
    keeps the task from being acknowledged, if it is not acknowledged yet; else `rebuild` makes the text
    from which a person can do so. `settle_by` calls what lets the task go, in a thread that may.
    """

    task: str
    task_id: str
    queue: str
    done: Deed
    left: Deed
    publish: Callable[[], None]
    publish_late: Callable[[], None]
    describe: Callable[[Exception], str]
    size: int = 0
    hold: Hold | None = None
    settle_by: Callable[[Callable[[], None]], object] = call
    is_void: Callable[[], bool] = never
    rebuild: Callable[[], str] | None = None


class Handovers:
    """Where messages about tasks are handed over; used by all threads of a process."""

    def __init__(self, account: Account, owed: Owed | None = None) -> None:
        """`owed`: what is tried again, and how often."""
        self._account = account
        self._owed = owed or Owed()

    def hand_over(self, message: Handover) -> None:
        """Publish it; or owe it, and say so. Never raises."""
        why = self._try(message)
        if why is None:
            self._account.note(message.done, message.task, message.task_id)
        elif message.hold is not None:
            message.hold.is_owed = True
            self._account.note(Deed.HELD_BACK, message.task, message.task_id, why)
            self._owe(message, 0)
        else:
            is_kept = self._owe(message, max(1, message.size))
            told = why if is_kept else f"{why}; it is not tried again, for too much is already"
            if message.rebuild is not None:
                told = f"{told}. The task: {message.rebuild()}"
            self._account.note(message.left, message.task, message.task_id, told)

    def finish(self, seconds: float) -> None:
        """Try once more what is owed, before the process ends. Never raises."""
        self._owed.finish(seconds)

    def _try(self, message: Handover) -> str | None:
        if self._owed.is_owed_to(message.queue):
            return BEHIND_OTHERS
        try:
            message.publish()
        except Exception as error:  # noqa: BLE001 - whatever it is, the task has its own outcome
            return message.describe(error)
        return None

    def _owe(self, message: Handover, size: int) -> bool:
        debt = Debt(
            queue=message.queue,
            publish=message.publish_late,
            paid=partial(self._pay, message),
            is_void=message.is_void,
            size=size,
        )
        return self._owed.add(debt)

    def _pay(self, message: Handover) -> None:
        self._account.note_late(message.done, message.task, message.task_id)
        if message.hold is not None:
            message.settle_by(message.hold.let_go)


def describe_task(
    task: str, task_id: str, queue: str, headers: Mapping[str, object], body: bytes
) -> str:
    """Return all that is needed to send a task again, as JSON; cut off where it is too long.

    A body of JSON is shown as it is: arguments and keywords are in it. Any other is in base 64.
    """
    about = {"task": task, "id": task_id, "queue": queue}
    try:
        shown: object = json.loads(body)
    except (ValueError, RecursionError):
        shown = {"base64": base64.b64encode(body[:LONGEST_SAID]).decode()}
    said = json.dumps({**about, "body": shown, "headers": dict(headers)}, default=repr)
    if len(said) <= LONGEST_SAID:
        return said
    return f"{said[:LONGEST_SAID]} ... (cut off, it has {len(said)} characters)"
