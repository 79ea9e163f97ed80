"""Start-up: waits for the database and the broker, and logs one line if one is away."""

from collections.abc import Callable
from dataclasses import dataclass, field

from retrier.app.parts import Parts
from retrier.app.readiness import ReadinessBoard
from retrier.errors import BrokerUnavailable, DatabaseUnavailable
from retrier.events.ingestion import DeliveryLimitFound
from retrier.events.service import (
    BrokerReached,
    BrokerUnreachable,
    DatabaseReached,
    DatabaseUnreachable,
)
from retrier.ingestion.inspection import tell_delivery_limit
from retrier.store.queries.outgoing import is_any_outgoing
from retrier.store.verbs.upgrade import find_revision, upgrade_schema
from retrier.store.verbs.upkeep import get_installation_id

_WAITS = (0.5, 1.0, 2.0, 5.0, 10.0)
_UNREACHABLE = {"database": DatabaseUnreachable, "broker": BrokerUnreachable}
_REACHED = {"database": DatabaseReached, "broker": BrokerReached}


@dataclass(slots=True, kw_only=True)
class Startup:
    """Prepares what the parts need before they can work.

    Everything that the parts need from the database is read here: the wait for the broker may be
    long, and the database may be away again after it.
    """

    parts: Parts
    board: ReadinessBoard
    installation_id: str = field(init=False, default="")
    has_outgoing: bool = field(init=False, default=False)
    """Whether copies are sent: a log queue is set, or some wait from the time when one was."""

    def prepare(self) -> bool:
        """Wait for the database, then for the broker; false if the service is stopped first."""
        return self._wait_for("database", self._prepare_database) and self._wait_for(
            "broker", self._prepare_queues
        )

    def _wait_for(self, part: str, prepare: Callable[[], None]) -> bool:
        failures, told = 0, ""
        while not self.parts.stop.is_set():
            try:
                prepare()
            except (DatabaseUnavailable, BrokerUnavailable) as error:
                if str(error) != told:
                    told = self._report(part, str(error))
                self.parts.stop.wait(_WAITS[min(failures, len(_WAITS) - 1)])
                failures += 1
            else:
                self.board.put(part, ready=True, reason="reached")
                if failures:
                    self.parts.emit(_REACHED[part]())
                return True
        return False

    def _report(self, part: str, reason: str) -> str:
        """Tell a new reason, and return it: a server may come back and then refuse us."""
        self.board.put(part, ready=False, reason=reason)
        self.parts.emit(_UNREACHABLE[part](reason=reason))
        return reason

    def _prepare_database(self) -> None:
        db = self.parts.db
        if self.parts.settings.database.upgrade:
            upgrade_schema(db)
        else:
            self._check_revision()
        self.installation_id = get_installation_id(db)
        copies = self.parts.settings.ingestion.forward_to is not None
        # A file of policies that is read again may name a queue for notices at any time.
        notices = self.parts.policies.may_change
        self.has_outgoing = copies or notices or is_any_outgoing(db)

    def _check_revision(self) -> None:
        db = self.parts.db
        revision = find_revision(db)
        if not revision.is_current:
            raise DatabaseUnavailable(
                f"the database at {db.place} is at revision {revision.current or 'none'} and "
                f"this version needs {revision.wanted}: run `retrier db upgrade`"
            )

    def _prepare_queues(self) -> None:
        """Declare missing error queues if the settings say so; else ingestion waits for them."""
        wanted = self.parts.settings.declares_missing
        queues = self.parts.transport.queues()
        try:
            for queue in self.parts.error_queues:
                declared = wanted and queues.declare_error_queue(queue)
                limit = None if declared else queues.delivery_limit(queue)
                if limit is not None:
                    why = tell_delivery_limit(limit, dead_letters=queues.dead_letters(queue))
                    found = DeliveryLimitFound(queue=queue, limit=limit.most, reason=why)
                    self.parts.emit(found)
            self.parts.metrics.queues.reached({})
        finally:
            queues.close()
