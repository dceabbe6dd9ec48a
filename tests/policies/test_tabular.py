"""A policy as a table: written and read bit for bit, Whittle outside its box, damaged files refused."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corewise as cw
from tests.helpers import naive

FORMAT = "corewise policy 1"


def system_of(cores: float = 6.0, names: tuple[str, ...] = ("one", "two")) -> cw.System:
    curves = (cw.Amdahl(0.3), cw.PowerLaw(0.8), cw.Usl(0.1, 0.02))
    return cw.System(cores, [cw.JobClass(name, 0.9, 1.0, curves[i]) for i, name in enumerate(names)])


@pytest.fixture(scope="module")
def solved() -> cw.Tabular:
    return cw.solve(system_of(), capacity=(5, 7)).policy


@pytest.fixture(scope="module")
def whole() -> cw.Tabular:
    return cw.solve(system_of(), capacity=(5, 7), whole_cores=True).policy


def saved(policy: cw.Tabular, folder: Path) -> Path:
    policy.save(folder / "policy.npz")
    return folder / "policy.npz"


def test_a_table_answers_for_the_system_it_was_made_for(solved: cw.Tabular) -> None:
    """Inside its box and outside, as the bound policy does."""
    counts = naive.states((9, 9))
    assert np.array_equal(solved.allocate(counts), solved.on(solved.system).allocate(counts))
    assert solved.allocate([3, 2]).tolist() == solved.cores[:, 3, 2].tolist()
    with pytest.raises(cw.errors.InvalidInput, match="counts must have 2 numbers"):
        solved.allocate([1, 2, 3])


# --- there and back -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["solved", "whole"])
def test_a_saved_policy_comes_back_bit_for_bit(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    policy: cw.Tabular = request.getfixturevalue(kind)
    again = cw.Tabular.load(saved(policy, tmp_path))
    assert again.cores.dtype == np.float64
    assert again.cores.tobytes() == policy.cores.tobytes()
    assert again.cores.shape == (2, 6, 8)
    assert (again.system, again.label, again.whole_cores) == (policy.system, "optimal", kind == "whole")
    assert again.capacity == policy.capacity == (5, 7)
    counts = naive.states((9, 9))
    system = system_of()
    assert np.array_equal(again.on(system).allocate(counts), policy.on(system).allocate(counts))


def test_awkward_numbers_names_and_paths_survive(tmp_path: Path) -> None:
    """Thirds, the smallest float, names beyond ASCII, one class and three, a path as text."""
    system = system_of(1 / 3, ("größe", "naïve"))
    table = np.zeros((2, 2, 2))
    table[0, 1, :], table[1, 0, 1] = 1 / 3, 1 / 3
    table[:, 1, 1] = 5e-324, 1 / 3
    cw.Tabular(system, table, False, "mine, 'quoted'").save(str(tmp_path / "a b"))
    again = cw.Tabular.load(str(tmp_path / "a b"))
    assert again.cores.tobytes() == table.tobytes()
    assert again.system == system
    assert again.name == "mine, 'quoted'"
    for names in (("one",), ("one", "two", "three")):
        policy = cw.solve(system_of(names=names), capacity=3).policy
        again = cw.Tabular.load(saved(policy, tmp_path))
        assert again.cores.tobytes() == policy.cores.tobytes()


def test_its_bytes_are_those_of_its_file_and_the_same_for_the_same_policy(
    solved: cw.Tabular, tmp_path: Path
) -> None:
    content = solved.to_bytes()
    assert content == saved(solved, tmp_path).read_bytes()
    again = cw.Tabular.from_bytes(content)
    assert again.to_bytes() == content
    assert np.array_equal(again.cores, solved.cores)
    with pytest.raises(cw.errors.InvalidFile, match="policy 'f00d' is not a saved policy"):
        cw.Tabular.from_bytes(content[:-10], "policy 'f00d'")


def test_saving_replaces_an_older_file(solved: cw.Tabular, whole: cw.Tabular, tmp_path: Path) -> None:
    saved(solved, tmp_path)
    assert cw.Tabular.load(saved(whole, tmp_path)).whole_cores
    assert [path.name for path in tmp_path.iterdir()] == ["policy.npz"]


# --- what it allocates ----------------------------------------------------------------------------


def test_inside_the_table_and_outside_whittle(solved: cw.Tabular) -> None:
    counts = naive.states((9, 9))
    cores = solved.on(solved.system).allocate(counts)
    inside = (counts <= [5, 7]).all(axis=1)
    assert inside.sum() == 48
    assert np.array_equal(cores[inside], solved.cores.reshape(2, -1).T)
    whittle = cw.Whittle().on(solved.system).allocate(counts)
    assert np.array_equal(cores[~inside], whittle[~inside])
    assert np.abs(cores - whittle)[inside].max() > 1e-3  # else the table would not be seen


def test_outside_a_table_of_whole_cores_whittle_is_rounded(whole: cw.Tabular) -> None:
    """Seen with few jobs only: with more jobs than cores Whittle hands out whole cores anyway."""
    small = cw.Tabular(whole.system, whole.cores[:, :2, :2], whole_cores=True)
    counts = naive.states((4, 4))
    cores = small.on(whole.system).allocate(counts)
    outside = (counts > 1).any(axis=1)
    assert np.array_equal(cores, np.rint(cores))
    rounded = cw.WholeCores(cw.Whittle()).on(whole.system).allocate(counts)
    assert np.array_equal(cores[outside], rounded[outside])
    exact = cw.Whittle().on(whole.system).allocate(counts)
    assert not np.array_equal(exact[outside], rounded[outside])


def test_outside_the_rule_is_that_of_the_system_it_was_made_for(solved: cw.Tabular) -> None:
    truth = solved.system.with_curves({"one": cw.Amdahl(0.99)})
    bound = solved.on(truth)
    assert bound.system is solved.system
    believed = cw.Whittle().on(solved.system).allocate([2, 8])
    assert np.array_equal(bound.allocate([2, 8]), believed)
    few = cw.Tabular(solved.system, solved.cores[:, :2, :2])
    assert np.array_equal(few.on(truth).allocate([1, 2]), cw.Whittle().on(solved.system).allocate([1, 2]))
    assert not np.allclose(few.on(truth).allocate([1, 2]), cw.Whittle().on(truth).allocate([1, 2]))


def test_another_system_is_refused(solved: cw.Tabular) -> None:
    with pytest.raises(cw.errors.InvalidPolicy, match="the policy is for 6 cores, the system has 7"):
        solved.on(system_of(7.0))
    with pytest.raises(cw.errors.InvalidPolicy, match="for classes one, two; the system has two, one"):
        cw.evaluate(system_of(names=("two", "one")), solved)
    with pytest.raises(cw.errors.InvalidPolicy, match="for classes one, two; the system has one, two, three"):
        solved.on(system_of(names=("one", "two", "three")))


# --- tables that are none -------------------------------------------------------------------------


def test_a_table_cannot_be_written_to_and_is_its_own(solved: cw.Tabular) -> None:
    with pytest.raises(ValueError, match="read-only"):
        solved.cores[0, 1, 1] = 0.0
    table = np.zeros((2, 2, 2))
    table[0, 1], table[1, 0, 1] = 6.0, 6.0
    policy = cw.Tabular(system_of(), table)
    table[:] = 99.0
    assert policy.on(system_of()).allocate([1, 1]).tolist() == [6.0, 0.0]


def shares(cores: float = 6.0) -> Any:
    """A right table for counts up to one: EQUI."""
    return np.array([[[0.0, 0.0], [cores, cores / 2]], [[0.0, cores], [0.0, cores / 2]]])


def test_the_table_of_these_tests_is_right() -> None:
    assert cw.Tabular(system_of(), shares()).capacity == (1, 1)


@pytest.mark.parametrize(
    ("place", "cores"),
    [((0, 1, 1), 3.001), ((0, 1, 1), 0.0), ((1, 0, 1), 5.0), ((0, 1, 0), np.nan), ((0, 1, 0), np.inf)],
)
def test_a_table_whose_states_do_not_sum_to_the_cores_is_refused(
    place: tuple[int, ...], cores: float
) -> None:
    table = shares()
    table[place] = cores
    with pytest.raises(cw.errors.InvalidPolicy, match="the cores of some state of the table do not sum to 6"):
        cw.Tabular(system_of(), table)


def test_a_negative_share_is_refused() -> None:
    table = shares()
    table[:, 1, 1] = -1.0, 7.0
    with pytest.raises(cw.errors.InvalidPolicy):
        cw.Tabular(system_of(), table)


def test_cores_for_an_absent_class_are_refused() -> None:
    """They would be idle, and no policy idles a core while a job is present."""
    table = shares()
    table[:, 0, 1] = 3.0, 3.0
    with pytest.raises(cw.errors.InvalidPolicy):
        cw.Tabular(system_of(), table)


def test_a_table_of_whole_cores_holds_whole_cores() -> None:
    with pytest.raises(cw.errors.InvalidPolicy):
        cw.Tabular(system_of(5.0), shares(5.0), whole_cores=True)


@pytest.mark.parametrize("shape", [(2,), (2, 3), (3, 3, 3), (2, 3, 3, 3), ()])
def test_a_table_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(cw.errors.InvalidPolicy, match="a table for 2 classes cannot have shape"):
        cw.Tabular(system_of(), np.ones(shape))


def test_an_empty_table_is_refused() -> None:
    with pytest.raises(cw.errors.InvalidPolicy):
        cw.Tabular(system_of(), np.ones((2, 0, 3)))


@pytest.mark.parametrize("cores", ["text", None, [[1.0], [1.0, 2.0]], {"a": 1}, 1j], ids=repr)
def test_what_is_no_table_is_refused(cores: Any) -> None:
    with pytest.raises(cw.errors.InvalidPolicy):
        cw.Tabular(system_of(), cores)


@pytest.mark.parametrize("system", ["paper:1", None])
def test_a_table_needs_a_system(system: Any) -> None:
    with pytest.raises(cw.errors.InvalidInput):
        cw.Tabular(system, shares())


# --- files that are none --------------------------------------------------------------------------


def refused(path: Path) -> str:
    with pytest.raises(cw.errors.InvalidFile) as error:
        cw.Tabular.load(path)
    assert str(path) in str(error.value)
    return str(error.value)


def test_text_nothing_and_numbers_are_no_policy(tmp_path: Path) -> None:
    path = tmp_path / "file"
    array = io.BytesIO()
    np.save(array, np.ones(3))
    for content in (b"", b"cores = 3\n", b"\x00\x01\x02" * 50, array.getvalue(), pickle.dumps([1])):
        path.write_bytes(content)
        assert "is not a saved policy" in refused(path)


def test_a_file_that_is_not_there_or_a_folder(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "none")
    assert "is a directory" in refused(tmp_path)


@pytest.mark.parametrize("path", [None, 5, ["policy.npz"], b"policy.npz"])
def test_what_is_no_path_is_refused(path: Any, solved: cw.Tabular) -> None:
    with pytest.raises(cw.errors.InvalidFile):
        cw.Tabular.load(path)
    with pytest.raises(cw.errors.InvalidFile):
        solved.save(path)


def test_a_truncated_file_is_refused(solved: cw.Tabular, tmp_path: Path) -> None:
    path = saved(solved, tmp_path)
    content = path.read_bytes()
    for length in range(0, len(content), 37):
        path.write_bytes(content[:length])
        refused(path)


@pytest.mark.slow
def test_no_flipped_byte_is_taken_for_another_policy(solved: cw.Tabular, tmp_path: Path) -> None:
    """Either it does not matter (a date in the archive), or the file is refused as `InvalidFile`."""
    path = saved(solved, tmp_path)
    content = path.read_bytes()
    escaped = {}
    for place in range(len(content)):
        for flip in (0xFF, 0x01, 0x40):
            damaged = bytearray(content)
            damaged[place] ^= flip
            path.write_bytes(damaged)
            try:
                again = cw.Tabular.load(path)
            except cw.errors.InvalidFile:
                continue
            except Exception as error:
                escaped[repr(error)] = f"byte {place} ^ {flip:#x}"
                continue
            assert again.cores.tobytes() == solved.cores.tobytes(), place
            assert again.system == solved.system
    assert not escaped


def written(path: Path, about: Any = None, cores: Any = None, **more: Any) -> Path:
    """A file like those of `save`, with other contents."""
    mapping = {
        "cores": 6,
        "class": [
            {"name": name, "arrival_rate": 1.0, "size_rate": 1.0, "speedup": {"family": "amdahl", "p": 0.5}}
            for name in ("one", "two")
        ],
    }
    right = {"format": FORMAT, "label": "x", "whole_cores": False, "system": mapping}
    text = about if isinstance(about, str) else json.dumps({**right, **(about or {})})
    with path.open("wb") as file:
        np.savez_compressed(file, about=np.array(text), cores=shares() if cores is None else cores, **more)
    return path


def test_the_file_of_these_tests_is_right(tmp_path: Path) -> None:
    assert cw.Tabular.load(written(tmp_path / "policy")).capacity == (1, 1)


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"format": "corewise policy 2"}, "has the format 'corewise policy 2', not 'corewise policy 1'"),
        ({"format": None}, "has the format None"),
        ({"system": {"cores": 6, "class": []}}, "a system needs at least one class"),
        ({"system": 5}, "described by a mapping, got 5"),
        ({"system": {"cores": -6}}, "not a usable policy"),
        ("not json", "not a usable policy"),
        ("[]", "not a usable policy"),
        ("{}", "not a usable policy: 'format'"),
        ("[" * 100_000, "not a usable policy"),
    ],
    ids=["later format", "no format", "no class", "number", "cores", "text", "list", "empty", "nested"],
)
def test_another_description_is_refused(about: Any, message: str, tmp_path: Path) -> None:
    assert message in refused(written(tmp_path / "policy", about))


@pytest.mark.parametrize(
    "cores",
    [
        np.ones((2, 2, 2)),
        np.full((2, 2, 2), np.nan),
        np.ones((3, 2, 2)),
        np.array("text"),
        np.ones((2, 2, 2), dtype=complex),
        np.array([[1], [1, 2]], dtype=object),
    ],
    ids=["sum", "nan", "shape", "text", "complex", "object"],
)
def test_another_table_is_refused(cores: Any, tmp_path: Path) -> None:
    refused(written(tmp_path / "policy", cores=cores))


def test_another_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    np.savez(path, a=np.ones(3))
    assert "not a usable policy" in refused(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "nothing here")
    refused(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("about.npy", "not an array")
        archive.writestr("cores.npy", "nor this")
    refused(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("about", "text")
        archive.writestr("cores", "text")
    refused(path)


def test_a_curve_of_ones_own_cannot_be_saved(tmp_path: Path) -> None:
    class Own(cw.PowerLaw):
        """Another class than the family's."""

    system = cw.System(6.0, [cw.JobClass(name, 0.9, 1.0, Own(0.5)) for name in ("one", "two")])
    with pytest.raises(
        cw.errors.InvalidCurve, match=r"class 'one': a file can hold the families .*, not Own"
    ):
        cw.Tabular(system, shares()).save(tmp_path / "policy")
    assert not list(tmp_path.iterdir())
