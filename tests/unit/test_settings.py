"""Settings: what is read, what wins, what is refused and with which words."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from psycopg.pq import Conninfo
from pydantic import ValidationError

from retrier.domain.breakers import BreakerRules, BreakerTerms, Per
from retrier.domain.text import redact
from retrier.errors import ConfigurationError
from retrier.policy.policy_set import PolicySet
from retrier.settings import ErrorQueue, Settings, load_settings
from retrier.settings.fields import SSL_FILES
from retrier.settings.policies import make_definition
from tests.support.setting_keys import SETTING_KEYS, variable_of
from tests.support.wrong_settings import WRONG_FILES

Write = Callable[[str], Path]

NONSENSE = {
    "ingestion.forward_to": "q" * 256,
    "ingestion.stream_header": "h" * 256,
    "ingestion.stream_order_header": "h" * 256,
    "instance": "a b",
    "database.upgrade": "maybe",
    "ingestion.error_queues": "[a",
    "ingestion.volatile_headers": "[a",
    "ingestion.generated_names": "[a",
    "ingestion.dialects": "[a",
    "search.fields": "[a",
    "api.allowed_hosts": "[a",
    "api.allowed_origins": "[a",
    "api.trusted_proxies": "[a",
}


@pytest.fixture
def settings_file(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        path = tmp_path / "retrier.yaml"
        path.write_text(text)
        return path

    return write


def problems_of(path: Path | None = None, **environ: str) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(path, environ)
    return caught.value.problems


def test_without_file_and_environment_every_key_has_its_default() -> None:
    assert load_settings(None, {}) == Settings()


def test_an_empty_file_is_all_defaults(settings_file: Write) -> None:
    assert load_settings(settings_file(""), {}) == Settings()


@pytest.mark.parametrize("section", Settings.model_fields)
def test_a_section_may_be_empty(settings_file: Write, section: str) -> None:
    assert load_settings(settings_file(f"{section}:\n"), {}) == Settings()


def test_a_key_of_the_file_replaces_its_default_and_no_other(settings_file: Write) -> None:
    path = settings_file("retries:\n  forwarding_window: 7\n")

    retries = load_settings(path, {}).retries

    assert (retries.forwarding_window, retries.idle_wait) == (7, timedelta(seconds=30))


def test_without_a_word_no_retry_is_presumed_to_have_succeeded() -> None:
    assert load_settings(None, {}).retries.presumed_after is None


@pytest.mark.parametrize("word", ["off", "'off'", "false"])
def test_presuming_can_be_switched_off(settings_file: Write, word: str) -> None:
    path = settings_file(f"retries: {{presumed_after: {word}}}")

    assert load_settings(path, {}).retries.presumed_after is None


def test_presuming_is_switched_off_and_on_by_the_environment(settings_file: Write) -> None:
    path, name = settings_file("retries: {presumed_after: 2d}"), "RETRIER_RETRIES__PRESUMED_AFTER"

    assert load_settings(path, {}).retries.presumed_after == timedelta(days=2)
    assert load_settings(path, {name: "off"}).retries.presumed_after is None
    assert load_settings(path, {name: "1h"}).retries.presumed_after == timedelta(hours=1)


def test_the_environment_wins_over_the_file(settings_file: Write) -> None:
    path = settings_file("api: {port: 1}")

    settings = load_settings(path, {"RETRIER_API__PORT": "2"})

    assert settings.api.port == 2


def test_the_environment_mends_a_wrong_value_of_the_file(settings_file: Write) -> None:
    path = settings_file("api: {port: many}")

    settings = load_settings(path, {"RETRIER_API__PORT": "2"})

    assert settings.api.port == 2


def test_the_instance_has_a_variable_without_a_section() -> None:
    assert load_settings(None, {"RETRIER_INSTANCE": "blue"}).instance == "blue"


@pytest.mark.parametrize("key", SETTING_KEYS)
def test_every_key_can_be_set_by_its_variable(key: str) -> None:
    variable = variable_of(key)

    problems = problems_of(**{variable: NONSENSE.get(key, "-")})

    assert len(problems) == 1
    assert problems[0].startswith(f"{key}: ")
    assert problems[0].endswith(f" (from {variable})")


def test_error_queues_of_the_environment_may_be_names_with_commas() -> None:
    settings = load_settings(None, {"RETRIER_INGESTION__ERROR_QUEUES": "error, orders.dead,"})

    assert [each.queue for each in settings.ingestion.error_queues] == ["error", "orders.dead"]


def test_error_queues_of_the_environment_may_be_json() -> None:
    text = '["error", {"queue": "orders.dead", "dialect": "rabbitmq"}]'

    settings = load_settings(None, {"RETRIER_INGESTION__ERROR_QUEUES": text})

    assert settings.ingestion.error_queues == (
        ErrorQueue(queue="error"),
        ErrorQueue(queue="orders.dead", dialect="rabbitmq"),
    )


def test_an_error_queue_of_the_file_may_name_dialect_and_destination(settings_file: Write) -> None:
    path = settings_file(
        "ingestion: {error_queues: [{queue: dlq, dialect: retrier, destination: orders}]}"
    )

    queues = load_settings(path, {}).ingestion.error_queues

    assert queues == (ErrorQueue(queue="dlq", dialect="retrier", destination="orders"),)


@pytest.mark.parametrize(
    "name",
    [
        "RETRIER_URL",
        "RETRIER_TOKEN",
        "RETRIER_REQUIRE_SERVICES",
        "RETRIER_TEST_AMQP_URL",
        "RETRIER_API_PORT",
        "RETRIER_SOMETHING__ELSE",
        "API__PORT",
    ],
)
def test_a_variable_that_names_no_section_is_left_alone(name: str) -> None:
    assert load_settings(None, {name: "-"}) == Settings()


def test_an_unknown_key_of_a_known_section_in_the_environment_is_a_problem() -> None:
    assert problems_of(RETRIER_API__PROT="1") == (
        "api.prot: is not a setting; known here: host, port, allowed_hosts, allowed_origins, trusted_proxies, tls, health_port (from RETRIER_API__PROT)",
    )


def test_a_variable_that_names_only_a_section_is_a_problem() -> None:
    assert problems_of(RETRIER_API="{}") == (
        "api: must hold keys of its own: host, port, allowed_hosts, allowed_origins, trusted_proxies, tls, health_port (from RETRIER_API)",
    )


@pytest.mark.parametrize(("text", "line"), WRONG_FILES.items())
def test_a_wrong_value_is_named_with_its_key(settings_file: Write, text: str, line: str) -> None:
    assert problems_of(settings_file(text)) == (line,)


def test_all_wrong_transport_options_are_told_at_once(settings_file: Write) -> None:
    options = "{sep: '', socket_timeout: x, priority_steps: 3, visibility_timeout: .inf}"
    text = f"broker: {{url: 'redis://127.0.0.1', transport_options: {options}}}"

    named = {each.partition(":")[0] for each in problems_of(settings_file(text))}

    assert named == {
        f"broker.transport_options.{each}"
        for each in ("sep", "socket_timeout", "priority_steps", "visibility_timeout")
    }


@pytest.mark.parametrize(
    "text",
    [
        "{broker: {url: 'redis://h', transport_options: {sep: ':'}}, ingestion: {error_queues: ['e:3']}}",
        "{broker: {url: 'redis://h', transport_options: {sep: ':'}}, ingestion: {error_queues: ['e:4', e]}}",
        "{broker: {url: 'amqp://h'}, ingestion: {error_queues: [unacked]}}",
        "broker: {url: 'redis://127.0.0.1:6379'}",
    ],
)
def test_what_is_no_key_of_something_else_is_a_name_of_a_queue(
    settings_file: Write, text: str
) -> None:
    assert load_settings(settings_file(text), {}).ingestion.error_queues


def test_all_problems_of_file_and_environment_are_told_at_once(settings_file: Write) -> None:
    path = settings_file(
        "instance: 'a b'\n"
        "brokers: {}\n"
        "ingestion: {prefetch: 0, error_queues: [error, error, 'a b.staging', {queue: ''}]}\n"
    )

    problems = problems_of(path, RETRIER_API__PORT="x", RETRIER_PROCESSOR__LEASE="0s")

    assert {line.partition(":")[0] for line in problems} == {
        "instance",
        "brokers",
        "ingestion.prefetch",
        "ingestion.error_queues[1]",
        "ingestion.error_queues[2]",
        "ingestion.error_queues[3].queue",
        "api.port",
        "processor.lease",
    }


def test_a_broken_file_does_not_hide_the_problems_of_the_environment(settings_file: Write) -> None:
    problems = problems_of(settings_file("api: ["), RETRIER_API__PORT="x")

    assert len(problems) == 2


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "absent.yaml"

    assert problems_of(path) == (f"{path}: cannot be read: No such file or directory",)


def test_broken_yaml_is_a_problem_with_its_line(settings_file: Write) -> None:
    path = settings_file("api:\n  port: 1: 2\n")

    assert problems_of(path) == (
        f"{path}: cannot be understood: line 2, column 10: mapping values are not allowed here",
    )


def test_a_file_that_is_no_text_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "retrier.yaml"
    path.write_bytes(b"\xff\xfe\x00\xd8")

    assert problems_of(path) == (
        f"{path}: cannot be understood: it holds what cannot be read as text or as a value",
    )


def test_a_file_without_sections_is_a_problem(settings_file: Write) -> None:
    path = settings_file("- api")

    assert problems_of(path) == (f"{path}: must hold sections such as broker and database",)


def test_a_key_given_twice_is_a_problem(settings_file: Write) -> None:
    path = settings_file("api: {port: 1}\nretries:\napi: {host: localhost}\n")

    assert problems_of(path) == (
        f"{path}: cannot be understood: line 3, column 1: the key api is given twice",
    )


def test_a_key_that_is_no_text_is_an_unknown_key(settings_file: Write) -> None:
    assert problems_of(settings_file("api: {5: 1}")) == (
        "api.5: is not a setting; known here: host, port, allowed_hosts, allowed_origins, trusted_proxies, tls, health_port",
    )


def test_true_is_no_number(settings_file: Write) -> None:
    assert problems_of(settings_file("api: {port: yes}")) == (
        "api.port: must be a whole number, is true",
    )


def test_an_error_queue_needs_a_name(settings_file: Write) -> None:
    assert problems_of(settings_file("ingestion: {error_queues: [{dialect: retrier}]}")) == (
        "ingestion.error_queues[0].queue: must be given",
    )


@pytest.mark.parametrize("name", ["", "q" * 256])
def test_a_queue_name_fits_the_protocol(settings_file: Write, name: str) -> None:
    (problem,) = problems_of(settings_file(f"ingestion: {{error_queues: ['{name}']}}"))

    assert "must be a queue name of 1 to 255 bytes" in problem


@pytest.mark.parametrize("name", ["amq", "amq.retrier"])
def test_an_instance_leaves_the_brokers_own_names_alone(name: str) -> None:
    (problem,) = problems_of(RETRIER_INSTANCE=name)

    assert problem.startswith("instance: must not begin with amq")


def test_the_staging_queue_is_named_after_the_instance() -> None:
    assert Settings(instance="blue").staging_queue == "blue.staging"


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("500ms", timedelta(milliseconds=500)),
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("1h", timedelta(hours=1)),
        ("7d", timedelta(days=7)),
        ("36500d", timedelta(days=36500)),
    ],
)
def test_a_duration_has_a_unit(text: str, duration: timedelta) -> None:
    assert load_settings(None, {"RETRIER_RETENTION__EVENTS": text}).retention.events == duration


@pytest.mark.parametrize("text", ["36501d", "999999999999d", "0ms"])
def test_a_duration_has_bounds(text: str) -> None:
    (problem,) = problems_of(RETRIER_PROCESSOR__LEASE=text)

    assert f"must be longer than 0s and at most 36500d, is {text}" in problem


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("64KiB", 65536), ("16MiB", 16777216), ("1GiB", 1073741824), ("5B", 5)],
)
def test_a_size_has_a_binary_unit_or_none(text: str, size: int) -> None:
    settings = load_settings(None, {"RETRIER_RETRIES__FORWARDING_WINDOW_BYTES": text})

    assert settings.retries.forwarding_window_bytes == size


def test_a_size_may_be_a_number_of_bytes(settings_file: Write) -> None:
    settings = load_settings(settings_file("retries: {forwarding_window_bytes: 4096}"), {})

    assert settings.retries.forwarding_window_bytes == 4096


def test_a_size_of_nothing_is_a_problem(settings_file: Write) -> None:
    assert problems_of(settings_file("retries: {forwarding_window_bytes: 0}")) == (
        "retries.forwarding_window_bytes: must be at least 1 byte, is 0",
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_the_api_may_listen_on_loopback(host: str) -> None:
    assert load_settings(None, {"RETRIER_API__HOST": host}).api.host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "localhost.example"])  # noqa: S104 - refused
def test_the_api_may_listen_nowhere_else_where_nobody_logs_in(host: str) -> None:
    (problem,) = problems_of(RETRIER_API__HOST=host)

    assert problem.startswith("api.host: must be a loopback address")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1"])  # noqa: S104 - allowed here
def test_the_api_may_listen_anywhere_where_people_log_in(settings_file: Write, host: str) -> None:
    path = settings_file(f"access: {{}}\napi: {{host: '{host}'}}\n")

    assert load_settings(path, {}).api.host == host


@pytest.mark.parametrize("host", ["", "a b", "http://x"])
def test_the_api_listens_at_an_address(host: str) -> None:
    (problem,) = problems_of(RETRIER_API__HOST=host)

    assert problem.startswith("api.host: must be an address of this machine")


def test_the_hosts_of_a_proxy_are_names_with_commas_in_the_environment() -> None:
    text = "retrier.example, [fd00::7]:8443"

    hosts = load_settings(None, {"RETRIER_API__ALLOWED_HOSTS": text}).api.allowed_hosts

    assert hosts == ("retrier.example", "[fd00::7]:8443")


@pytest.mark.parametrize("host", ["*", "*.example", "https://a.example", "a.example/api", ""])
def test_a_host_that_no_request_can_name_is_a_problem(settings_file: Write, host: str) -> None:
    (problem,) = problems_of(settings_file(f"api: {{allowed_hosts: ['{host}']}}"))

    assert problem.startswith("api.allowed_hosts[0]: must be a name or an address")


@pytest.mark.parametrize("scheme", ["amqp", "amqps"])
def test_a_broker_speaks_amqp(scheme: str) -> None:
    url = f"{scheme}://guest@127.0.0.1:5672//"

    assert load_settings(None, {"RETRIER_BROKER__URL": url}).broker.url == (url,)


NODES = ("amqp://me:hunter2@one:5672/shop", "amqp://me:hunter2@two:5673/shop")


def test_a_broker_of_several_nodes_is_a_list_of_urls(settings_file: Write) -> None:
    path = settings_file(f"broker: {{url: ['{NODES[0]}', '{NODES[1]}']}}")

    assert load_settings(path, {}).broker.url == NODES


def test_nodes_with_commas_in_the_file_are_refused_without_the_password(
    settings_file: Write,
) -> None:
    path = settings_file("broker: {url: 'amqp://me:secret@one//,amqp://me:secret@two//'}")

    (problem,) = problems_of(path)

    assert problem.startswith("broker.url: must be a list of URLs where it names several")
    assert "secret" not in problem


@pytest.mark.parametrize(
    "url",
    [
        "amqp://me:hunter2@:5672/",
        "amqp://me:hunter2@/shop",
        "amqps://:5671",
        "amqp://",
        "amqp:///shop",
        "amqp://me@ :5672",
        "amqp://%20",
        "amqp://me:hunter2@one,amqp://me:hunter2@:5673",
    ],
)
def test_a_broker_has_a_host(url: str) -> None:
    with pytest.raises(ConfigurationError) as told:
        load_settings(None, {"RETRIER_BROKER__URL": url})

    (problem,) = told.value.problems
    assert "must name a host" in problem
    assert "hunter2" not in problem


def test_a_database_needs_no_host() -> None:
    url = "postgresql:///shop"

    assert load_settings(None, {"RETRIER_DATABASE__URL": url}).database.url.endswith(":///shop")


@pytest.mark.parametrize("text", [", ".join(NODES), json.dumps(NODES)])
def test_the_nodes_of_the_environment_are_urls_with_commas_or_json(text: str) -> None:
    assert load_settings(None, {"RETRIER_BROKER__URL": text}).broker.url == NODES


def test_a_comma_in_a_password_of_the_environment_is_encoded() -> None:
    url = "amqp://me:hun%2Cter2@one"

    assert load_settings(None, {"RETRIER_BROKER__URL": url}).broker.url == (url,)


def test_the_default_virtual_host_may_be_written_in_different_ways() -> None:
    urls = "amqp://one,amqp://two/,amqp://three//,amqp://four/%2F"

    assert len(load_settings(None, {"RETRIER_BROKER__URL": urls}).broker.url) == 4


@pytest.mark.parametrize(
    "other",
    [
        "amqps://me:hunter2@two/shop",
        "amqp://you:hunter2@two/shop",
        "amqp://me:hunter3@two/shop",
        "amqp://me:hunter2@two/stock",
    ],
)
def test_nodes_differ_in_host_and_port_only(other: str) -> None:
    problems = problems_of(RETRIER_BROKER__URL=f"{NODES[0]},{other}")

    assert problems == (
        (
            "broker.url: must name the nodes of one broker: scheme, user, password and virtual host "
            "must be the same in each (from RETRIER_BROKER__URL)"
        ),
    )


@pytest.mark.parametrize("other", ["amqp://one", "embedded:///other.db"])
def test_an_embedded_broker_has_no_nodes(other: str) -> None:
    (problem,) = problems_of(RETRIER_BROKER__URL=f"embedded:///broker.db,{other}")

    assert problem.startswith("broker.url: must name one URL only")


def test_a_wrong_node_is_named_with_its_place() -> None:
    (problem,) = problems_of(RETRIER_BROKER__URL=f"{NODES[0]},http://two")

    assert problem.startswith("broker.url[1]: must begin with amqp://")
    assert problem.endswith("(from RETRIER_BROKER__URL)")


@pytest.mark.parametrize("url", ["[]", "5", "'amqp://one,amqp://two'", "'amqp://one,two'"])
def test_a_broker_is_a_url_or_a_list_of_them(settings_file: Write, url: str) -> None:
    (problem,) = problems_of(settings_file(f"broker: {{url: {url}}}"))

    assert problem.startswith("broker.url: must ")


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg", "PostgreSQL"])
def test_every_name_of_postgresql_means_psycopg(scheme: str) -> None:
    url = f"{scheme}://me:secret@127.0.0.1:5432/retrier?sslmode=disable"

    settings = load_settings(None, {"RETRIER_DATABASE__URL": url})

    assert settings.database.url == (
        "postgresql+psycopg://me:secret@127.0.0.1:5432/retrier?sslmode=disable"
    )


def test_every_parameter_of_postgresqls_library_is_taken() -> None:
    names = {each.keyword.decode() for each in Conninfo.get_defaults()} - {"replication"}
    values = {"sslmode": "prefer", **dict.fromkeys(SSL_FILES, "system")}
    query = "&".join(f"{name}={values.get(name, '1')}" for name in sorted(names))

    settings = load_settings(None, {"RETRIER_DATABASE__URL": f"postgresql://db/shop?{query}"})

    assert settings.database.url.endswith(query)


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("sslrotcert=x", "sslrotcert (perhaps sslrootcert is meant)"),
        ("xyz=1&portt=5", "portt (perhaps port is meant), xyz"),
    ],
)
def test_a_parameter_that_is_not_known_is_refused_with_the_nearest(query: str, named: str) -> None:
    (problem,) = problems_of(RETRIER_DATABASE__URL=f"postgresql://db/shop?{query}")

    begins = "database.url: has a parameter that PostgreSQL's library does not know: "
    assert problem == f"{begins}{named} (from RETRIER_DATABASE__URL)"


def test_a_session_that_copies_a_server_is_refused() -> None:
    (problem,) = problems_of(RETRIER_DATABASE__URL="postgresql://db/shop?replication=database")

    assert problem.startswith("database.url: has the parameter replication, ")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:"])
def test_a_database_in_memory_is_a_problem(url: str) -> None:
    (problem,) = problems_of(RETRIER_DATABASE__URL=url)

    assert problem.startswith("database.url: must name a file")


@pytest.mark.parametrize(
    "text",
    [
        "broker: {url: 'redis://me:hunter2@127.0.0.1/shop'}",
        "broker: {url: 'sentinel://me:hunter2@one;sentinel://me:hunter2@two/shop'}",
        "broker: {url: 'sqs://me:hunter2@127.0.0.1'}",
        "broker: {url: 'me:hunter2@127.0.0.1'}",
        "broker: {url: 'amqp://me:hunter2/x@127.0.0.1'}",
        "broker: {url: ['amqp://me:hunter2@127.0.0.1', 'redis://me:hunter2@127.0.0.1']}",
        "broker: {url: 'amqp://me:hunter2@one,amqp://me:hunter2@two'}",
        "broker: {url: ['amqp://me:hunter2@one', 'amqp://me:hunter3@two']}",
        "broker: {url: ['amqp://me:hunter2@one', 5]}",
        "broker: amqp://me:hunter2@127.0.0.1",
        "broker: {'amqp://me:hunter2@127.0.0.1': 1}",
        "broker: {'amqp://me:hunter2@x': 1, 'amqp://me:hunter2@x': 2}",
        "broker: {url: amqp://me:hunter2@127.0.0.1: 5}",
        "brokers: {url: 'amqp://me:hunter2@127.0.0.1'}",
        "database: {url: 'postgresql://me:hunter2@127.0.0.1:99999/x'}",
        "database: {url: 'postgresql://me@127.0.0.1:0/x?password=hunter2'}",
        "instance: amqp://me:hunter2@127.0.0.1",
        "api: {host: 'amqp://me:hunter2@127.0.0.1'}",
    ],
)
def test_no_problem_shows_a_password(settings_file: Write, text: str) -> None:
    problems = problems_of(settings_file(text))

    assert "hunter2" not in "".join(problems)


def test_settings_printed_show_no_password() -> None:
    url = "amqp://me:hunter2@127.0.0.1//"

    settings = load_settings(None, {"RETRIER_BROKER__URL": url})

    assert "hunter2" not in repr(settings)


def test_a_long_value_is_shown_in_part() -> None:
    (problem,) = problems_of(RETRIER_API__PORT="9" * 100)

    assert f"is {'9' * 60}... (from" in problem


def test_control_codes_of_a_value_are_not_shown() -> None:
    (problem,) = problems_of(RETRIER_API__PORT="1\n\x1b[2J")

    assert problem.isprintable()


def test_settings_do_not_change() -> None:
    settings = Settings()

    with pytest.raises(ValidationError, match="frozen"):
        settings.instance = "other"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("amqp://guest:guest@127.0.0.1:5672//", "amqp://guest:***@127.0.0.1:5672//"),
        ("amqp://guest@127.0.0.1:5672//", "amqp://guest@127.0.0.1:5672//"),
        ("amqp://a:b/c@d@host/", "amqp://a:***@host/"),
        ("postgresql://h/db?password=x&sslmode=off", "postgresql://h/db?password=***&sslmode=off"),
        ("postgresql://h/db?sslpassword=x&port=1", "postgresql://h/db?sslpassword=***&port=1"),
        ("postgresql://h/db?oauth_client_secret=x", "postgresql://h/db?oauth_client_secret=***"),
        ("postgresql://h/db?scram_client_key=x", "postgresql://h/db?scram_client_key=***"),
        ("sqlite:///./retrier.db", "sqlite:///./retrier.db"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert redact(url) == shown


@pytest.mark.parametrize("queue", ["error", "orders.dead", "retrier.staging"])
def test_the_log_queue_may_be_no_queue_that_retrier_empties(
    settings_file: Write, queue: str
) -> None:
    listed = "[error, {queue: orders.dead, destination: orders}]"
    path = settings_file(f"ingestion: {{error_queues: {listed}, forward_to: {queue}}}")

    assert problems_of(path) == (
        f"ingestion.forward_to: {queue} is a queue that Retrier itself empties",
    )


ON_SQS = "broker: {url: 'sqs://eu-west-1'}\ningestion: {error_queues: [dead]}\n"
ARN = "arn:aws:sqs:eu-west-1:123456789012:"


@pytest.mark.parametrize("queue", ["retrier-staging", f"{ARN}dead"])
def test_a_queue_that_retrier_empties_is_known_by_its_other_names(
    settings_file: Write, queue: str
) -> None:
    path = settings_file(ON_SQS + f"policies: {{notices: {queue}}}")

    assert problems_of(path) == (
        f"policies.notices: {queue} is a queue that Retrier itself empties",
    )


def test_an_error_queue_may_not_be_listed_by_two_of_its_names(settings_file: Write) -> None:
    path = settings_file(ON_SQS.replace("[dead]", f"[dead, '{ARN}dead', retrier-staging]"))

    assert problems_of(path) == (
        f"ingestion.error_queues[1]: {ARN}dead is listed twice: as dead",
        "ingestion.error_queues[2]: retrier-staging is the staging queue of this instance",
    )


def test_a_log_queue_that_clashes_names_the_variable_it_comes_from() -> None:
    (problem,) = problems_of(RETRIER_INGESTION__FORWARD_TO="error")

    assert problem.endswith("(from RETRIER_INGESTION__FORWARD_TO)")


def test_a_log_queue_needs_a_name_that_a_queue_can_have(settings_file: Write) -> None:
    path = settings_file(f"ingestion: {{forward_to: {'q' * 256}}}")

    (problem,) = problems_of(path)

    assert problem.startswith("ingestion.forward_to: must be a queue name of 1 to 255 bytes")


@pytest.mark.parametrize("nothing", ["", '""', "null"])
def test_no_log_queue_is_none(settings_file: Write, nothing: str) -> None:
    path = settings_file(f"ingestion: {{forward_to: {nothing}}}")

    assert load_settings(path, {}).ingestion.forward_to is None


def test_a_log_queue_is_taken_as_it_is_named(settings_file: Write) -> None:
    path = settings_file("ingestion: {forward_to: error.log}")

    assert load_settings(path, {}).ingestion.forward_to == "error.log"


class TestBreakers:
    def test_are_off_until_somebody_writes_of_them(self) -> None:
        assert load_settings(None, {}).breaker_rules == BreakerRules()

    @pytest.mark.parametrize("text", ["on", "{}"])
    def test_may_be_switched_on(self, settings_file: Write, text: str) -> None:
        rules = load_settings(settings_file(f"breakers: {text}"), {}).breaker_rules

        assert rules == BreakerRules(default=BreakerTerms())

    def test_have_keys_of_their_own(self, settings_file: Write) -> None:
        keys = "{per: message_type, window: 20, threshold: 60%, min: 5, cooldown: 10s}"

        rules = load_settings(settings_file(f"breakers: {keys}"), {}).breaker_rules

        assert rules.default == BreakerTerms(
            per=Per.MESSAGE_TYPE,
            window=20,
            threshold=60,
            least=5,
            cooldown=timedelta(seconds=10),
        )

    def test_are_set_by_the_environment_too(self) -> None:
        found = load_settings(None, {"RETRIER_BREAKERS__WINDOW": "20"}).breaker_rules

        assert found.default == BreakerTerms(window=20)

    def test_of_a_rule_are_those_of_its_messages(self, settings_file: Write) -> None:
        text = (
            "policies: {rules: [{name: pay, match: {}, preset: outbox, "
            "breaker: {window: 20, min: 4}}, {name: rest, match: {}, preset: outbox}]}"
        )

        section = load_settings(settings_file(text), {}).policies

        assert section is not None
        policies = PolicySet(make_definition(section))
        assert policies.breakers == {"pay": BreakerTerms(window=20, least=4)}

    def test_of_a_rule_are_checked_with_their_place(self, settings_file: Write) -> None:
        rule = "{name: pay, match: {}, preset: outbox, breaker: {threshold: 0, windo: 1m}}"

        assert problems_of(settings_file(f"policies: {{rules: [{rule}]}}")) == (
            "policies.rules[0].breaker.threshold: must be between 1 and 100, is 0",
            (
                "policies.rules[0].breaker.windo: is not a setting; known here: "
                "per, window, threshold, min, cooldown"
            ),
        )
