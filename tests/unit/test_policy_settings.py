"""The section `policies` of the settings: what it makes, what is refused, what is warned of."""

from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from retrier.errors import ConfigurationError
from retrier.policy.classification import make_gateway_rules
from retrier.policy.delays import (
    PRESETS,
    Additive,
    Exponential,
    Fixed,
    Linear,
    ListedDelays,
    Spread,
)
from retrier.policy.policy_set import Definition, GivingUp, Match, Rule, Unmatched, hash_definition
from retrier.settings import (
    PoliciesSection,
    Settings,
    check_policies,
    find_policy_warnings,
    load_policies,
    load_settings,
    make_definition,
    name_settings_queues,
)

OWN = frozenset({"error", "retrier.staging"})
WHOLE = r"""
default: dead
per_second: 50
notices: retrier.dead
classify:
  - {exception: "Shop.GatewayError", message: "5\\d\\d", reason: GW_5XX}
rules:
  - name: payments
    match: {queue: "payments*", reason: [transport_unavailable, timeout_exceeded]}
    attempts: 6
    backoff: {kind: exponential, first: 30s, factor: 2, cap: 1h}
    jitter: equal
    never: [validation_failure, serialization_error]
    then: manual
  - {name: rest, match: {}, preset: outbox}
poison: {crashes: 3}
"""


def checked(text: str) -> PoliciesSection:
    return check_policies(yaml.safe_load(text), OWN)


def defined(text: str) -> Definition:
    return make_definition(checked(text))


def only_rule(text: str) -> Rule:
    (rule,) = defined(f"rules: [{{name: a, match: {{}}, {text}}}]").rules
    return rule


