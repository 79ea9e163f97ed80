"""A database full of random failures, stored by ingestion and brought into every state by people."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from sqlalchemy import bindparam, delete, select, update

from retrier.domain.failed_message import Failure
from retrier.domain.wire import Delivery, Edit
from retrier.ingestion.parsing import parse
from retrier.store.engine.database import Database
from retrier.store.recording import record_received
from retrier.store.schema import failed_message_retries, failed_messages
from tests.properties.selections.drawn_messages import (
    CLASSIFIED,
    EPOCH,
    draw_failures,
    draw_namesakes,
    fail_again,
)
from tests.properties.selections.meaning import Known, Sent, with_status
from tests.support.command_line import CommandLine
from tests.support.factories import ERROR_QUEUE
from tests.support.policies import SomePolicies
from tests.support.raw_messages import raw_properties
from tests.support.stored import select_messages
from tests.support.understood import CODEC, PLAIN
from tests.support.web import Web

Row = Mapping[str, Any]
Rows = dict[str, Row]

FATES = {
    "stays": 40,
    "fails twice": 8,
    "archived": 16,
    "resolved": 8,
    "sent": 8,
    "confirmed": 5,
    "sent and failed": 8,
    "declared dead": 7,
}
"""What becomes of messages, and how often."""

POLICIES = SomePolicies(
    delay=timedelta(days=30),
    reasons=CLASSIFIED,
    never=frozenset({"validation_failure"}),
    manual=frozenset({"handler_exception"}),
)
_RECEIVED_AT = EPOCH + timedelta(days=10)
_DISPOSITIONS = {"timeout_exceeded": "scheduled", "validation_failure": "dead"}


@dataclass(slots=True, kw_only=True)
class Stock:
    """The messages of a database as they are known, and the faces on it.

    `stored` are their rows, and `claims` the numbers of those that a retry has.
    """

    cli: CommandLine
    web: Web
    messages: list[Known] = field(default_factory=list)
    stored: Rows = field(default_factory=dict)
    claims: Sequence[int] = ()

    @property
    def db(self) -> Database:
        """The database."""
        return self.cli.bench.db

    def rows(self) -> Rows:
        """Return the row of each message, by its id."""
        found = self.cli.bench.rows(select(failed_messages))
        return {row["unique_message_id"]: row for row in found}

    def look(self) -> None:
        """Take note of what is stored: of when each message was changed last, for one thing."""
        self.stored = self.rows()
        self.claims = [row["number"] for row in self.cli.bench.rows(select(_CLAIM))]
        changed = {key: row["last_modified"] for key, row in self.stored.items()}
        self.messages = [replace(each, modified=changed[each.unique_id]) for each in self.messages]

    def give_back(self, after: Rows) -> None:
        """Make every row what it was before an act, which left `after`."""
        changed = [dict(row) for key, row in self.stored.items() if after[key] != row]
        with self.db.engine.begin() as conn:
            conn.execute(delete(failed_message_retries).where(_CLAIM.not_in(self.claims)))
            if changed:
                conn.execute(_WRITE, [{"this": row["number"], **row} for row in changed])


_CLAIM = failed_message_retries.c.number
_WRITE = (
    update(failed_messages)
    .where(failed_messages.c.number == bindparam("this"))
    .values({each.name: bindparam(each.name) for each in failed_messages.c})
)


def fill(db: Database, dice: random.Random, count: int) -> Stock:
    """Store so many messages at random, and let something become of each."""
    cli = CommandLine(db)
    stock = Stock(cli=cli, web=Web(cli.api))
    stored = _store(stock, draw_failures(dice, count))
    fates: dict[str, list[Known]] = {fate: [] for fate in FATES}
    for each in stored:
        fates[dice.choices(list(FATES), list(FATES.values()))[0]].append(each)
    ids = [each.unique_id for each in stored]
    names = [each.sent.message_id for each in stored if each.sent.message_id is not None]
    stock.messages = [
        *fates["stays"],
        *_store(stock, draw_namesakes(dice, ids, names)),
        *_fail_twice(stock, dice, fates["fails twice"]),
        *_resolve(stock, fates["resolved"]),
        *_declare_dead(stock, fates["declared dead"]),
        *_send(stock, fates["sent"])[0],
        *_confirm(stock, fates["confirmed"]),
        *_send_in_vain(stock, dice, fates["sent and failed"]),
        *_archive(stock, fates["archived"][::2]),
        *_archive(stock, fates["archived"][1::2]),
    ]
    stock.look()
    return stock


def _store(stock: Stock, failures: Sequence[Sent]) -> list[Known]:
    _receive(stock, [_as_delivery(each) for each in failures])
    rows = stock.cli.bench.rows(select_messages())
    ids = {row["body"]: row["unique_message_id"] for row in rows}
    return [_decided(Known(sent=each, unique_id=ids[each.body]), 1) for each in failures]


def _fail_twice(stock: Stock, dice: random.Random, those: Sequence[Known]) -> list[Known]:
    """Let their senders send them once more; without a message id it would be another message."""
    named = [each for each in those if each.sent.message_id is not None]
    again = [fail_again(dice, each.sent) for each in named]
    _receive(stock, [_as_delivery(each) for each in again])
    failed = [
        _decided(replace(each, sent=sent, attempts=2), 2)
        for each, sent in zip(named, again, strict=True)
    ]
    return [*failed, *(each for each in those if each.sent.message_id is None)]


def _resolve(stock: Stock, those: Sequence[Known]) -> list[Known]:
    _ask(stock, "resolve", [each.unique_id for each in those])
    return [with_status(each, "resolved") for each in those]


def _declare_dead(stock: Stock, those: Sequence[Known]) -> list[Known]:
    for each in those:
        path = f"/api/errors/{each.unique_id}/dead"
        answer = stock.cli.api.http.post(path, json={"why": "cancelled by phone"})
        assert answer.status_code == (409 if each.disposition == "dead" else 200)
    return [replace(each, disposition="dead") for each in those]


def _send(stock: Stock, those: Sequence[Known]) -> tuple[list[Known], Mapping[bytes, Delivery]]:
    """Retry them; return them, and what their consumers get, by body."""
    bench = stock.cli.bench
    for each in those:
        bench.transport.broker.declare(each.sent.queue)
    if not those:
        return [], {}
    operation = bench.operation(bench.ask([each.unique_id for each in those]))["operation_id"]
    bench.work()
    sent = {each.body: each for each in empty_queues(stock)}
    assert len(sent) == len(those)
    stamps = {"operation": operation, "outcome": "waiting"}
    return [with_status(each, "retryIssued", **stamps) for each in those], sent


def _confirm(stock: Stock, those: Sequence[Known]) -> list[Known]:
    sent, _ = _send(stock, those)
    for each in sent:
        stock.cli.bench.confirm(each.unique_id)
    return [with_status(each, "resolved", outcome="confirmed") for each in sent]


def _send_in_vain(stock: Stock, dice: random.Random, those: Sequence[Known]) -> list[Known]:
    """Retry them, and let them fail again; after a person's retry failures are counted anew."""
    those, copies = _send(stock, those)
    again = [fail_again(dice, each.sent) for each in those]
    codec = stock.cli.bench.transport.codec
    raws = {
        each.body: codec.edit(copies[each.body].raw, Edit(set_headers=_headers(each)))
        for each in again
    }
    _receive(stock, [_arriving(raw, body) for body, raw in raws.items()])
    return [
        _decided(replace(each, status="unresolved", outcome="came_back", sent=sent, attempts=2), 1)
        for each, sent in zip(those, again, strict=True)
    ]


