"""Requests made from the server's own OpenAPI page: none is a crash, and each answer is one that the page tells of."""

import pytest
from api_fakes import TOKENS, WRITER
from hypothesis import HealthCheck, Phase, given, settings

schemathesis = pytest.importorskip("schemathesis")

generic = pytest.importorskip("schemathesis.checks")
of_page = pytest.importorskip("schemathesis.specs.openapi.checks")

CHECKS = [
    generic.not_a_server_error,
    of_page.status_code_conformance,
    of_page.content_type_conformance,
    of_page.response_schema_conformance,
]
EXAMPLES = 15


@pytest.fixture
def server(serve, make):
    make()
    return serve(tokens=TOKENS, seconds=5, texts=50, jobs=50)


def test_every_endpoint_answers_as_its_page_says(server):
    page = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    operations = [one.ok() for one in page.get_all_operations()]
    assert len(operations) == 22
    for operation in operations:

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def ask(case):
            response = case.call(headers={"Authorization": f"Bearer {WRITER}"}, timeout=120)
            case.validate_response(response, checks=CHECKS)

        ask()
    assert server.lives()
