"""The benchmark itself works: small runs, so that the command does not rot."""

import json
from pathlib import Path

import psycopg
import pytest

from retrier.clock import SystemClock
from retrier.domain.failed_message import Failure
from retrier.domain.wire import Delivery
from retrier.ingestion.arrival import QueueMapping
from retrier.ingestion.parsing import parse
from retrier.store.verification import verify_store
from retrier.transport.rabbitmq.properties.codec import AmqpPropertyCodec
from tests.benchmarks.__main__ import main
from tests.benchmarks.confirming import Handled
from tests.benchmarks.figures.streams import check_order
from tests.benchmarks.filling import Filling, fill
from tests.benchmarks.messages import make_messages
from tests.benchmarks.report import write_markdown
from tests.benchmarks.results import Row, Target, sum_up
from tests.benchmarks.stamps import splice, unsplice
from tests.support.databases import open_upgraded, temporary_postgres
from tests.support.servers import psycopg_url

SMALL = "--queues classic --bodies 2KiB --messages 200 --slow 50"


def row(value: float, *, target: Target | None = None) -> Row:
    """Make a row beside a rival that does 10 a second."""
    return Row(
        figure="a", what="w", value=value, unit="/s", rival="r", rival_value=10, target=target
    )


@pytest.mark.rabbitmq
@pytest.mark.postgres
def test_a_small_run_sets_every_stage_beside_its_rivals(
    amqp_url: str, postgres_url: str, tmp_path: Path
) -> None:
    """Measure with 200 messages: too few to reach a target, enough for every ratio."""
    result = tmp_path / "result.json"
    servers = ["--amqp-url", amqp_url, "--postgres-url", postgres_url]

    main(["--figures", "c,d,e", *SMALL.split(), *servers, "--json", str(result)])

    rows = json.loads(result.read_text())["summary"]
    assert {each["figure"] for each in rows if each["ratio"]} == {"c", "d", "e"}
    assert {each["reached"] for each in rows if each["target"]} <= {True, False}


@pytest.mark.kills
@pytest.mark.rabbitmq
@pytest.mark.postgres
def test_a_small_run_holds_a_destination_and_moves_streams(
    amqp_url: str, postgres_url: str, tmp_path: Path
) -> None:
    """Measure with 100 messages: nothing passes the open breaker, and each stream is in order."""
    result = tmp_path / "result.json"
    servers = ["--amqp-url", amqp_url, "--postgres-url", postgres_url]

    main(["--figures", "m,n", *SMALL.split(), "--messages", "100", *servers, "--json", str(result)])

    rows = json.loads(result.read_text())["summary"]
    assert [each["figure"] for each in rows] == ["m", "n", "n"]
    assert all(each["value"] > 0 for each in rows)


@pytest.mark.parametrize("came", [["b1", "a2", "a1"], ["a1", "a2"], ["a1", "a2", "b1", "b1"]])
def test_a_stream_out_of_order_is_no_figure(came: list[str]) -> None:
    """Let a message overtake the one before it, one be lost, and one come twice."""
    handled = [Handled(0.1, each) for each in came]

    with pytest.raises(RuntimeError, match="order"):
        check_order({"a1": "a", "a2": "a", "b1": "b"}, handled)


def test_streams_may_overtake_each_other() -> None:
    """Let the second stream be handled between the messages of the first."""
    handled = [Handled(0.1, each) for each in ("b1", "a1", "b2", "a2")]

    check_order({"a1": "a", "a2": "a", "b1": "b", "b2": "b"}, handled)


@pytest.mark.postgres
def test_a_filled_message_is_as_ingestion_would_have_stored_it(postgres_url: str) -> None:
    """Look at the last of 30: PostgreSQL made it, only the first 20 are really ingested."""
    filling = Filling(count=30, queue="orders", error_queue="error", body_size=300)
    with temporary_postgres(postgres_url) as url:
        db = open_upgraded(url)
        with psycopg.connect(psycopg_url(url), autocommit=True) as conn:
            fill(url, conn, filling)
            (made,) = conn.execute(
                "SELECT unique_message_id, raw_properties, body, encode(body_hash, 'hex'), "
                "body_size, encode(causes.fingerprint, 'hex') "
                "FROM failed_messages JOIN processing_attempts USING (attempt_id) "
                "JOIN causes ON causes.cause_id = failed_messages.cause_id "
                "ORDER BY failure_seq DESC LIMIT 1"
            ).fetchall()
            indexes = {
                row[0] for row in conn.execute("SELECT indexname FROM pg_indexes").fetchall()
            }
        broken = [rule.rule for rule in verify_store(db).rules if rule.broken]
        db.dispose()

    taken = Delivery(tag=None, queue="error", raw=made[1], body=made[2], redelivered=False)
    parsed = parse(taken, AmqpPropertyCodec(), QueueMapping(queue="error"), SystemClock().now())
    assert isinstance(parsed, Failure)
    understood = (parsed.computed_id, parsed.body_hash, len(parsed.body), parsed.cause.fingerprint)
    assert understood == (str(made[0]), made[3], 300, made[5])
    assert broken == []
    assert {"ix_failed_messages_cut", "ix_processing_attempts_message"} <= indexes


def test_stamps_can_be_taken_out_again() -> None:
    """Compare bytes: what is taken out leaves nothing behind."""
    (message,) = make_messages("orders", 1, 10)

    stamped = splice(message.raw)

    assert len(AmqpPropertyCodec().read(stamped).headers) > len(
        AmqpPropertyCodec().read(message.raw).headers
    )
    assert unsplice(stamped) == message.raw


def test_a_target_is_reached_only_if_every_run_reaches_it() -> None:
    """Sum up two runs, of which one does less than twice what the rival does."""
    target = Target(at_least=2)

    (good,) = sum_up([row(20, target=target), row(30, target=target)])
    (bad,) = sum_up([row(20, target=target), row(19, target=target)])

    assert (good.reached, good.value) == (True, 25)
    assert (bad.reached, bad.reached_in) == (False, 1)


def test_a_limit_is_kept_by_what_is_at_most_as_large() -> None:
    """Set a value at the limit, and one above it, beside a rival."""
    limit = Target(at_most=2)

    assert [row(value, target=limit).reached for value in (20, 21)] == [True, False]


def test_the_table_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    """Write two tables into one page: the text around them stays."""
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- figures: begin -->\nold\n<!-- figures: end -->\nafter\n")

    write_markdown(page, [row(20)], {"cores": 2})
    write_markdown(page, [row(30)], {"cores": 2})

    lines = page.read_text().splitlines()
    assert [lines[0], lines[-1]] == ["before", "after"]
    assert [line for line in lines if line.startswith("| a ")] == [
        "| a | w |  |  | 30 /s | r | 10 /s | 3.00 |  |  |"
    ]
