"""The demo's folder, and the service that is run in it."""

from pathlib import Path

import pytest

from retrier.demo.shop import find_url
from retrier.demo.workspace import Workspace
from tests.support.waiting import wait_until


def test_the_service_of_the_demo_heeds_no_settings_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRIER_LOG__FORMAT", "console")
    monkeypatch.setenv("RETRIER_DATABASE__URL", f"sqlite:///{tmp_path}/mine.db")
    place = Workspace(folder=tmp_path)
    place.set_up(port=0)

    with place.running_service():
        wait_until(lambda: find_url(place.log) is not None, 20, "the service tells where it is")
        wait_until((tmp_path / "retrier.db").exists, 20, "it uses the demo's database")

    assert not (tmp_path / "mine.db").exists()
