"""Without any configuration the service works on its defaults, and says where its data lies."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.embedded_shop import opened_embedded_shop
from tests.support.project import ROOT
from tests.support.service import Service
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "RETRIER_API__PORT": "0", "PWD": str(tmp_path)}


def test_the_defaults_need_no_server(tmp_path: Path, environ: dict[str, str]) -> None:
    # Given a service that is started with nothing but its name, in an empty folder
    service = Service(None, environ, (), folder=tmp_path)
    try:
        service.wait_ready()
        (places,) = [line for line in service.logged if line.get("event") == "service.places"]
        assert places["broker"] == str(tmp_path / "retrier-data" / "broker.db")
        assert places["database"] == str(tmp_path / "retrier-data" / "retrier.db")
        (default,) = [e for e in service.logged if e.get("event") == "service.default_database"]
        assert default["place"] == places["database"]

        # When a Kombu program puts a failed message there, then it is taken off and sent back
        with opened_embedded_shop(f"embedded:///{places['broker']}") as shop, service.http as http:
            shop.fail(1)
            wait_until(lambda: http.get("/api/errors").headers["Total-Count"] == "1", 30)
            http.post("/api/errors/retry/all")
            assert len(shop.take(shop.orders, 1, 10)) == 1
    finally:
        service.kill()


def test_names_of_other_systems_that_are_used_stand_in_the_log(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    knobs = {"DATABASE_URL": f"sqlite:///{tmp_path}/shop.db", "RETRY_MAX_ATTEMPTS": "4"}
    service = Service(None, environ | knobs, (), folder=tmp_path)
    try:
        service.wait_ready()
        used = [line for line in service.logged if line.get("event") == "service.knob_used"]
    finally:
        service.kill()

    assert {line["variable"]: line["setting"] for line in used} == {
        "DATABASE_URL": "database.url",
        "RETRY_MAX_ATTEMPTS": "policies.rules",
    }


def test_check_makes_no_files(tmp_path: Path, environ: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "retrier", "check"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout.count("missing: will be made")) == (0, 2)
    assert list(tmp_path.iterdir()) == []


def test_check_and_verify_say_that_all_is_well(tmp_path: Path, environ: dict[str, str]) -> None:
    for command in ("check", "db upgrade", "verify"):
        done = subprocess.run(
            [sys.executable, "-m", "retrier", *command.split()],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