def problems_of(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        checked(text)
    return caught.value.problems


def test_a_whole_section_becomes_a_definition() -> None:
    made = defined(WHOLE)

    assert (made.default, made.per_second, made.notices) == (Unmatched.DEAD, 50, "retrier.dead")
    assert made.crashes == 3
    assert made.rules[0] == Rule(
        name="payments",
        match=Match(queue=("payments*",), reason=("transport_unavailable", "timeout_exceeded")),
        attempts=6,
        backoff=Exponential(first=timedelta(seconds=30), factor=2, cap=timedelta(hours=1)),
        jitter=Spread.EQUAL,
        never=("validation_failure", "serialization_error"),
        then=GivingUp.MANUAL,
    )
    (reason,) = made.classify
    assert (reason.reason, reason.exception) == ("GW_5XX", ("Shop.GatewayError",))
    assert reason.message == r"5\d\d"


@pytest.mark.parametrize(
    ("text", "backoff"),
    [
        (
            "{kind: exponential, first: 2s}",
            Exponential(first=timedelta(seconds=2), factor=2.0),
        ),
        (
            "{kind: linear, first: 2s, step: 3s, cap: 1m}",
            Linear(first=timedelta(seconds=2), step=timedelta(seconds=3), cap=timedelta(minutes=1)),
        ),
        ("{kind: fixed, first: 2s}", Fixed(first=timedelta(seconds=2))),
        (
            "{kind: list, delays: [1s, 1m]}",
            ListedDelays(delays=(timedelta(seconds=1), timedelta(minutes=1))),
        ),
    ],
)
def test_each_kind_of_backoff_can_be_written(text: str, backoff: object) -> None:
    assert only_rule(f"attempts: 3, backoff: {text}").backoff == backoff


def test_something_random_can_be_added() -> None:
    rule = only_rule("preset: outbox, jitter: {additive: 5s}")

    assert rule.jitter == Additive(most=timedelta(seconds=5))


@pytest.mark.parametrize("name", ["outbox", "gateway", "caf"])
def test_a_preset_gives_all_that_is_left_out(name: str) -> None:
    rule, preset = only_rule(f"preset: {name}"), PRESETS[name]

    made = (rule.attempts, rule.backoff, rule.jitter, rule.never, rule.only)
    assert made == (preset.attempts, preset.backoff, preset.jitter, preset.never, preset.only)


def test_the_preset_cooldown_is_given_time_and_attempts() -> None:
    rule = only_rule("preset: cooldown, cooldown: 30s, attempts: 3")

    assert (rule.attempts, rule.backoff) == (3, Fixed(first=timedelta(seconds=30)))


@pytest.mark.parametrize("keys", ["", "preset: cooldown", "preset: cooldown, cooldown: 1s"])
def test_a_rule_without_attempts_retries_nothing(keys: str) -> None:
    assert only_rule(keys).attempts == 0


@pytest.mark.parametrize("keys", ["", ", cooldown: 0s"])
def test_without_a_cooldown_there_is_none(keys: str) -> None:
    assert only_rule(f"preset: cooldown, attempts: 3{keys}").backoff == Fixed(first=timedelta(0))


def test_a_rule_replaces_parts_of_its_preset() -> None:
    rule = only_rule("preset: gateway, attempts: 5, never: [FORBIDDEN], only: '*', jitter: none")

    assert (rule.attempts, rule.never, rule.only, rule.jitter) == (
        5,
        ("FORBIDDEN",),
        ("*",),
        Spread.NONE,
    )
    assert rule.backoff == PRESETS["gateway"].backoff


def test_a_preset_and_what_it_stands_for_have_the_same_hash() -> None:
    spelt = "attempts: 10, backoff: {kind: exponential, first: 60s, factor: 2, cap: 1h}"
    one, two = (
        defined(f"rules: [{{name: a, match: {{}}, {each}}}]") for each in (spelt, "preset: outbox")
    )

    assert hash_definition(one) == hash_definition(two)


@pytest.mark.parametrize("attempts", [0, 1])
def test_a_rule_that_retries_nothing_needs_no_backoff(attempts: int) -> None:
    assert only_rule(f"attempts: {attempts}").attempts == attempts


def test_the_set_gateway_stands_for_its_rules() -> None:
    assert defined("classify: [{set: gateway}]").classify == make_gateway_rules()


@pytest.mark.parametrize("key", ["message_type", "type"])
def test_the_set_gateway_is_limited_to_queues_and_types(key: str) -> None:
    limited = make_gateway_rules(queue=("convert", "scan.*"), message_type=("Pdf*",))

    text = f"classify: [{{set: gateway, queue: [convert, 'scan.*'], {key}: 'Pdf*'}}]"

    assert defined(text).classify == limited


def test_a_reason_of_ones_own_may_ask_for_the_type_of_the_message() -> None:
    (rule,) = defined("classify: [{message_type: 'Pdf*', reason: pdf}]").classify

    assert (rule.reason, rule.message_type) == ("pdf", ("Pdf*",))


def test_an_empty_section_waits_for_a_person() -> None:
    assert defined("{}") == Definition()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("rules: [{match: {}, preset: outbox}]", "policies.rules[0].name: must be given"),
        ("rules: [{name: a, preset: outbox}]", "policies.rules[0].match: must be given"),
        (
            "rules: [{name: a, match: {}, preset: inbox, attempts: 0}]",
            "policies.rules[0].preset: must be outbox, gateway, cooldown or caf, is inbox",
        ),
        (
            "rules: [{name: a, match: {}, attempts: 2}]",
            "policies.rules[0].backoff: must be given, unless a preset gives it",
        ),
        (
            "rules: [{name: a, match: {}, preset: cooldown, attempts: 2, cooldown: -1s}]",
            (
                "policies.rules[0].cooldown: must be a duration like 500ms, 30s, 5m, 1h or 7d,"
                " is -1s"
            ),
        ),
        (
            "rules: [{name: a, match: {}, preset: outbox, cooldown: 1s}]",
            "policies.rules[0].cooldown: is for the preset cooldown",
        ),
        (
            (
                "rules: [{name: a, match: {}, preset: cooldown, attempts: 2, cooldown: 1s,"
                " backoff: {kind: fixed, first: 1s}}]"
            ),
            "policies.rules[0].backoff: does not go with the preset cooldown",
        ),
        (
            "rules: [{name: default, match: {}, preset: outbox}]",
            "policies.rules[0].name: default stands for what no rule matches",
        ),
        (
            "rules: [{name: 'a b', match: {}, preset: outbox}]",
            (
                "policies.rules[0].name: must be 1 to 64 letters, digits, dots, dashes and underscores,"
                " is a b"
            ),
        ),
        (
            "rules: [{name: a, match: {}, preset: outbox, backoff: {kind: cubic}}]",
            "policies.rules[0].backoff.kind: must be exponential, linear, fixed or list, is cubic",
        ),
        (
            (
                "rules: [{name: a, match: {}, preset: outbox, backoff: {kind: fixed, first: 1s,"
                " cap: 1s}}]"
            ),
            "policies.rules[0].backoff.cap: is not for the kind fixed",
        ),
        (
            "rules: [{name: a, match: {}, preset: outbox, backoff: {kind: fixed, first: soon}}]",
            (
                "policies.rules[0].backoff.first: must be a duration like 500ms, 30s, 5m, 1h or 7d,"
                " is soon"
            ),
        ),
        (
            (
                "rules: [{name: a, match: {}, preset: outbox, backoff: {kind: exponential, first: 1s,"
                " factor: twice}}]"
            ),
            "policies.rules[0].backoff.factor: must be a number, is twice",
        ),
        (
            "rules: [{name: a, match: {}, preset: outbox, jitter: {additive: 0s}}]",
            (
                "policies.rules[0].jitter: additive must be longer than 0s and at most 36500d,"
                " is a mapping"
            ),
        ),
        (
            "rules: [{name: a, match: {queue: []}, preset: outbox}]",
            "policies.rules[0].match.queue: must name something, is a list",
        ),
        (
            "rules: [{name: a, match: {queue: 5}, preset: outbox}]",
            "policies.rules[0].match.queue: must be a text or a list of texts, is 5",
        ),
        (
            "rules: [{name: a, match: {queue: [retrier.staging, error]}, preset: outbox}]",
            (
                "policies.rules[0].match.queue: matches only what Retrier itself empties:"
                " retrier.staging, error"
            ),
        ),
        (
            "rules: [{name: a, match: {topic: b}, preset: outbox}]",
            (
                "policies.rules[0].match.topic: is not a setting; known here: queue, endpoint,"
                " message_type, exception, reason"
            ),
        ),
        (
            "rules: [{name: a, match: {}, preset: outbox, retries: 1}]",
            (
                "policies.rules[0].retries: is not a setting; known here: name, match, preset,"
                " attempts, backoff, cooldown, jitter, never, only, then, stream, breaker"
            ),
        ),
        (
            "rules: [{name: a, match: {}, preset: outbox, backoff: {kind: fixed, first: 1s, max: 1s}}]",
            (
                "policies.rules[0].backoff.max: is not a setting; known here: kind, first, factor,"
                " step, cap, delays"
            ),
        ),
        (
            "poison: {limit: 1}",
            "policies.poison.limit: is not a setting; known here: crashes",
        ),
        (
            "classify: [{exception: A, word: B, reason: c}]",
            (
                "policies.classify[0].word: is not a setting; known here: set, reason, queue,"
                " message_type, exception, failure_reason, message"
            ),
        ),
        ("classify: [{exception: A}]", "policies.classify[0].reason: must be given"),
        (
            "classify: [{set: gateway, reason: b}]",
            "policies.classify[0].set: goes with queue and message_type only, not with reason",
        ),
        ("classify: [{set: other}]", "policies.classify[0].set: must be gateway, is other"),
        ("rules: yes", "policies.rules: must be a list, is true"),
        (
            "5",
            (
                "policies: must hold keys of its own: default, per_second, notices, classify, rules,"
                " poison"
            ),
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, line: str) -> None:
    assert problems_of(text) == (line,)


def test_all_problems_are_told_at_once() -> None:
    found = problems_of("""
        per_second: many
        notices: error
        classify: [{reason: a}, {message: "(", reason: b}]
        rules:
          - {name: a, match: {queue: error}, attempts: -1}
          - {name: a, match: {}, preset: outbox, backoff: {kind: list, delays: []}}
        """)

    assert {line.partition(": ")[0] for line in found} == {
        "policies.per_second",
        "policies.notices",
        "policies.classify[0]",
        "policies.classify[1].message",
        "policies.rules[0].match.queue",
        "policies.rules[0].attempts",
        "policies.rules[0].backoff",
        "policies.rules[1].name",
        "policies.rules[1].backoff.delays",
    }


@pytest.mark.parametrize(
    "text",
    [
        "notices: [error]",
        "rules: [5]",
        "rules: [{name: [a], match: {queue: {}}, preset: [b], attempts: [], backoff: {kind: []}}]",
        "classify: [5]",
        "{5: 6}",
    ],
)
def test_a_wrong_shape_is_a_problem_and_no_accident(text: str) -> None:
    assert all(line.startswith("policies") for line in problems_of(text))


@pytest.mark.parametrize(("preset", "key"), [("caf", "never"), ("gateway", "only")])
def test_an_empty_list_empties_that_of_the_preset(preset: str, key: str) -> None:
    rule = only_rule(f"preset: {preset}, {key}: []")

    assert (rule.never, rule.only) == ((), ())


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            (
                "rules: [{name: a, match: {queue: 'pay*'}, preset: outbox},"
                " {name: b, match: {queue: [payments, pay], reason: unknown}, preset: outbox}]"
            ),
            "policies.rules[1]: never decides: rule a matches all of it before",
        ),
        (
            "rules: [{name: a, match: {reason: timeout}, preset: outbox}]",
            "policies.rules[0].match.reason: no failure gets the reason timeout",
        ),
        (
            "rules: [{name: a, match: {}, preset: outbox, never: [unknwon]}]",
            "policies.rules[0].never: no failure gets the reason unknwon",
        ),
        (
            "rules: [{name: a, match: {}, preset: gateway}]",
            (
                "policies.rules[0].preset: its codes are given to no failure, and it retries"
                " nothing else: add {set: gateway}, or entries of your own, to policies.classify"
            ),
        ),
        (
            "rules: [{name: a, match: {}}]",
            "policies.rules[0].attempts: is 0 if it is left out: nothing is retried",
        ),
        (
            "rules: [{name: a, match: {endpoint: [Sales, '**']}, preset: outbox}]",
            (
                "policies.rules[0].match.endpoint: * is any text, and matches no failure that has"
                " none: leave the key out to match those, too"
            ),
        ),
        (
            (
                "rules: [{name: a, match: {queue: '*'}, preset: outbox},"
                " {name: b, match: {}, preset: outbox}]"
            ),
            "policies.rules[1]: never decides: rule a matches all of it before",
        ),
        ("default: dead", "policies.default: every failure is dead at once: there is no rule"),
    ],
)
def test_what_can_hardly_be_meant_is_warned_of(text: str, warning: str) -> None:
    assert list(find_policy_warnings(checked(text))) == [warning]


