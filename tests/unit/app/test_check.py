"""`retrier check` over the nodes of a broker."""

from pathlib import Path

import pytest

from retrier.app import check
from retrier.settings import load_settings
from tests.support.private_servers import find_free_ports

pytestmark = pytest.mark.rabbitmq


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
    assert f"127.0.0.1:{gone}" in broker.text
