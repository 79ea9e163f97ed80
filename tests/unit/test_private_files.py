"""Whatever holds messages is closed to other users of the machine, from its first byte."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from retrier.demo.shop import ShopCounts, write_counts
from retrier.demo.workspace import Workspace
from retrier.private_files import find_open_to_others, make_private_file, make_private_folder
from retrier.store.upgrade import upgrade_schema
from retrier.store.upkeep import probe_write
from retrier.transport.embedded.broker_file import BrokerFile
from retrier.worker.seen import SeenInFile
from tests.support.databases import open_database, sqlite_url
from tests.support.frozen_clock import FrozenClock

WITH_LOGS = ("", "-wal", "-shm")


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    """Take away what would close files by chance."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """Return the mode of each file, and of the folder as `.`."""
    found = {each.name: each for each in folder.iterdir()} | {".": folder}
    return {name: f"{each.stat().st_mode & 0o777:o}" for name, each in found.items()}


def closed(*names: str) -> dict[str, str]:
    return {".": "700", **dict.fromkeys(names, "600")}


def test_a_database_is_closed_with_its_logs(tmp_path: Path) -> None:
    db = open_database(sqlite_url(tmp_path / "data"))
    name = Path(db.place).name
    upgrade_schema(db)
    probe_write(db)

    found = modes(tmp_path / "data")
    db.dispose()

    assert found == closed(*(f"{name}{each}" for each in WITH_LOGS))


def test_an_embedded_broker_is_closed_with_its_logs(tmp_path: Path) -> None:
    with closing(BrokerFile(tmp_path / "data" / "broker.db", "CREATE TABLE a (b)")) as file:
        file.write(lambda conn: conn.execute("INSERT INTO a VALUES (1)"))
        found = modes(tmp_path / "data")

    assert found == closed(*(f"broker.db{each}" for each in WITH_LOGS))


def test_what_a_worker_remembers_is_closed_with_its_logs(tmp_path: Path) -> None:
    make_private_folder(tmp_path / "data")
    with closing(SeenInFile(tmp_path / "data" / "seen.db", FrozenClock())) as seen:
        seen.begin("a")
        found = modes(tmp_path / "data")

    assert found == closed(*(f"seen.db{each}" for each in WITH_LOGS))


def test_the_files_of_the_demo_are_closed(tmp_path: Path) -> None:
    make_private_folder(tmp_path / "demo")
    workspace = Workspace(folder=tmp_path / "demo")
    workspace.set_up(1)
    write_counts(workspace.counts, ShopCounts())

    found = modes(tmp_path / "demo")

    assert found == closed("retrier.yaml", "service.log", "shop.json") | {"broken": "700"}


def test_a_file_is_closed_before_it_has_a_byte(tmp_path: Path) -> None:
    make_private_file(tmp_path / "new.db")

    made = (tmp_path / "new.db").stat()

    assert (made.st_size, made.st_mode & 0o777) == (0, 0o600)


def test_a_file_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "old.db"
    file.write_text("content")
    file.chmod(0o640)

    make_private_file(file)

    assert (file.read_text(), file.stat().st_mode & 0o777) == ("content", 0o640)


def test_a_link_makes_the_file_to_which_it_leads(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")

    make_private_file(tmp_path / "link.db")

    assert (tmp_path / "real.db").stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_made_is_left_to_who_opens_it(tmp_path: Path) -> None:
    make_private_file(tmp_path / "missing" / "new.db")

    assert not (tmp_path / "missing").exists()


class TestFilesThatOthersMayRead:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        """Give a database that an earlier version has made."""
        folder = tmp_path / "data"
        folder.mkdir(mode=0o755)
        made = folder / "retrier.db"
        for suffix in WITH_LOGS:
            Path(f"{made}{suffix}").touch(mode=0o644)
        return made

    def test_are_found_with_their_folder(self, file: Path) -> None:
        named = [Path(f"{file}{suffix}") for suffix in WITH_LOGS]

        assert find_open_to_others(file) == [file.parent, *named]

    def test_are_those_that_are_open(self, file: Path) -> None:
        file.parent.chmod(0o700)
        file.chmod(0o600)
        Path(f"{file}-wal").chmod(0o600)

        assert find_open_to_others(file) == [Path(f"{file}-shm")]

    def test_are_none_in_an_open_folder_of_closed_ones(self, file: Path) -> None:
        for suffix in WITH_LOGS:
            Path(f"{file}{suffix}").chmod(0o600)

        assert find_open_to_others(file) == []
