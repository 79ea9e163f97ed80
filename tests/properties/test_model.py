"""The engine against whatever may happen in any order: the short form of the model.

The long form is `python -m tests.endurance.model`.
"""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.properties.model.databases import databases
from tests.properties.model.machine import model_on

EXAMPLES = {"sqlite": 6, "postgres": 3}
SHORT = settings(
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_the_engine_does_what_the_account_says_whatever_happens(kind: str) -> None:
    with databases(kind) as opened:
        run_state_machine_as_test(
            model_on(opened), settings=settings(SHORT, max_examples=EXAMPLES[kind])
        )
