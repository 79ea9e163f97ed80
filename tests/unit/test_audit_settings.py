"""Where the audit goes, by the settings."""

from pathlib import Path

import pytest

from retrier.errors import ConfigurationError
from retrier.settings import load_settings


def load(tmp_path: Path, audit: str) -> object:
    path = tmp_path / "retrier.yaml"
    path.write_text(
        "broker: {url: 'amqp://127.0.0.1/'}\ningestion: {error_queues: [error]}\n"
        f"access: {{audit: {audit}}}\n"
    )
    return load_settings(path, {})


@pytest.mark.parametrize("queue", ["error", "retrier.staging"])
def test_the_head_goes_to_no_queue_that_retrier_empties(tmp_path: Path, queue: str) -> None:
    with pytest.raises(ConfigurationError, match=r"access\.audit\.head_to: .* itself empties"):
        load(tmp_path, f"{{head_to: {queue}}}")


def test_another_key_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"access\.audit\.path"):
        load(tmp_path, "{path: x}")
