"""The API as a client sees it, with everything around it under the test's control."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from sqlalchemy import select, update

from retrier.api.application import ApiParts, create_api
from retrier.api.live import LiveFeed
from retrier.api.middleware import Callers
from retrier.app.dialects import try_messages
from retrier.app.policies import read_policies
from retrier.domain.access import AccessRules
from retrier.domain.approval import ApprovalRules
from retrier.domain.failed_message import FailedMessageStatus, Failure, Received, Resolution
from retrier.domain.fields import DeclaredField, names_of
from retrier.events.event import Event
from retrier.events.service import RequestRefused, RetryAsked
from retrier.gateway import Gateway
from retrier.http.access import Gate
from retrier.http.cache import AnswerCache
from retrier.http.parts import MissingQueues, Sights, see_nothing
from retrier.ingestion.parsing import QueueMapping
from retrier.settings import Settings
from retrier.store.engine.database import Database
from retrier.store.lease import Fence, Holder, acquire_lease
from retrier.store.recording import record_received
from retrier.store.schema import failed_messages
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.support.bench import STAGING
from tests.support.factories import ERROR_QUEUE, unique_id
from tests.support.frozen_clock import FrozenClock
from tests.support.http_client import client_of
from tests.support.imports import make_imports
from tests.support.scripted_transport import ScriptedTransport

HOLDER = Holder(
    session_id="5e551011-0000-4000-8000-000000000001", host="host", pid=7, process_started="then"
)

SETTINGS = Settings.model_validate(
    {"broker": {"url": "amqp://127.0.0.1/"}, "ingestion": {"error_queues": [ERROR_QUEUE]}}
)
"""By which failed imports are tried."""


class Api:
    """An API on a database. `wakes` counts how often the processor was woken.

    `asked` holds how many messages each new operation is, and `refused` what was not done. `transport` is what failed imports are
    sent over, and `mappings` is how they are read again. `look_at` looks for queues.
    """

    def __init__(
        self,
        db: Database,
        callers: Callers | None = None,
        rules: AccessRules | None = None,
        approval: ApprovalRules | None = None,
        fields: Sequence[DeclaredField] = (),
        *,
        full_text: bool = False,
    ) -> None:
        self.db = db
        self.transport = ScriptedTransport()
        self.mappings: dict[str, QueueMapping] = {}
        self.clock = FrozenClock()
        self.wakes = 0
        self.asked: list[int] = []
        self.refused: list[RequestRefused] = []
        self.metrics = ("text/plain", b"")
        self.look_at: Callable[[Sequence[str]], MissingQueues] = see_nothing
        self.health: dict[str, tuple[bool, str]] = {"database": (True, "reached")}
        parts = ApiParts(
            db=db,
            sights=Sights(db),
            codec=AmqpPropertyCodec(),
            gateway=Gateway(
                db,
                self._wake,
                frozenset({ERROR_QUEUE, STAGING}),
                self._note,
                imports=make_imports(db, self.transport, self.mappings, clock=self.clock),
                approval=approval,
            ),
            health=lambda: self.health,
            look_at=self._look_at,
            try_messages=partial(try_messages, SETTINGS),
            metrics=lambda _accept: self.metrics,
            version="1.2.3",
            feed=LiveFeed(db),
            read_policies=partial(read_policies, own_queues=frozenset({ERROR_QUEUE, STAGING})),
            session_id=HOLDER.session_id,
            field_names=names_of(fields),
            full_text=full_text,
            callers=callers or Callers(),
            emit=self._note,
            gate=Gate(db, rules, clock=self.clock),
            # By its clock every answer is found in no time: a busy machine would have it remembered.
            cache=AnswerCache(FrozenClock()),
        )
        parts.gateway.fields = fields
        if rules is not None:
            parts.gateway.tokens_given = frozenset(each.name for each in rules.tokens)
        self.app = create_api(parts)
        self.http = client_of(self.app)

    def receive(self, *received: Received) -> list[str]:
        """Let ingestion record what arrived; return the unique ids of the failures, in order."""
        record_received(self.db, received, instance="test")
        return [unique_id(item) for item in received if isinstance(item, Failure)]

    def set_status(self, unique_message_id: str, status: FailedMessageStatus) -> None:
        """Put a message into a status, however it would come into it."""
        resolution = Resolution.BY_HAND if status is FailedMessageStatus.RESOLVED else None
        with self.db.engine.begin() as conn:
            conn.execute(
                update(failed_messages)
                .where(failed_messages.c.unique_message_id == unique_message_id)
                .values(status=status, resolution=resolution)
            )

    def get(self, path: str, **params: Any) -> Any:
        """Return the JSON at a path under /api."""
        answer = self.http.get(f"/api/{path}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def ids(self, path: str = "errors", **params: Any) -> list[str]:
        """Return the ids of the items at a path under /api, as they are listed."""
        return [item["id"] for item in self.get(path, **params)]

    def number(self, unique_message_id: str) -> int:
        """Return the number of a message."""
        numbers = select(failed_messages.c.number).where(
            failed_messages.c.unique_message_id == unique_message_id
        )
        with self.db.engine.connect() as conn:
            return int(conn.execute(numbers).scalar_one())

    def become_processor(self) -> Fence:
        """Take the lease."""
        fence = acquire_lease(self.db, HOLDER, timedelta(seconds=15), lambda _holder: False)
        assert isinstance(fence, Fence)
        return fence

    def _note(self, event: Event) -> None:
        match event:
            case RetryAsked(total=total):
                self.asked.append(total)
            case RequestRefused():
                self.refused.append(event)
            case _:
                pass

    def _look_at(self, queues: Sequence[str]) -> MissingQueues:
        return self.look_at(queues)

    def _wake(self) -> None:
        self.wakes += 1