def empty_queues(stock: Stock) -> list[Delivery]:
    """Take what was sent out of all queues of the broker, as consumers do."""
    broker = stock.cli.bench.transport.broker
    found = []
    for name in set(broker.queues) - {"retrier.staging"}:
        found += broker.holds(name)
        broker.queues[name].ready.clear()
    return found


def _decided(known: Known, failures: int) -> Known:
    """Return it as the policies decide about it."""
    reason = CLASSIFIED.get(known.sent.exception_type or "", "handler_exception")
    dead = reason == "timeout_exceeded" and failures >= POLICIES.attempts
    disposition = "dead" if dead else _DISPOSITIONS.get(reason, "manual")
    return replace(known, status="unresolved", reason=reason, disposition=disposition)


def _archive(stock: Stock, those: Sequence[Known]) -> list[Known]:
    """Archive these by one operation."""
    operation = _ask(stock, "archive", [each.unique_id for each in those])
    return [replace(with_status(each, "archived"), archived_by=operation) for each in those]


def _ask(stock: Stock, act: str, ids: Iterable[str]) -> str:
    body = {"act": act, "selection": {"ids": list(ids)}}
    answer = stock.cli.api.http.post("/api/archive_operations", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["operation_id"])


def _receive(stock: Stock, deliveries: Iterable[Delivery]) -> None:
    received = [parse(each, CODEC, PLAIN, _RECEIVED_AT) for each in deliveries]
    assert all(isinstance(each, Failure) for each in received), received
    record_received(stock.db, received, instance="test", judge=POLICIES.judging())


def _as_delivery(sent: Sent) -> Delivery:
    properties = {
        "message_id": sent.message_id,
        "timestamp": sent.time_sent and int(sent.time_sent.timestamp()),
    }
    given = {name: value for name, value in properties.items() if value is not None}
    raw = raw_properties(_headers(sent), **given)
    return _arriving(raw, sent.body)


def _arriving(raw: bytes, body: bytes) -> Delivery:
    return Delivery(tag=None, queue=ERROR_QUEUE, raw=raw, body=body, redelivered=False)


def _headers(sent: Sent) -> dict[str, str]:
    values = {
        "Retrier.FailedQueue": sent.queue,
        "Retrier.TimeOfFailure": sent.failed_at.isoformat(),
        "Retrier.Endpoint": sent.endpoint,
        "Retrier.MessageType": sent.message_type,
        "Retrier.Exception.Type": sent.exception_type,
        "Retrier.Exception.Message": sent.exception_message,
        "Retrier.Exception.StackTrace": sent.frame and f"   at {sent.frame}",
        "Retrier.Reason": sent.word,
        "Retrier.Stream": sent.stream,
        "Retrier.Host": sent.host,
        "Retrier.Process": sent.process,
        "Retrier.Node": sent.node,
    }
    return {name: value for name, value in values.items() if value is not None}
