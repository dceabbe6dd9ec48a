"""Metrics of the pool for Prometheus; by class, never by job: there are too many of those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from corewise.estimation.changes.alarms import RETRACTED
from corewise.live.service.runtime import ServiceRuntime

__all__ = ["exposed"]

_MODES = ("watch", "steer", "hold")


def exposed(report: Mapping[str, Any], runtime: ServiceRuntime, responses: Mapping[int, int]) -> bytes:
    """Return a report and the state of the service in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(_PoolCollector(report, runtime, responses))
    return generate_latest(registry)


class _PoolCollector(Collector):
    def __init__(
        self, report: Mapping[str, Any], runtime: ServiceRuntime, responses: Mapping[int, int]
    ) -> None:
        self._report, self._runtime, self._responses = report, runtime, responses

    def collect(self) -> Iterator[Metric]:
        yield from self._pool()
        yield from self._classes()
        yield from self._service()

    def _pool(self) -> Iterator[Metric]:
        report = self._report
        yield _gauge("pool_cores", "Cores of the pool.", report["pool"])
        mode = GaugeMetricFamily("corewise_mode", "1 for the mode of operation.", labels=["mode"])
        for name in _MODES:
            mode.add_metric([name], float(report["mode"] == name))
        yield mode
        gain = GaugeMetricFamily(
            "corewise_expected_gain",
            "Share of EQUI's mean cost that is expected to be saved.",
            labels=["bound"],
        )
        for bound, value in (report["gain"] or {}).items():
            if value is not None:
                gain.add_metric([bound], value)
        yield gain
        yield _gauge("policy_in_force", "1 if the policy last solved for is in force.", report["in_force"])
        yield _gauge("policy_adopted", "1 if another policy than EQUI is in force.", report["adopted"])
        yield _counter("learning_windows", "Windows learned from.", report["windows"])
        found = sum(alarm["kind"] != RETRACTED for alarm in report["alarms"])
        yield _counter("changes_found", "Changes of rates or curves that were found.", found)
        yield _counter("late_events", "Events that came too late to be learned from.", report["late_events"])
        yield _counter("alerts", "Alerts to the operator.", self._runtime.alerts)

    def _classes(self) -> Iterator[Metric]:
        gauges = {
            "jobs": "Jobs in the pool.",
            "waiting": "Jobs that hold no core.",
            "held": "Cores that jobs hold.",
            "told": "Cores that jobs are instructed to hold.",
            "target": "Cores that jobs should hold.",
            "departures": "Departures that were learned from.",
            "departures_needed": "Departures of a class before it is part of a policy other than EQUI.",
        }
        named = {
            "jobs": "jobs",
            "waiting": "jobs_waiting",
            "departures": "departures_seen",
            "departures_needed": "departures_needed",
        }
        for key, text in gauges.items():
            yield self._by_class(
                GaugeMetricFamily(f"corewise_{named.get(key, f'cores_{key}')}", text, labels=["class"]), key
            )
        counters = {
            "arrived": "Jobs that arrived.",
            "finished": "Jobs that finished.",
            "ended": "Jobs that ended otherwise: failed, cancelled or lost.",
        }
        for key, text in counters.items():
            yield self._by_class(CounterMetricFamily(f"corewise_jobs_{key}", text, labels=["class"]), key)
        times = SummaryMetricFamily("corewise_response_seconds", "Response times.", labels=["class"])
        for row in self._report["classes"]:
            count, mean = row["responses"]["count"], row["responses"]["mean"] or 0.0
            times.add_metric([row["name"]], count, count * mean)
        yield times

    def _by_class(self, family: Any, key: str) -> Metric:
        for row in self._report["classes"]:
            family.add_metric([row["name"]], row[key])
        found: Metric = family
        return found

    def _service(self) -> Iterator[Metric]:
        yield _counter("events", "Events taken in since the start.", self._runtime.handled_events)
        yield _gauge("instruction", "Number of the last instruction.", self._runtime.instructions.last)
        yield _gauge("ready", "1 if events are taken in.", self._runtime.error is None)
        answers = CounterMetricFamily("corewise_http_requests", "Requests by status.", labels=["status"])
        for status, count in sorted(self._responses.items()):
            answers.add_metric([str(status)], count)
        yield answers


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"corewise_{name}", text, float(value))


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"corewise_{name}", text, float(value))
