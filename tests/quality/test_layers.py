"""Who may import whom, by the contracts in pyproject.toml."""

import pytest

from tests.support.project import complaints_of

LINT_IMPORTS = (
    "import sys; from importlinter.cli import lint_imports; "
    "sys.exit(lint_imports(no_cache=True, no_logo=True))"
)


def test_every_import_keeps_to_the_contracts() -> None:
    complaints = complaints_of("-c", LINT_IMPORTS)

    if complaints:
        pytest.fail(complaints, pytrace=False)
