"""Requests made from the server's own OpenAPI page: none is a crash, and each answer is one that the page tells of."""

import pytest
from api_fakes import TOKENS, WRITER
from hypothesis import HealthCheck, Phase, settings

schemathesis = pytest.importorskip("schemathesis")

from schemathesis.checks import load_all_checks  # noqa: E402

load_all_checks()

EXAMPLES = 12


@pytest.fixture
def server(serve, make):
    make()
    return serve(tokens=TOKENS, seconds=5, texts=50)


@pytest.fixture
def page(server):
    """The endpoints, asked with the writer's token."""
    return schemathesis.openapi.from_url(f"{server.url}/openapi.json")


schema = schemathesis.pytest.from_fixture("page")


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_endpoint_answers_as_its_page_says(case):
    from schemathesis import checks

    response = case.call(headers={"Authorization": f"Bearer {WRITER}"}, timeout=30)
    case.validate_response(
        response,
        checks=[checks.not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
                checks.response_schema_conformance],
    )  # fmt: skip