@pytest.mark.parametrize(
    "text",
    [
        (
            "rules: [{name: a, match: {queue: 'pay*'}, preset: outbox}, {name: b, match: {},"
            " preset: caf}]"
        ),
        "{classify: [{set: gateway}], rules: [{name: a, match: {reason: GW_5XX}, preset: gateway}]}",
        "rules: [{name: a, match: {reason: 'mine*'}, preset: outbox, never: unknown}]",
        "rules: [{name: a, match: {}, attempts: 0}]",
    ],
)
def test_of_what_may_well_be_meant_there_is_no_warning(text: str) -> None:
    assert list(find_policy_warnings(checked(text))) == []


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "retrier.yaml"
    path.write_text("policies: {per_second: 7}\napi: {port: many}\n")
    return path


def test_only_the_policies_of_a_file_are_read_again(file: Path) -> None:
    found = load_policies(file, {}, OWN)

    assert found is not None
    assert found.per_second == 7


def test_the_environment_wins_also_when_they_are_read_again(file: Path) -> None:
    found = load_policies(file, {"RETRIER_POLICIES__PER_SECOND": "8"}, OWN)

    assert found is not None
    assert found.per_second == 8


def test_the_environment_may_give_the_whole_section() -> None:
    environ = {"RETRIER_POLICIES": '{"rules": [{"name": "a", "match": {}, "preset": "outbox"}]}'}

    found = load_settings(None, environ).policies

    assert found is not None
    assert [rule.name for rule in found.rules] == ["a"]


