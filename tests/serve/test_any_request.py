"""Requests of all kinds, drawn from the server's own description: none may make it fail."""

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

schemathesis = pytest.importorskip(
    "schemathesis", reason="schemathesis is not installed; it is in the dev extra"
)

from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

# The answer is one of those that the description promises, and never a failure.
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def answers(app, n_cases):
    """How often each status was the answer to so many requests, spread over routes and kinds."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    routes = [found.ok() for found in schema.get_all_operations()]
    kinds = [
        (route, mode)
        for route in routes
        for mode in schemathesis.GenerationMode
        if mode.is_positive or route.body or route.query or route.path_parameters
    ]
    statuses = []

    def draw(route, mode, n, start):
        @seed(start)
        @settings(
            max_examples=n,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=route.as_strategy(generation_mode=mode))
        def check(case):
            said = case.call()
            statuses.append(said.status_code)
            case.validate_response(said, checks=CHECKS)

        check()

    for route, mode in kinds:
        draw(route, mode, -(-n_cases // len(kinds)), 0)
    bodies = [(route, mode) for route, mode in kinds if route.body]
    for start in range(1, 10):  # routes without parameters have few cases
        n_missing = n_cases - len(statuses)
        for route, mode in bodies if n_missing > 0 else ():
            draw(route, mode, -(-n_missing // len(bodies)), start)
    return {status: statuses.count(status) for status in sorted(set(statuses))}


@pytest.mark.parametrize("run", ["texts", "vectors"])
def test_no_request_makes_the_server_fail(clients, run):
    found = answers(clients(run).app, 40)
    assert max(found) < 500
    assert sum(found.values()) >= 40
    assert found[200] >= 3


@pytest.mark.slow
@pytest.mark.parametrize("run", ["texts", "vectors"])
def test_no_request_of_many_makes_the_server_fail(clients, run):
    found = answers(clients(run).app, 2000)
    assert max(found) < 500
    assert sum(found.values()) >= 2000
    assert found[200] > 150  # of a run without an index all searches are refused
