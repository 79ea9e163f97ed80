"""`retrier check` over the nodes of a broker."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from retrier.app.check import CheckResult, check
from retrier.settings import load_settings
from retrier.store.processes import note_process
from retrier.store.recovery import begin_recovery
from tests.contract.store_rows import record
from tests.support.databases import open_upgraded, sqlite_url
from tests.support.embedded_shop import opened_embedded_shop
from tests.support.factories import failure
from tests.support.far_side import FarSide
from tests.support.private_servers import find_free_ports
from tests.support.processes import process
from tests.support.words import fill


@pytest.mark.rabbitmq
def test_a_node_that_is_gone_is_named_though_another_answers(amqp_url: str, tmp_path: Path) -> None:
    (gone,) = find_free_ports(1)
    place = amqp_url.rpartition("@")[2].partition("/")[0]
    nodes = f"{amqp_url},{amqp_url.replace(place, f'127.0.0.1:{gone}')}"
    database = f"sqlite:///{tmp_path / 'retrier.db'}"

    results = check(
        load_settings(None, {"RETRIER_BROKER__URL": nodes, "RETRIER_DATABASE__URL": database})
    )

    (broker,) = [each for each in results if each.name == "broker"]
    assert broker.ok
    assert place in broker.text
    assert f"127.0.0.1:{gone}" in broker.text


@pytest.mark.rabbitmq
@pytest.mark.parametrize(
    ("arguments", "becomes"),
    [
        ({}, "is dropped, because its arguments name no dead-letter exchange"),
        ({"x_dead_letter_exchange": "lost"}, "goes to its dead-letter exchange"),
    ],
    ids=["alone", "with a dead-letter exchange"],
)
def test_a_low_delivery_limit_is_told_with_its_number(
    amqp_url: str,
    tmp_path: Path,
    queue_name: Callable[..., str],
    arguments: dict[str, object],
    becomes: str,
) -> None:
    queue = queue_name()
    with closing(FarSide(amqp_url)) as far_side:
        far_side.declare(queue, x_queue_type="quorum", x_delivery_limit=3, **arguments)
    environ = {
        "RETRIER_BROKER__URL": amqp_url,
        "RETRIER_DATABASE__URL": f"sqlite:///{tmp_path / 'retrier.db'}",
        "RETRIER_INGESTION__ERROR_QUEUES": queue,
    }

    results = check(load_settings(None, environ))

    (found,) = [each for each in results if each.name == f"error queue {queue}"]
    assert found.ok
    limit = "its delivery limit is 3, below the 20 that is usual: what comes back more than 3 times"
    assert f"{limit} {becomes}" in found.text


def test_a_recovery_that_nobody_ended_is_told(tmp_path: Path) -> None:
    db = open_upgraded(sqlite_url(tmp_path))
    begin_recovery(db, db.read(lambda tx: tx.now), "ada")
    url = str(db.engine.url)
    db.dispose()

    results = check(
        load_settings(
            None,
            {
                "RETRIER_DATABASE__URL": url,
                "RETRIER_BROKER__URL": f"embedded:///{tmp_path}/broker.db",
            },
        )
    )

    (found,) = [each for each in results if each.name == "database"]
    assert found.ok
    assert "warning: ada has begun a recovery, and nothing is presumed" in found.text


@pytest.mark.parametrize(
    ("enabled", "words"),
    [
        ("true", "full text: the words of 1 message are still to be read"),
        (
            "false",
            "full text is off (search.text.enabled): the words that were read before are kept",
        ),
    ],
)
def test_words_that_are_unread_or_kept_are_told(tmp_path: Path, enabled: str, words: str) -> None:
    db = open_upgraded(sqlite_url(tmp_path))
    fill(db)
    record(db, failure())
    url = str(db.engine.url)
    db.dispose()

    results = check(
        load_settings(
            None,
            {
                "RETRIER_DATABASE__URL": url,
                "RETRIER_BROKER__URL": f"embedded:///{tmp_path}/broker.db",
                "RETRIER_SEARCH__TEXT__ENABLED": enabled,
            },
        )
    )

    (found,) = [each for each in results if each.name == "database"]
    assert found.ok
    assert words in found.text


def check_files(database: Path, broker: Path, **more: str) -> dict[str, CheckResult]:
    environ = {
        "RETRIER_BROKER__URL": f"embedded:///{broker}",
        "RETRIER_DATABASE__URL": f"sqlite:///{database}",
        **more,
    }
    return {each.name: each for each in check(load_settings(None, environ))}


def test_the_promises_that_hold_with_the_broker_are_told(tmp_path: Path) -> None:
    found = check_files(tmp_path / "retrier.db", tmp_path / "broker.db")

    assert found["promises"].text.startswith(
        "hold with Embedded: what a killed process had in hand comes back; "
    )


def test_the_promises_that_do_not_hold_are_a_warning(tmp_path: Path) -> None:
    folders = json.dumps({"data_folder_in": str(tmp_path), "data_folder_out": str(tmp_path)})
    environ = {
        "RETRIER_BROKER__URL": "filesystem://",
        "RETRIER_BROKER__TRANSPORT_OPTIONS": folders,
        "RETRIER_DATABASE__URL": f"sqlite:///{tmp_path}/retrier.db",
    }

    lines = [each for each in check(load_settings(None, environ)) if each.name == "promises"]

    assert [each.text for each in lines if each.ok][-1].startswith(
        "warning: do not hold with Kombu's filesystem: a failure that a killed process had in hand is lost; "
    )


def test_files_that_can_be_made_are_well(tmp_path: Path) -> None:
    found = check_files(tmp_path / "new" / "retrier.db", tmp_path / "new" / "broker.db")

    assert found["database"].ok
    assert found["broker"].ok
    assert not (tmp_path / "new").exists()


def test_files_below_what_is_no_folder_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()

    found = check_files(tmp_path / "taken" / "retrier.db", tmp_path / "taken" / "broker.db")

    assert not found["database"].ok
    assert not found["broker"].ok
    assert found["database"].text.endswith(f"{tmp_path / 'taken'} is no folder")


UPGRADE_IS_OFF = {"RETRIER_DATABASE__UPGRADE": "false"}


def test_an_empty_schema_that_run_would_not_upgrade_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "retrier.db").touch()

    found = check_files(tmp_path / "retrier.db", tmp_path / "broker.db", **UPGRADE_IS_OFF)

    assert (found["database"].ok, found["database"].out_of_reach) == (False, False)
    assert "is empty" in found["database"].text
    assert "run `retrier db upgrade`" in found["database"].text


def test_a_missing_file_that_run_would_not_upgrade_is_wrong(tmp_path: Path) -> None:
    found = check_files(tmp_path / "retrier.db", tmp_path / "broker.db", **UPGRADE_IS_OFF)

    assert not found["database"].ok
    assert "run `retrier db upgrade`" in found["database"].text


def test_an_empty_schema_that_run_upgrades_is_well(tmp_path: Path) -> None:
    (tmp_path / "retrier.db").touch()

    found = check_files(tmp_path / "retrier.db", tmp_path / "broker.db")

    assert found["database"].ok
    assert "`retrier run` does that" in found["database"].text


@pytest.mark.parametrize("exists", [True, False])
def test_a_log_queue_has_to_exist(tmp_path: Path, exists: bool) -> None:  # noqa: FBT001 - a case
    with opened_embedded_shop(f"embedded:///{tmp_path / 'broker.db'}") as shop:
        queue = shop.orders if exists else "nowhere"
        more = {"RETRIER_INGESTION__FORWARD_TO": queue}

        found = check_files(tmp_path / "retrier.db", tmp_path / "broker.db", **more)

    assert found[f"log queue {queue}"].ok is exists
    assert ("does not exist" in found[f"log queue {queue}"].text) is not exists


@pytest.mark.parametrize("exists", [True, False])
def test_a_queue_for_notices_has_to_exist(tmp_path: Path, exists: bool) -> None:  # noqa: FBT001 - a case
    with opened_embedded_shop(f"embedded:///{tmp_path / 'broker.db'}") as shop:
        queue = shop.orders if exists else "nowhere"

        found = check_files(
            tmp_path / "retrier.db", tmp_path / "broker.db", RETRIER_POLICIES__NOTICES=queue
        )

    assert found[f"queue for notices {queue}"].ok is exists
    assert ("does not exist" in found[f"queue for notices {queue}"].text) is not exists


@pytest.mark.parametrize("exists", [True, False])
def test_a_destination_that_is_missing_is_a_warning(
    tmp_path: Path,
    exists: bool,  # noqa: FBT001 - a case
) -> None:
    with opened_embedded_shop(f"embedded:///{tmp_path / 'broker.db'}") as shop:
        queue = shop.orders if exists else "nowhere"
        entry = [{"queue": shop.error, "destination": queue}]
        more = {"RETRIER_INGESTION__ERROR_QUEUES": json.dumps(entry)}

        found = check_files(tmp_path / "retrier.db", tmp_path / "broker.db", **more)

    assert found[f"destination {queue}"].ok
    assert ("does not exist" in found[f"destination {queue}"].text) is not exists


@pytest.mark.parametrize(("number", "text"), [(0, "0 messages"), (1, "1 message")])
def test_ready_messages_are_counted(tmp_path: Path, number: int, text: str) -> None:
    with opened_embedded_shop(f"embedded:///{tmp_path / 'broker.db'}") as shop:
        shop.fail(number)
        more = {"RETRIER_INGESTION__ERROR_QUEUES": json.dumps([shop.error])}

        found = check_files(tmp_path / "retrier.db", tmp_path / "broker.db", **more)

    assert found[f"error queue {shop.error}"].text.startswith(f"ok, {text} ready")


STRICT = "policies: {rules: [{name: bookings, match: {}, attempts: 1, stream: strict}]}\n"


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        (STRICT, True),
        (STRICT + "retries: {presumed_after: 1d}\n", False),
        (STRICT.replace("strict", "release"), False),
        ("{}", False),
    ],
    ids=["strict", "presumed", "release", "no policies"],
)
def test_a_strict_rule_that_only_confirmations_let_go_on_is_a_warning(
    tmp_path: Path, text: str, *, warned: bool
) -> None:
    file = tmp_path / "retrier.yaml"
    place = f"broker: {{url: 'embedded:///{tmp_path}/b.db'}}\ndatabase: {{url: 'sqlite:///{tmp_path}/d.db'}}\n"
    file.write_text((text if text != "{}" else "") + place)

    found = {each.name: each for each in check(load_settings(file, {}))}

    assert ("streams" in found) is warned
    assert not warned or "warning: bookings: stream: strict waits" in found["streams"].text


def test_files_that_others_may_read_are_told_and_left_as_they_are(tmp_path: Path) -> None:
    database, broker = tmp_path / "retrier.db", tmp_path / "broker.db"
    database.touch()
    database.chmod(0o644)

    found = check_files(database, broker)

    assert found["files"].ok
    assert found["files"].text.endswith(f"chmod 600 {database}")
    assert database.stat().st_mode & 0o777 == 0o644


def test_files_that_are_closed_are_not_told(tmp_path: Path) -> None:
    database, broker = tmp_path / "retrier.db", tmp_path / "broker.db"
    database.touch(mode=0o600)

    assert "files" not in check_files(database, broker)


def test_processes_that_differ_from_these_settings_are_told(tmp_path: Path) -> None:
    db = open_upgraded(sqlite_url(tmp_path))
    note_process(db, process(host="two", pid=7, error_queues=("late",)))
    file = Path(db.place)
    db.dispose()

    found = check_files(file, tmp_path / "broker.db")

    assert found["processes"].ok
    assert found["processes"].text.startswith(
        "warning: error queues differ: error (these settings)"
    )
    assert "late (process 7 on two)" in found["processes"].text


def test_processes_that_are_like_these_settings_are_not_told(tmp_path: Path) -> None:
    db = open_upgraded(sqlite_url(tmp_path))
    note_process(db, process())
    file = Path(db.place)
    db.dispose()

    assert "processes" not in check_files(file, tmp_path / "broker.db")


@pytest.mark.parametrize("exists", [True, False])
def test_a_queue_for_heads_of_the_audit_has_to_exist(tmp_path: Path, exists: bool) -> None:  # noqa: FBT001 - a case
    with opened_embedded_shop(f"embedded:///{tmp_path / 'broker.db'}") as shop:
        queue = shop.orders if exists else "nowhere"
        more = {"RETRIER_ACCESS__AUDIT__HEAD_TO": queue}

        found = check_files(tmp_path / "retrier.db", tmp_path / "broker.db", **more)

    assert found[f"queue for heads of the audit {queue}"].ok is exists


class TestTheFileOfTheAudit:
    def told(self, tmp_path: Path, file: Path) -> CheckResult:
        more = {"RETRIER_ACCESS__AUDIT__FILE": str(file)}
        return check_files(tmp_path / "retrier.db", tmp_path / "broker.db", **more)["audit"]

    def test_is_well_if_it_can_be_made(self, tmp_path: Path) -> None:
        found = self.told(tmp_path, tmp_path / "audit.jsonl")

        assert found == CheckResult(name="audit", ok=True, text=f"{tmp_path}/audit.jsonl: ok")
        assert not (tmp_path / "audit.jsonl").exists()

    def test_needs_its_folder(self, tmp_path: Path) -> None:
        found = self.told(tmp_path, tmp_path / "none" / "audit.jsonl")

        assert (found.ok, "its folder is missing: make it" in found.text) == (False, True)

    def test_is_no_folder(self, tmp_path: Path) -> None:
        found = self.told(tmp_path, tmp_path)

        assert (found.ok, "it is no file" in found.text) == (False, True)
