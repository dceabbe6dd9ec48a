"""The Kubernetes engine: answers of the documented shape, a kubectl that is emulated, and the real program.

No cluster was there to try it on: shapes and behaviour of pods are those of the documentation. Where a real
kubectl is installed, its words and its requests are looked at, against a server that knows one pod.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import corewise as cw
from corewise.errors import CorewiseError, InvalidInput
from corewise.live.engines.kubectl import Kubectl, Refused, cpu_of, held_by, seen, with_cores
from corewise.live.engines.kubernetes import KubernetesEngine
from tests.helpers.engines import Log, eventually
from tests.helpers.kubectl import Cluster, pod_of
from tests.helpers.live_pools import solve_in_a_thread

CLASSES = [cw.JobClass("train", arrival_rate=1.0, size_rate=1.0, speedup=cw.Amdahl(0.5))]


# --- answers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quantity", "cores", "held"),
    [("2", 2.0, 2), ("1500m", 1.5, 2), ("10m", 0.01, 0), ("0.5", 0.5, 1), (3, 3.0, 3), ("2e0", 2.0, 2)],
)
def test_quantities_of_processors(quantity: object, cores: float, held: int) -> None:
    assert cpu_of(quantity) == pytest.approx(cores)
    assert held_by(quantity) == held


def test_a_quantity_that_is_none_is_refused() -> None:
    with pytest.raises(CorewiseError, match="like '2' or '1500m', got '2 cores'"):
        cpu_of("2 cores")


def with_condition(**condition: object) -> dict[str, Any]:
    pod = pod_of("train-7", "2")
    pod["metadata"]["generation"] = 3
    pod["status"]["conditions"].append({"status": "True", **condition})
    return pod


def test_what_a_pod_holds_is_what_its_node_says() -> None:
    pod = pod_of("train-7", "2")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "4"}, "requests": {"cpu": "4"}}
    assert seen(pod, "main").cores == 2
    del pod["status"]["containerStatuses"][0]["resources"]
    assert seen(pod, "main").cores is None
    assert seen({"metadata": {"name": "new"}, "status": {"phase": "Pending"}}, "main").cores == 0


def test_conditions_of_a_resize() -> None:
    message = "Node didn't have enough capacity: cpu, requested: 800000, capacity: 3920"
    never = with_condition(
        type="PodResizePending", reason="Infeasible", message=message, observedGeneration=3
    )
    found = seen(never, "main", 3)
    assert (found.pending, found.fits, found.why) == ("Infeasible", 3, f"Infeasible: {message}")
    assert seen(never, "main", 4).pending is None  # it is about an earlier request
    later = with_condition(
        type="PodResizePending", reason="Deferred", message="Node didn't have enough resource"
    )
    assert (seen(later, "main", 3).pending, seen(later, "main", 3).fits) == ("Deferred", None)
    going = with_condition(type="PodResizeInProgress", reason="Error", message="runtime said no")
    assert (seen(going, "main", 3).pending, seen(going, "main", 3).why) == (None, "Error: runtime said no")


def test_a_manifest_begins_with_the_cores_that_were_told() -> None:
    manifest = pod_of("new", "2", containers=2)
    made = with_cores(manifest, "main1", 3)
    assert made["spec"]["containers"][1]["resources"]["limits"] == {"cpu": "3", "memory": "1Gi"}
    assert made["spec"]["containers"][0] == manifest["spec"]["containers"][0]
    assert manifest == pod_of("new", "2", containers=2)


def test_what_cannot_be_done_is_told_from_what_may_be_tried_again() -> None:
    def failing(text: str) -> Callable[[Sequence[str], str | None], tuple[int, str]]:
        return lambda _command, _given: (1, text)

    for text in (
        'The Pod "p" is invalid: spec: Invalid value: "Guaranteed": Pod QOS Class may not change\n',
        'Error from server (Forbidden): pods "p" is forbidden: exceeded quota: cpu\n',
        "error: invalid subresource value: resize. Must be one of [status scale]\n",
    ):
        with pytest.raises(Refused, match="kubectl patch failed with 1"):
            Kubectl(run=failing(text)).resize("p", "main", 2)
    for text in ("Unable to connect to the server: EOF", 'Error from server (Conflict): "p"', ""):
        with pytest.raises(CorewiseError) as error:
            Kubectl(run=failing(text)).resize("p", "main", 2)
        assert not isinstance(error.value, Refused)
    with pytest.raises(CorewiseError, match="no JSON object: 'hello'"):
        Kubectl(run=lambda _command, _given: (0, "hello")).pods(["p"])


# --- an emulated kubectl ----------------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster.make(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    solve_in_a_thread(monkeypatch)
    return made


def engine(**options: Any) -> KubernetesEngine:
    return KubernetesEngine(**{"cores": 8, "every": 0.02, "namespace": "batch", **options})


def test_pods_grow_shrink_and_finish(cluster: Cluster, tmp_path: Path) -> None:
    cluster.run("one", "2")
    (tmp_path / "two.json").write_text(json.dumps(pod_of("two", "1", phase="")))
    with cw.LivePool(CLASSES, engine()) as pool:
        first = pool.pod("train", "one")
        eventually(lambda: (first.cores, cluster.cores("one")), (8, "8"))
        second = pool.pod("train", tmp_path / "two.json")
        eventually(lambda: (first.cores, second.cores), (4, 4))
        assert (cluster.cores("one"), cluster.cores("two")) == ("4", "4")
        created = cluster.calls("create")[-1]
        assert created == ["--namespace=batch", "create", "--filename=-", "--output=name"]
        cluster.finish("one")
        assert first.result() is None
        eventually(lambda: (second.cores, cluster.cores("two")), (8, "8"))
        cluster.finish("two")
        second.result()
        report = pool.report()
        assert pool.alerts == ()
    assert (report.classes[0].arrived, report.classes[0].finished) == (2, 2)
    assert all("--subresource=resize" in call for call in cluster.calls("patch"))


def test_pods_that_fail_vanish_or_are_given_up(cluster: Cluster, tmp_path: Path) -> None:
    cluster.run("one")
    cluster.run("two")
    cluster.run("three")
    (tmp_path / "four.json").write_text(json.dumps(pod_of("four", "1", phase="")))
    with cw.LivePool(CLASSES, engine()) as pool:
        jobs = [pool.pod("train", name) for name in ("one", "two", "three")]
        begun = pool.pod("train", tmp_path / "four.json")
        eventually(lambda: [job.cores for job in (*jobs, begun)], [2, 2, 2, 2])
        cluster.finish("one", "Failed")
        with pytest.raises(CorewiseError, match="pod 'one' was ended: failed"):
            jobs[0].result()
        cluster.vanish("two")
        with pytest.raises(CorewiseError, match="pod 'two' was ended: lost"):
            jobs[1].result()
        assert jobs[2].cancel()
        assert begun.cancel()
        eventually(lambda: pool.report().classes[0].ended, 4)
    assert cluster.names == ["one", "three"]  # what was begun here is deleted, what was there is not


def test_an_infeasible_resize_is_an_alert_and_withdrawn(cluster: Cluster) -> None:
    cluster.set(node=4)
    cluster.run("one", "2")
    with cw.LivePool(CLASSES, engine()) as pool:
        job = pool.pod("train", "one")
        eventually(lambda: job.cores, 4)  # what the node said that it has
        eventually(lambda: cluster.cores("one", "spec"), "4")
        (alert,) = pool.alerts
        assert alert.about == "resize"
        assert alert.text.startswith(
            "job 'one' cannot hold 8 cores: Infeasible: Node didn't have enough capac"
        )
        assert job.explain().told == 4
        cluster.finish("one")


def test_a_deferred_resize_comes_later_or_is_given_up(cluster: Cluster) -> None:
    cluster.set(others=4)
    cluster.run("one", "2")
    with cw.LivePool(CLASSES, engine()) as pool:
        job = pool.pod("train", "one")
        eventually(lambda: cluster.cores("one", "spec"), "8")
        eventually(lambda: job.cores, 2)
        assert pool.alerts == ()
        cluster.set(others=0)
        eventually(lambda: job.cores, 8)
        cluster.finish("one")
        job.result()
    cluster.set(others=4)
    cluster.run("one", "2")
    with cw.LivePool(CLASSES, engine(patience=0.2)) as pool:
        job = pool.pod("train", "one")
        eventually(lambda: len(pool.alerts), 1)
        assert "cannot hold 8 cores: Deferred: Node didn't have enough resource" in pool.alerts[0].text
        eventually(lambda: (job.cores, cluster.cores("one", "spec")), (2, "2"))
        cluster.finish("one")


def test_what_the_server_does_not_accept_is_an_alert(cluster: Cluster) -> None:
    cluster.set(refuse='Error from server (Forbidden): pods "one" is forbidden: exceeded quota: cpu')
    cluster.run("one", "2")
    with cw.LivePool(CLASSES, engine()) as pool:
        job = pool.pod("train", "one")
        eventually(lambda: len(pool.alerts), 1)
        assert "exceeded quota" in pool.alerts[0].text
        eventually(lambda: job.cores, 2)
        cluster.finish("one")


def test_a_server_that_is_away_for_a_while_costs_nothing(cluster: Cluster, tmp_path: Path) -> None:
    cluster.run("one", "2")
    (tmp_path / "two.json").write_text(json.dumps(pod_of("two", "1", phase="")))
    with cw.LivePool(CLASSES, engine()) as pool:
        job = pool.pod("train", "one")
        eventually(lambda: job.cores, 8)
        other = pool.pod("train", tmp_path / "two.json")
        cluster.set(down=True)
        pool.set_limits("train", most=3)
        cluster.set(down=False, unanswered=True)  # what is created now gets no answer
        eventually(lambda: "two" in cluster.names, True)
        cluster.set(unanswered=False)
        eventually(lambda: (job.cores, other.cores), (3, 3))
        assert pool.alerts == ()
        cluster.finish("one")
        cluster.finish("two")


def test_a_pod_that_waits_is_parked_and_holds_no_core(cluster: Cluster) -> None:
    cluster.run("one", "2")
    log, made = Log(), engine()
    made.start(log.tell)
    made.submit(made.pod("one", None))
    log.wait_for("cores-held", "one", 2)
    made.set_cores("one", 0)
    log.wait_for("cores-held", "one", 0)
    assert cluster.cores("one") == "10m"
    made.set_cores("one", 1)
    log.wait_for("cores-held", "one", 1)
    made.close()
    assert log.of("one")[-1] == ("job-ended", "one", "cancelled")
    assert cluster.names == ["one"]


def test_a_refused_shrink_leaves_the_pod_what_it_holds(cluster: Cluster) -> None:
    cluster.run("one", "2")
    with cw.LivePool(CLASSES, engine()) as pool:
        job = pool.pod("train", "one")
        eventually(lambda: job.cores, 8)
        cluster.set(
            refuse='The Pod "one" is invalid: spec: Invalid value: "Guaranteed": Pod QOS Class may not'
        )
        pool.set_limits("train", most=4)
        eventually(lambda: len(pool.alerts), 1)
        eventually(lambda: job.explain().told, 8)
        cluster.finish("one")


def test_bad_input_is_one_clear_error(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.run("several", "1", containers=2)
    cluster.run("done", phase="Succeeded")
    with cluster.changed() as state:
        unlimited, old = pod_of("unlimited", "1"), pod_of("old", "1")
        del unlimited["spec"]["containers"][0]["resources"]["limits"]["cpu"]
        del old["status"]["containerStatuses"][0]["resources"]
        state["pods"] |= {"unlimited": unlimited, "old": old}
    (tmp_path / "job.json").write_text(json.dumps({"kind": "Job", "metadata": {"name": "j"}}))
    made = engine()
    for pod, container, complaint in (
        ("nobody", None, "no pod 'nobody' is there"),
        ("two.yaml", None, r"no pod 'two.yaml' is there: of a manifest give the pathlib.Path"),
        ("several", None, "pod 'several' has the containers main, main1: say which one"),
        ("several", "mian", "pod 'several' has no container 'mian'.*did you mean 'main'"),
        ("unlimited", None, "container 'main' of pod 'unlimited' has no limit of cpu"),
        ("done", None, "pod 'done' has succeeded already"),
        ("old", None, "pod 'old' does not say what it holds"),
        (tmp_path / "none.yaml", None, "there is no manifest"),
        (tmp_path / "job.json", None, "must be the manifest of one Pod, got 'Job'"),
    ):
        with pytest.raises(InvalidInput, match=complaint):
            made.pod(pod, container)
    with pytest.raises(InvalidInput, match="cores must be at least 1"):
        engine(cores=0)
    cluster.set(denied=True)
    with pytest.raises(CorewiseError, match="you may not patch pods/resize there"):
        engine()
    cluster.set(down=True)
    with pytest.raises(CorewiseError, match=r"failed with 1: 'The connection to the server .* was refused"):
        engine()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CorewiseError, match="there is no command 'kubectl': is kubectl installed here"):
        engine()


def test_an_engine_of_pods_runs_nothing_else(cluster: Cluster) -> None:
    with cw.LivePool(CLASSES, engine()) as pool:
        with pytest.raises(InvalidInput, match="KubernetesEngine runs pods, not calls: use"):
            pool.map("train", pow, [1], [2])
        with pytest.raises(InvalidInput, match="KubernetesEngine runs pods, not commands: use"):
            pool.command("train", ["worker"])
        cluster.run("one")
        with pytest.raises(InvalidInput, match="'tarin'"):
            pool.pod("tarin", "one")


# --- the real program, and a server that knows one pod ----------------------------------------------


class OnePod(BaseHTTPRequestHandler):
    """As much of the server of a cluster as kubectl asks for."""

    pod = pod_of("train-7", "2")
    patched: list[tuple[str, str, Any]] = []  # noqa: RUF012

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, body: dict[str, Any], status: int = 200) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        verbs = ["get", "list", "patch", "create", "delete"]
        rows = [
            {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": verbs},
            {
                "name": "pods/resize",
                "singularName": "",
                "namespaced": True,
                "kind": "Pod",
                "verbs": ["patch"],
            },
        ]
        known: dict[str, dict[str, Any]] = {
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
            "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": rows},
            "/api/v1/namespaces/default/pods/train-7": self.pod,
            "/api/v1/namespaces/default/pods/train-7/resize": self.pod,  # kubectl looks before it patches
        }
        missing = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": "NotFound",
            "code": 404,
        }
        self._answer(known.get(path, {**missing, "message": "not found"}), 200 if path in known else 404)

    def do_PATCH(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.patched.append((self.path.split("?")[0], self.headers["Content-Type"], json.loads(body)))
        self._answer({**self.pod, "metadata": {**self.pod["metadata"], "generation": 2}})


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    made = ThreadingHTTPServer(("127.0.0.1", 0), OnePod)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    config = tmp_path / "config"
    address = f"http://127.0.0.1:{made.server_address[1]}"
    here = {"cluster": "here", "user": "nobody"}
    made_of = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": {"server": address}}],
        "contexts": [{"name": "here", "context": here}],
        "users": [{"name": "nobody", "user": {}}],
        "current-context": "here",
    }
    config.write_text(json.dumps(made_of))
    monkeypatch.setenv("KUBECONFIG", str(config))
    monkeypatch.setenv("HOME", str(tmp_path))
    yield address
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl is installed here")
def test_the_real_kubectl_understands_what_it_is_asked(server: str) -> None:
    kubectl = Kubectl(context="here")
    assert seen(kubectl.pods(["train-7"])["train-7"], "main").cores == 2
    assert kubectl.pods(["nobody"]) == {}
    OnePod.patched.clear()
    assert kubectl.resize("train-7", "main", 3) == 2
    ((path, kind, body),) = OnePod.patched
    assert path == "/api/v1/namespaces/default/pods/train-7/resize"
    assert kind == "application/strategic-merge-patch+json"
    wanted = {"requests": {"cpu": "3"}, "limits": {"cpu": "3"}}
    assert body == {"spec": {"containers": [{"name": "main", "resources": wanted}]}}
    with pytest.raises(CorewiseError, match=r"kubectl get failed with 1: .*elsewhere"):
        Kubectl(context="elsewhere").pods(["train-7"])
