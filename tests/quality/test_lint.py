"""Lint and form, by the rules in pyproject.toml."""

import pytest

from tests.support.project import complaints_of


def test_the_linter_has_nothing_to_say() -> None:
    complaints = complaints_of("-m", "ruff", "check", "--quiet", ".")

    if complaints:
        pytest.fail(complaints, pytrace=False)


def test_the_formatter_would_change_nothing() -> None:
    complaints = complaints_of("-m", "ruff", "format", "--check", "--quiet", "--diff", ".")

    if complaints:
        pytest.fail(complaints, pytrace=False)
