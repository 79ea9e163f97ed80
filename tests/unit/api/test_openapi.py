"""The OpenAPI document names every answer that a client can meet."""

import re
from typing import Any

import openapi_spec_validator
import pytest
from jsonschema_rs import Draft202012Validator

from retrier.store.engine.database import Database, DatabaseOptions
from tests.support.api import Api
from tests.support.project import ROOT

STATUS_ROW = re.compile(r"^\| (\d{3}) \|", re.MULTILINE)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """Give the document, which tests only read; to make it takes longer than any of them."""
    api = Api(Database(DatabaseOptions(url="sqlite:///unused.db")))
    made: dict[str, Any] = api.http.get("/openapi.json").json()
    api.http.close()
    api.db.dispose()
    return made


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def statuses(document: dict[str, Any], operation: str) -> set[str]:
    return set(operations(document)[operation]["responses"])


def test_every_operation_names_what_is_refused_everywhere(document: dict[str, Any]) -> None:
    shown = {name: operation["responses"] for name, operation in operations(document).items()}

    assert [name for name, responses in shown.items() if not {"400", "421"} <= set(responses)] == []


def test_a_refusal_is_documented_as_the_problem_that_it_is(document: dict[str, Any]) -> None:
    contents = {
        (name, status): set(response["content"])
        for name, operation in operations(document).items()
        for status, response in operation["responses"].items()
        if status >= "400" and not name.startswith("HEAD") and name != "GET /health/ready"
    }

    assert {frozenset(types) for types in contents.values()} == {
        frozenset({"application/problem+json"})
    }
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_a_problem_looks_as_it_is_documented(document: dict[str, Any], api: Api) -> None:
    schema = document["components"]["schemas"]["Problem"]

    problem = api.http.get("/api/errors", params={"modified": "monday"}).json()

    assert set(schema["required"]) <= set(problem) <= set(schema["properties"])
    assert [set(each) for each in problem["errors"]] == [{"field", "reason"}]


_ACCESS = {"401", "403", "429"}
"""How who asks is refused, where the settings have a section `access`."""


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("GET /health", {"200", "400", "421"}),
        ("GET /health/ready", {"200", "400", "421", "503"}),
        ("GET /api/errors", {"200", "400", *_ACCESS, "421", "503"}),
        ("HEAD /api/errors", {"200", "400", *_ACCESS, "421", "503"}),
        ("GET /api/operations/{operation_id}", {"200", "400", *_ACCESS, "404", "421", "503"}),
        (
            "GET /api/messages/{message_id}/body",
            {"200", "204", "400", *_ACCESS, "404", "421", "503"},
        ),
        ("POST /api/errors/retry", {"202", "400", *_ACCESS, "413", "421", "422", "503"}),
        ("POST /api/redirects", {"201", "400", *_ACCESS, "409", "413", "421", "422", "503"}),
    ],
)
def test_an_operation_names_its_own(
    document: dict[str, Any], operation: str, expected: set[str]
) -> None:
    assert statuses(document, operation) == expected


def test_a_body_of_a_message_may_be_anything(document: dict[str, Any]) -> None:
    # Found by Schemathesis: a body that was JSON was no text, as the document said.
    responses = operations(document)["GET /api/messages/{message_id}/body"]["responses"]

    assert responses["200"]["content"] == {
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        "*/*": {},
    }


def test_the_page_explains_every_status_that_is_a_refusal(document: dict[str, Any]) -> None:
    explained = set(STATUS_ROW.findall((ROOT / "docs" / "http-api.md").read_text()))

    named = {status for name in operations(document) for status in statuses(document, name)}

    assert {status for status in named if status >= "300"} - explained == set()


def test_the_document_is_what_openapi_asks_for(document: dict[str, Any]) -> None:
    openapi_spec_validator.validate(document)


def test_every_answer_says_what_it_consists_of(document: dict[str, Any]) -> None:
    answers = {
        (name, status): response["content"].get("application/json", {"schema": "another type"})
        for name, operation in operations(document).items()
        for status, response in operation["responses"].items()
        if status < "300" and "content" in response
    }

    assert [where for where, content in answers.items() if not content["schema"]] == []


def test_no_member_of_an_answer_is_null_where_it_is_left_out(document: dict[str, Any]) -> None:
    message = document["components"]["schemas"]["FailedMessage"]

    assert "retry_at" not in message["required"]
    assert message["properties"]["retry_at"] == {"type": "string", "format": "date-time"}


def test_every_example_is_as_its_schema_says(document: dict[str, Any]) -> None:
    shown = {
        name: response["content"]["application/json"]
        for name, operation in operations(document).items()
        for response in operation["responses"].values()
        if "example" in response.get("content", {}).get("application/json", {})
    }

    assert "GET /api/errors" in shown
    for name, content in shown.items():
        schema = {**content["schema"], "components": document["components"]}
        errors = list(Draft202012Validator(schema).iter_errors(content["example"]))
        assert errors == [], name


def test_values_are_documented_as_they_are_sent(document: dict[str, Any]) -> None:
    status = document["components"]["schemas"]["FailedMessage"]["properties"]["status"]

    assert status["enum"] == ["unresolved", "retryIssued", "resolved", "archived"]


def test_operations_have_short_names_of_their_own(document: dict[str, Any]) -> None:
    names = [each["operationId"] for each in operations(document).values()]

    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"[a-z_]{3,40}", name)] == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [("page", "integer"), ("per_page", "integer"), ("attempts_at_least", "integer")],
)
def test_a_parameter_that_is_a_number_is_documented_as_one(
    document: dict[str, Any], name: str, kind: str
) -> None:
    assert parameters(document, "GET /api/errors")[name]["schema"]["type"] == kind


@pytest.mark.parametrize("name", ["sort", "direction", "disposition", "outcome"])
def test_a_parameter_with_few_values_names_them(document: dict[str, Any], name: str) -> None:
    assert "enum" in parameters(document, "GET /api/errors")[name]["schema"]


def test_statuses_are_named_for_one_and_described_for_several(document: dict[str, Any]) -> None:
    one, several = parameters(document, "GET /api/errors")["status"]["schema"]["anyOf"]

    assert "retryIssued" in one["enum"]
    assert re.fullmatch(several["pattern"], "unresolved,-archived")


def test_a_preset_is_as_a_client_would_write_it(document: dict[str, Any]) -> None:
    opening = document["components"]["schemas"]["Opening"]["properties"]["for"]

    assert re.fullmatch(opening["pattern"], opening["default"])


def test_the_document_says_that_a_token_may_be_asked_for(document: dict[str, Any]) -> None:
    assert document["security"] == [{}, {"token": []}]
    assert document["servers"] == [{"url": "/"}]


def parameters(document: dict[str, Any], operation: str) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in operations(document)[operation]["parameters"]}
