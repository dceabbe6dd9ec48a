"""The OpenAPI description of the service: it has all routes and events, and nothing else is answered."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("schemathesis")

from corewise.live.service.app import description
from corewise.live.service.wire import BATCH, REPORTED
from corewise.live.state.reconcile import ListedJob
from tests.helpers.serving import service

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def test_every_route_is_described_and_every_description_is_a_route(tmp_path: Path) -> None:
    paths = description()["paths"]
    with service(tmp_path) as running:
        for path, methods in paths.items():
            allowed = running.ask("DELETE", path, token=running.token)
            assert allowed[0] == 405, path
            assert {*allowed[1]["allow"].replace("HEAD", "").split(", ")} - {""} == {*map(str.upper, methods)}
        assert running.ask("GET", "/openapi.json")[2]["paths"] == paths


def test_events_are_described_as_they_are_read() -> None:
    schemas = description()["components"]["schemas"]
    for kind in REPORTED.values():
        found = schemas[kind.__name__]
        assert found["properties"].keys() == {"kind", *(field.name for field in fields(kind))}
        needed = {field.name for field in fields(kind) if field.default is MISSING} - {"time"}
        assert {*found["required"]} == {"kind", *needed}
        assert found["properties"]["kind"]["const"] == kind.kind
        assert found["additionalProperties"] is False
    assert schemas["ListedJob"]["properties"].keys() == {field.name for field in fields(ListedJob)}
    body = description()["paths"]["/v1/events"]["post"]["requestBody"]["content"]["application/json"][
        "schema"
    ]
    one, many = body["anyOf"]
    assert one["discriminator"]["mapping"].keys() == REPORTED.keys()
    assert (many["minItems"], many["maxItems"]) == (1, BATCH)


@pytest.mark.slow
def test_nothing_is_answered_that_is_not_described(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        command = [
            str(Path(sys.executable).with_name("schemathesis")),
            *("run", f"{running.address}/openapi.json", "--header", f"Authorization: Bearer {running.token}"),
            *("--max-examples", "8", "--phases", "fuzzing", "--checks", CHECKS, "--seed", "1"),
            *("--exclude-path-regex", "stream|instructions", "--generation-database", "none"),
        ]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:]
        statuses = running.ask("GET", "/metrics")[2].decode()
        assert 'requests_total{status="422"}' in statuses
        assert 'requests_total{status="5' not in statuses
