"""Every operation of the OpenAPI document, asked at random: nothing breaks, all is as documented."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from retrier.store.engine.database import Database, DatabaseOptions
from tests.support.api import Api
from tests.support.http_client import URL
from tests.support.seeded import Known, Seeded

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    unsupported_method,
]
ENDLESS = {"GET /api/events"}
"""Has tests of its own: who asks here waits for the end of the answer."""
USUAL = 100
"""What Hypothesis tries of a test unless its profile says otherwise."""
EXAMPLES = {"sqlite": 16, "postgresql": 5}
"""Of each operation, by dialect; all of them take some 20 s of one core. A longer run has more."""


@pytest.fixture(scope="module")
def document(seeded: Seeded) -> Any:
    """Give the document as a client gets it."""
    return schemathesis.openapi.from_asgi(
        "/openapi.json", seeded.api.app, headers={"Host": "localhost"}
    )


def labels() -> list[str]:
    """Name every operation; no database is opened for that."""
    api = Api(Database(DatabaseOptions(url="sqlite:///unused.db")))
    paths = api.app.openapi()["paths"]
    api.http.close()
    api.db.dispose()
    found = [f"{method.upper()} {path}" for path, methods in paths.items() for method in methods]
    return [label for label in found if label not in ENDLESS]


def cases(operation: Any, known: Known) -> SearchStrategy[Case]:
    """Make requests of the right shape, of the wrong one, and for what is there."""
    ways = [operation.as_strategy()]
    if operation.query or operation.body:
        ways.append(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    if operation.path_parameters:
        names = {each.name: st.sampled_from(known[each.name]) for each in operation.path_parameters}
        found = st.fixed_dictionaries(names)
        ways.append(found.flatmap(lambda values: operation.as_strategy(path_parameters=values)))
    return st.one_of(ways)


@pytest.mark.parametrize("label", labels())
def test_an_operation_answers_as_its_document_says(
    seeded: Seeded, document: Any, label: str
) -> None:
    operation = document.find_operation_by_label(label)

    @settings(
        max_examples=EXAMPLES[seeded.api.db.engine.dialect.name] * settings().max_examples // USUAL,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases(operation, seeded.known))
    def ask(case: Case) -> None:
        case.call_and_validate(base_url=URL, checks=CHECKS)

    ask()
