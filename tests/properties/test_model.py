"""The engine against whatever may happen in any order: the short form of the model.

The long form is `python -m tests.endurance.model`.
"""

from hypothesis import HealthCheck, settings

from tests.properties.model.machine import Model

TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=20,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
