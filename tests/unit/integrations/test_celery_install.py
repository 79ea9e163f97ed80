"""What `install` refuses."""

import pytest
from celery import Celery

from retrier.errors import ConfigurationError
from retrier.integrations.celery import install


def test_nothing_is_installed_without_the_names_that_failures_carry() -> None:
    app = Celery("shop", set_as_current=False)

    with pytest.raises(ConfigurationError) as refused:
        install(app, error_queue="", name="")

    assert refused.value.problems == (
        "error_queue must name a queue",
        "name must name the application",
    )
    install(app)
