"""A PostgreSQL primary dies in the middle of the work, and its standby takes over."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from retrier.app.check import check as run_check
from retrier.errors import DatabaseRefused
from retrier.settings import load_settings
from retrier.store.upkeep import get_installation_id
from tests.faults.conftest import Begin, Roads, open_site
from tests.faults.work import Work, check
from tests.journeys.conftest import Site
from tests.support.databases import open_database
from tests.support.private_servers import PrivatePostgres, PrivateRabbitMQ, private_postgres

pytestmark = [
    pytest.mark.faults,
    pytest.mark.rabbitmq,
    pytest.mark.postgres,
]


@pytest.fixture
def primary() -> Iterator[PrivatePostgres]:
    """Give a PostgreSQL cluster that does not come back."""
    with private_postgres() as server:
        yield server


@pytest.fixture
def standby(primary: PrivatePostgres) -> Iterator[PrivatePostgres]:
    """Give its standby, which has everything that is committed."""
    with private_postgres(primary) as server:
        primary.wait_for_standby()
        yield server


@pytest.fixture
def site_on_both(
    broker: PrivateRabbitMQ, primary: PrivatePostgres, standby: PrivatePostgres, tmp_path: Path
) -> Iterator[Site]:
    """Give a site whose database is the one of both that can be written to."""
    name = primary.create_database().rpartition("/")[2]
    hosts = "&".join(f"host=127.0.0.1:{urlsplit(each.url).port}" for each in (standby, primary))
    url = f"postgresql+psycopg://postgres@/{name}?{hosts}&target_session_attrs=read-write"
    with open_site(Roads(broker.url, url), tmp_path) as site:
        yield site


@pytest.fixture
def work(site_on_both: Site, begin: Begin) -> Work:
    """Give work in the middle of forwarding."""
    work = begin(site_on_both)
    work.wait_for("forwarding")
    return work


def test_the_work_goes_on_at_the_standby_once_it_is_promoted(
    work: Work, primary: PrivatePostgres, standby: PrivatePostgres
) -> None:
    with work.fault():
        primary.stop()
        standby.promote()

    work.must_finish()
    check(work, in_doubt=0)


def test_a_standby_is_refused_by_check_and_run_in_the_same_words(standby: PrivatePostgres) -> None:
    environ = {"RETRIER_DATABASE__URL": standby.url, "RETRIER_BROKER__URL": "embedded:///none.db"}
    (found,) = [each for each in run_check(load_settings(None, environ)) if each.name == "database"]
    db = open_database(standby.url)
    with pytest.raises(DatabaseRefused, match="takes no writes: it is a standby") as refused:
        get_installation_id(db)
    db.dispose()

    assert (found.ok, found.out_of_reach, found.text) == (False, False, str(refused.value))