def test_a_problem_of_the_environment_names_its_variable(file: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_policies(file, {"RETRIER_POLICIES__PER_SECOND": "0"}, OWN)

    assert caught.value.problems == (
        (
            "policies.per_second: must be between 1 and 1000000, is 0"
            " (from RETRIER_POLICIES__PER_SECOND)"
        ),
    )


def test_a_file_without_the_section_has_none(tmp_path: Path) -> None:
    path = tmp_path / "retrier.yaml"
    path.write_text("policies:\n")

    assert load_policies(path, {}, OWN) is None


def test_half_a_file_is_a_problem(file: Path) -> None:
    file.write_text("policies: {per_second: ")

    with pytest.raises(ConfigurationError):
        load_policies(file, {}, OWN)


def test_the_queues_that_retrier_empties_are_those_of_the_settings() -> None:
    assert name_settings_queues(Settings()).names == OWN


LARGE_TOGETHER = r"""
classify:
  - {message: "a.{500}b", reason: one}
  - {message: "deadlock", reason: two}
  - {message: "a{900}", reason: three}
  - {message: "a.{400}", reason: four}
  - {message: "a.{300}", reason: five}
"""
TOO_LARGE = (
    "policies.classify: its regular expressions take 10532 steps together for each character of a "
    "text, and 10000 are the most; the largest: [0] 4006, [3] 3205, [4] 2405"
)


def test_patterns_that_are_large_together_are_refused() -> None:
    assert problems_of(LARGE_TOGETHER) == (TOO_LARGE,)


def test_one_pattern_less_is_taken() -> None:
    text = LARGE_TOGETHER.replace('message: "a{900}"', 'queue: "scans"')

    assert len(checked(text).classify) == 5


def test_many_patterns_of_the_usual_kind_are_taken() -> None:
    entries = "".join(f'\n  - {{message: "(?i)code {n}: .{{0,9}}", reason: a}}' for n in range(100))

    assert len(checked(f"classify:{entries}").classify) == 100


def test_a_pattern_that_is_refused_by_itself_is_told_once() -> None:
    assert len(problems_of('classify: [{message: ".{1000}.{1000}", reason: a}]')) == 1


def test_patterns_that_are_large_together_are_refused_at_the_start_and_in_a_changed_file(
    tmp_path: Path,
) -> None:
    path = tmp_path / "retrier.yaml"
    path.write_text(yaml.safe_dump({"policies": yaml.safe_load(LARGE_TOGETHER)}))

    with pytest.raises(ConfigurationError) as at_start:
        load_settings(path, {})
    with pytest.raises(ConfigurationError) as changed:
        load_policies(path, {}, OWN)

    assert (at_start.value.problems, changed.value.problems) == ((TOO_LARGE,), (TOO_LARGE,))
