"""Deeds: what may happen at any moment, also in the middle of a turn."""

from collections.abc import Callable, Mapping

from retrier.domain import headers
from retrier.domain.archive_operation import Act
from retrier.domain.breakers import BreakerState
from retrier.domain.retry_operation import Cancel, Pause, Resume
from retrier.domain.wire import Delivery, Edit
from tests.properties.model.far_side import FarSide
from tests.properties.model.people import People
from tests.properties.model.sends import STAGING
from tests.properties.model.world import World
from tests.support.bench import Killed
from tests.support.breaking import let_pass
from tests.support.raw_messages import raw_properties

FOREIGN = "ffffffff-0000-0000-0000-000000000000"


UNKNOWN = "00000000-0000-4000-8000-000000000000"
"""The id of no message."""


class Deeds:
    """Everything that somebody does to one message or to what is around it, by name."""

    def __init__(self, world: World, people: People, far_side: FarSide) -> None:
        self._world = world
        self._people = people
        self._far_side = far_side
        self._broker = world.transport.broker

    def by_name(self) -> Mapping[str, Callable[[int], bool]]:
        """Return every deed; each says whether it did anything."""
        return {
            "die": self.die,
            "lose connections": self.lose_connections,
            "lose lease": self.lose_lease,
            "lose lease and hear of it": self.lose_lease_and_hear,
            "purge staging": self.purge,
            "delete staging": self.delete,
            "double copies": self.double_copies,
            "strange copies": self.strange_copies,
            "confirm newest": self.confirm_newest,
            "fail newest": self.fail_newest,
            "confirm any": self.confirm_any,
            "fail anew": self.fail_anew,
            "take back": self.take_back,
            "archive": lambda which: self._people.act(Act.ARCHIVE, [self.key(which)]),
            "resolve": lambda which: self._people.act(Act.RESOLVE, [self.key(which)]),
            "retry again": lambda which: self._people.retry_again([self.key(which)]),
            "retry": lambda which: self._people.retry_ids([self.key(which)]),
            "retry patched": lambda which: self._people.retry_patched([self.key(which)]),
            "declare dead": lambda which: self._people.declare_dead(self.key(which)),
            "edit": lambda which: self._people.edit(self.key(which)),
            "revive": lambda which: self._people.revive(self.key(which)),
            "redirect": self.redirect,
            "pause": lambda which: self._people.steer(which, Pause()),
            "resume": lambda which: self._people.steer(which, Resume()),
            "cancel": lambda which: self._people.steer(which, Cancel()),
            "open breaker": lambda _which: self._people.set_breaker(BreakerState.OPEN),
            "close breaker": lambda _which: self._people.set_breaker(BreakerState.CLOSED),
            "let breakers pass": self.let_breakers_pass,
            "release": self._people.release,
            "database away": self.database_away,
        }

    def let_breakers_pass(self, _which: int) -> bool:
        """Let the time pass for which breakers wait."""
        return let_pass(self._world.bench)

    def key(self, which: int) -> str:
        """Return the id of a message."""
        keys = list(self._world.account.messages)
        return keys[which % len(keys)] if keys else UNKNOWN

    def die(self, which: int) -> bool:
        """Kill the process."""
        raise Killed(str(which))

    def lose_connections(self, _which: int) -> bool:
        """Break every connection; they can be had again at once."""
        self._world.transport.drop_connections()
        return True

    def lose_lease(self, which: int) -> bool:
        """Let another processor take over and work, while this one is in the middle of it."""
        self._world.take_over()
        for _ in range(which % 12):
            self._world.turn()
        return True

    def lose_lease_and_hear(self, which: int) -> bool:
        """The same, and the tick of the old one finds out."""
        lease = self._world.bench.context.lease
        self.lose_lease(which)
        lease.lose()
        return True

    def purge(self, _which: int) -> bool:
        """Let somebody purge the staging queue: what is handed out already stays."""
        queue = self._broker.queues.get(STAGING)
        lay = bool(queue and queue.ready)
        if queue:
            queue.ready.clear()
        return lay

    def delete(self, _which: int) -> bool:
        """Let somebody delete the staging queue."""
        there = STAGING in self._broker.queues
        self._broker.delete(STAGING)
        return there

    def double_copies(self, _which: int) -> bool:
        """Put everything that lies in the staging queue there once more."""
        copies = self._copies()
        for copy in copies:
            self._broker.put(STAGING, copy.raw, copy.body)
        return bool(copies)

    def strange_copies(self, which: int) -> bool:
        """Put things there that are no copies of ours, or of nothing that is staged."""
        if STAGING not in self._broker.queues:
            return False
        self._broker.put(STAGING, raw_properties({"Strange": "yes"}), b"strange")
        self._broker.put(STAGING, raw_properties({headers.STAGING_ID: "of nobody"}), b"")
        codec = self._world.transport.codec
        for copy in self._copies()[:1]:
            other = Edit(set_headers={headers.UNIQUE_MESSAGE_ID: self.key(which)})
            self._broker.put(STAGING, codec.edit(copy.raw, other), b"")
        return True

    def foreign_copies(self) -> None:
        """Put a copy of another installation there."""
        stamps = {headers.STAGING_ID: "theirs", headers.INSTALLATION_ID: FOREIGN}
        if STAGING in self._broker.queues:
            self._broker.put(STAGING, raw_properties(stamps), b"")

    def take_foreign_copies_away(self) -> bool:
        """Let the operator take them out, also those that a consumer holds."""
        if not any(map(self._is_foreign, self._copies())):
            return False
        self._world.transport.drop_connections()
        queue = self._broker.queues[STAGING]
        ours = [copy for copy in queue.ready if not self._is_foreign(copy)]
        queue.ready.clear()
        queue.ready.extend(ours)
        return True

    def confirm_newest(self, which: int) -> bool:
        """Let a consumer confirm one of the newest retries, and ingestion take that in."""
        self._look()
        arrived = self._world.sends.arrived
        if arrived:
            self._far_side.confirm(arrived[-1 - which % min(3, len(arrived))].key, when="now")
            self._world.ingest()
        return bool(arrived)

    def fail_newest(self, which: int) -> bool:
        """Let one of the newest retries fail, and ingestion take that in."""
        self._look()
        arrived = self._world.sends.arrived
        if arrived:
            sent = arrived[-1 - which % min(3, len(arrived))]
            self._far_side.fail_again(sent, when="now", retry_id="this")
            self._world.ingest()
        return bool(arrived)

    def confirm_any(self, which: int) -> bool:
        """Let somebody confirm any message, and ingestion take that in."""
        self._far_side.confirm(self.key(which), when="now")
        self._world.ingest()
        return True

    def fail_anew(self, which: int) -> bool:
        """Let a message fail once more without any retry, and ingestion take that in."""
        failed = self._far_side.fail_anew(which, when="now")
        self._world.ingest()
        return failed

    def take_back(self, which: int) -> bool:
        """Put a message aside and take it back: it is unresolved as before, and newer."""
        keys = [self.key(which)]
        archived = self._people.act(Act.ARCHIVE, keys)
        return self._people.act(Act.UNARCHIVE, keys) or archived

    def redirect(self, which: int) -> bool:
        """Create, change or delete a redirect."""
        source = ("orders", "gone", "billing")[which % 3]
        if which % 5 == 0:
            self._people.delete_redirect(source)
            return True
        return self._people.redirect(source, ("billing", "orders", "elsewhere")[which % 4 % 3])

    def database_away(self, which: int) -> bool:
        """Let the next two tries to write something fail."""
        verbs = (
            "open_window",
            "complete_batch",
            "begin_forwarding",
            "record_received",
            "move_rest",
            "back_off_batch",
            "cut_batch",
            "claim_messages",
        )
        self._world.flaky.refuse(verbs[which % len(verbs)], times=2)
        return True

    def _look(self) -> None:
        self._world.check()

    def _copies(self) -> list[Delivery]:
        there = STAGING in self._broker.queues
        return list(self._broker.holds(STAGING)) if there else []

    def _is_foreign(self, copy: Delivery) -> bool:
        return self._world.transport.codec.read(copy.raw).text(headers.INSTALLATION_ID) == FOREIGN
