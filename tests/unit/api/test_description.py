"""What OpenAPI describes is made when it is asked for, of the routes that answer."""

from fastapi.routing import APIRoute

from retrier.api.answers import Answer, Routes


def answer_with_a_number() -> Answer[int]:
    raise NotImplementedError


def test_a_route_reads_its_shape_only_for_the_description() -> None:
    routes = Routes(prefix="/api")
    routes.add_api_route("/number", answer_with_a_number)

    (answers,) = (each for each in routes.routes if isinstance(each, APIRoute))
    (described,) = (each for each in routes.described().routes if isinstance(each, APIRoute))

    assert (answers.path, described.path) == ("/api/number", "/api/number")
    assert (answers.response_model, described.response_model) == (None, int)
