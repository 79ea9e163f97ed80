"""A database with something of nearly everything that Retrier stores."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import Table, insert, null

from retrier.domain.archive_operation import Act
from retrier.domain.failed_message import FailedImport, OwnCopy
from retrier.store.engine.database import Database
from retrier.store.schema import (
    access_tokens,
    approvals,
    breaker_counts,
    breakers,
    browser_sessions,
    event_log,
    failed_import_sends,
    failed_imports,
    failure_groups,
    group_comments,
    login_attempts,
    message_redirects,
    outgoing,
    policy_sets,
    recovery,
    retry_operations,
    saved_views,
    staging_ids,
)
from tests.support.bench import QUEUE, Bench, Killed
from tests.support.editing import asked
from tests.support.factories import FAILED_AT, confirmation, failure, unique_id
from tests.support.old import settle
from tests.support.words import fill

ID = "0f0f0f0f-0000-4000-8000-00000000000{}"
MOMENT = FAILED_AT + timedelta(microseconds=123_457)
HOSTILE = "Süd \u202e 'quoted' \"twice\" \\ {} \U0001f600 \u0130"


def live_in(db: Database, count: int = 12) -> Bench:
    """Let everything happen that fills a table, and write rows into those that stay empty."""
    bench = Bench(db)
    settle(db, Act.ARCHIVE, bench.fail(2))
    bench.fail(count)
    resolved, pending, again = (failure(queue=QUEUE) for _ in range(3))
    bench.receive(resolved, pending, again)
    bench.ask_all()
    bench.work()
    bench.receive(
        confirmation(unique_id(resolved)),
        failure(queue=QUEUE, message_id=again.message_id, body=again.body),
        OwnCopy(staging_id="s", unique_message_id=None, error_queue="error"),
        _unreadable(),
        failure(queue=HOSTILE[:20], body=b"\x00\xff" * 100),
    )
    bench.ask(["no such id", unique_id(resolved)])
    bench.work()
    bench.ask([unique_id(again)])
    bench.kill_at("forwarding.published")
    try:
        bench.work()
    except Killed:
        bench.restart()
    bench.receive(replace(failure(queue=QUEUE), redelivered=True))
    asked(bench, bench.fail()[0])
    fill(db)
    _write_the_rest(db)
    write_who_may(db)
    return bench


def _write_the_rest(db: Database) -> None:
    with db.engine.begin() as conn:
        group = conn.execute(failure_groups.select()).first()
        an_import = conn.execute(failed_imports.select()).first()
        assert group is not None
        assert an_import is not None
        rows = {
            breakers: {
                "breaker_key": "queue:orders",
                "per": "destination",
                "name": HOSTILE,
                "state": "closed",
                "changed_at": MOMENT,
            },
            breaker_counts: {
                "breaker_id": 1,
                "since": MOMENT,
                "counted_by": ID.format(1),
                "sent": 1,
                "returned": 0,
                "came_back": 0,
                "confirmed": 1,
                "outcomes": "c",
            },
            group_comments: {
                "group_id": group.group_id,
                "comment": HOSTILE,
                "who": "ada",
                "written_at": MOMENT,
            },
            saved_views: {
                "name": HOSTILE[:60],
                "page": "messages",
                "query": "queue=orders",
                "who": "ada",
                "saved_at": MOMENT,
                "version": 1,
            },
            failed_import_sends: {
                "import_id": an_import.import_id,
                "send_id": ID.format(2),
                "sending_to": QUEUE,
                "sending_since": MOMENT,
                "requested_by": "ada",
            },
            message_redirects: {"from_queue": "a", "to_queue": "b", "modified_at": MOMENT},
            policy_sets: {
                "session_id": ID.format(3),
                "instance": "retrier",
                "host": "here",
                "pid": 1,
                "set_hash": "0" * 64,
                "loaded_at": MOMENT,
                "problems": ["one", {"two": None}],
                "seen_at": MOMENT,
            },
            recovery: {"id": 1, "since": MOMENT, "begun_at": MOMENT, "begun_by": "ada"},
            staging_ids: {"staging_id": ID.format(4), "made_at": MOMENT},
        }
        for table, row in rows.items():
            conn.execute(insert(table).values(**row))
        note = {"at": MOMENT, "kind": "operation_created", "who": "ada", "text": HOSTILE}
        documents: list[Any] = [None, null(), {"b": [1, 2.5, True, HOSTILE], "a": {}}, []]
        for details in documents:
            conn.execute(insert(event_log).values(**note, details=details))
        sent = {"number": 1, "attempt_id": 1, "queue": "log", "created_at": MOMENT}
        conn.execute(insert(outgoing).values(**sent, notice=null()))


def write_who_may(db: Database) -> None:
    """Write a token, a session, a log-in under way, and an approval of an operation there is."""
    with db.engine.connect() as conn:
        operation = conn.execute(retry_operations.select()).first()
    assert operation is not None
    rows: dict[Table, dict[str, Any]] = {
        access_tokens: {
            "name": HOSTILE[:60],
            "sha256": "1" * 64,
            "role": "operator",
            "queues": ["orders*", HOSTILE],
            "created_at": MOMENT,
            "created_by": "ada",
        },
        browser_sessions: {
            "sha256": "2" * 64,
            "name": HOSTILE,
            "subject": "ada",
            "role": "reader",
            "queues": null(),
            "created_at": MOMENT,
            "seen_at": MOMENT,
        },
        login_attempts: {
            "sha256": "3" * 64,
            "nonce": "n",
            "verifier": "v",
            "back": "/messages",
            "created_at": MOMENT,
        },
        approvals: {
            "operation_id": operation.operation_id,
            "plan_hash": "4" * 64,
            "total": 12,
            "asked_by": HOSTILE,
            "asked_as": "ada",
            "asked_at": MOMENT,
            "lapses_at": MOMENT + timedelta(hours=1),
            "state": "approved",
            "decided_at": MOMENT,
            "decided_by": "grace",
            "decided_as": "grace",
        },
    }
    with db.engine.begin() as conn:
        for table, row in rows.items():
            conn.execute(insert(table).values(**row))


def _unreadable() -> FailedImport:
    return FailedImport(
        error_queue="error",
        reason="its properties cannot be read",
        raw=bytes(range(256)),
        body=b"",
        fingerprint="f0" * 16,
        received_at=FAILED_AT,
    )
