"""Types, by mypy's strict rules in pyproject.toml."""

import pytest

from tests.support.project import complaints_of


def test_the_types_hold() -> None:
    complaints = complaints_of("-m", "mypy", "--no-error-summary")

    if complaints:
        pytest.fail(complaints, pytrace=False)
