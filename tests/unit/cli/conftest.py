"""A command line on an empty SQLite database: what a database does is the same on each."""

from collections.abc import Iterator

import pytest

from tests.conftest import opened_empty
from tests.support.command_line import CommandLine


@pytest.fixture
def cli(request: pytest.FixtureRequest) -> Iterator[CommandLine]:
    """Give the command line."""
    with opened_empty("sqlite", request) as db:
        made = CommandLine(db)
        yield made
        made.api.http.close()
