"""Variables by the names of a job queue: they count where nothing of ours is set."""

from datetime import timedelta
from pathlib import Path

import pytest

from retrier.errors import ConfigurationError
from retrier.policy.delays import Additive, Exponential, Spread
from retrier.policy.policy_set import Rule
from retrier.settings import Settings, find_remarks, load_settings
from retrier.settings.loading import load_policies
from retrier.settings.policies import make_definition

THEIRS = {
    "DATABASE_URL": "postgresql://shop@db/shop",
    "RETRY_MAX_ATTEMPTS": "4",
    "RETRY_BASE_DELAY_MS": "2000",
    "RETRY_JITTER_MAX_MS": "1000",
    "CIRCUIT_WINDOW": "20",
    "CIRCUIT_FAIL_THRESHOLD": "0.4",
    "CIRCUIT_COOLDOWN_MS": "30000",
}


def only_rule(settings: Settings) -> Rule:
    assert settings.policies is not None
    (rule,) = make_definition(settings.policies).rules
    return rule


def problems_of(**environ: str) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(None, environ)
    return caught.value.problems


def test_all_of_them_are_used_where_nothing_of_ours_is_set() -> None:
    settings = load_settings(None, THEIRS)

    assert settings.database.url == "postgresql+psycopg://shop@db/shop"
    rule = only_rule(settings)
    assert (rule.attempts, rule.backoff, rule.jitter) == (
        4,
        Exponential(first=timedelta(seconds=2)),
        Additive(most=timedelta(seconds=1)),
    )
    assert settings.breakers is not None
    assert (settings.breakers.window, settings.breakers.threshold) == (20, 40)
    assert settings.breakers.cooldown == timedelta(seconds=30)


def test_they_are_told() -> None:
    settings = load_settings(None, THEIRS)

    assert find_remarks(settings, None, THEIRS) == [
        "DATABASE_URL is used for database.url",
        "RETRY_MAX_ATTEMPTS is used for policies.rules",
        "RETRY_BASE_DELAY_MS is used for policies.rules",
        "RETRY_JITTER_MAX_MS is used for policies.rules",
        "CIRCUIT_WINDOW is used for breakers.window",
        "CIRCUIT_FAIL_THRESHOLD is used for breakers.threshold",
        "CIRCUIT_COOLDOWN_MS is used for breakers.cooldown",
    ]


def test_what_is_left_out_is_as_the_job_queue_has_it() -> None:
    rule = only_rule(load_settings(None, {"RETRY_BASE_DELAY_MS": "1000"}))

    assert (rule.attempts, rule.jitter) == (3, Additive(most=timedelta(seconds=5)))


@pytest.mark.parametrize("attempts", ["0", "1"])
def test_no_retry_and_no_jitter_can_be_said(attempts: str) -> None:
    environ = {"RETRY_MAX_ATTEMPTS": attempts, "RETRY_JITTER_MAX_MS": "0"}
    rule = only_rule(load_settings(None, environ))

    assert (rule.attempts, rule.jitter) == (int(attempts), Spread.NONE)


def test_what_the_file_says_goes_first(tmp_path: Path) -> None:
    path = tmp_path / "retrier.yaml"
    path.write_text("database: {url: 'sqlite:///a.db'}\nbreakers: off\npolicies: {default: wait}\n")
    settings = load_settings(path, THEIRS)

    assert settings == load_settings(path, {})
    assert find_remarks(settings, path, THEIRS) == find_remarks(settings, path, {})


def test_what_our_own_variables_say_goes_first() -> None:
    ours = {
        "RETRIER_DATABASE__URL": "sqlite:///a.db",
        "RETRIER_BREAKERS__COOLDOWN": "5s",
        "RETRIER_POLICIES": "",
    }

    assert load_settings(None, {**THEIRS, **ours}) == load_settings(None, ours)


def test_an_empty_one_is_not_there() -> None:
    assert load_settings(None, dict.fromkeys(THEIRS, " ")) == Settings()


def test_policies_that_are_read_again_have_them_too(tmp_path: Path) -> None:
    path = tmp_path / "retrier.yaml"
    path.write_text("instance: shop\n")

    again = load_policies(path, THEIRS, frozenset())

    assert again == load_settings(path, THEIRS).policies


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("RETRY_MAX_ATTEMPTS", "many", "RETRY_MAX_ATTEMPTS: must be a whole number from 0 to 1000"),
        ("RETRY_MAX_ATTEMPTS", "1001", "RETRY_MAX_ATTEMPTS: must be a whole number from 0 to 1000"),
        ("RETRY_BASE_DELAY_MS", "0", "RETRY_BASE_DELAY_MS: must be a whole number from 1 to"),
        ("RETRY_JITTER_MAX_MS", "-1", "RETRY_JITTER_MAX_MS: must be a whole number from 0 to"),
        ("CIRCUIT_COOLDOWN_MS", "9", "CIRCUIT_COOLDOWN_MS: must be a whole number from 1000 to"),
        ("CIRCUIT_FAIL_THRESHOLD", "1", "CIRCUIT_FAIL_THRESHOLD: must be a share like 0.5"),
        ("CIRCUIT_FAIL_THRESHOLD", "0", "CIRCUIT_FAIL_THRESHOLD: must be a share like 0.5"),
    ],
)
def test_a_wrong_one_is_named(name: str, value: str, problem: str) -> None:
    (found,) = problems_of(**{name: value})

    assert found.startswith(problem)
    assert found.endswith(f", is {value!r}")


@pytest.mark.parametrize(
    ("name", "value"),
    [("DATABASE_URL", "mysql://shop:secret@db/shop"), ("CIRCUIT_WINDOW", "0")],
)
def test_one_that_a_key_of_ours_refuses_is_named(name: str, value: str) -> None:
    (found,) = problems_of(**{name: value})

    assert found.endswith(f"(from {name})")
    assert "secret" not in found


@pytest.mark.parametrize(
    ("text", "percent"), [("0.5", 50), (".25", 25), ("1.0", 100), ("60", 60), ("1%", 1)]
)
def test_a_threshold_is_a_share_or_percent(text: str, percent: int) -> None:
    breakers = load_settings(None, {"CIRCUIT_FAIL_THRESHOLD": text}).breakers

    assert breakers is not None
    assert breakers.threshold == percent


@pytest.mark.parametrize(
    ("text", "window", "least"), [("5", 5, 5), ("20", 20, 10), ("2m", timedelta(minutes=2), 10)]
)
def test_a_window_is_outcomes_or_a_time(text: str, window: object, least: int) -> None:
    breakers = load_settings(None, {"CIRCUIT_WINDOW": text}).breakers

    assert breakers is not None
    assert (breakers.window, breakers.min) == (window, least)
