"""System files: what is written comes back equal, and what is wrong is said with file, class and value."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import corewise as cw
from corewise.kit.files import read_bytes, write_bytes
from corewise.model.files import PACKAGED, system_from_mapping, system_to_mapping
from corewise.model.units import UNITS

GOOD = """\
cores = 30

[[class]]
name = "one"
arrival_rate = 1.4
size_rate = 2.5
speedup = { family = "amdahl", p = 0.3 }
"""

CHANGE = '[[change]]\ntime = 5.0\nclass = "one"\nspeedup = { family = "amdahl", p = 0.5 }\n'


# --- round trips ------------------------------------------------------------------------------

fractions = st.floats(0.0, 1.0)
rates = st.floats(min_value=1e-300, max_value=1e300)
steady_curves = st.one_of(
    st.builds(cw.Amdahl, fractions),
    st.builds(cw.PowerLaw, fractions),
    st.builds(cw.Gustafson, fractions),
    st.builds(cw.Usl, fractions, st.floats(0.0, 1e3)),
    st.lists(st.tuples(st.floats(1.5, 1e3), st.floats(1.0, 1e3)), min_size=1, max_size=4).map(cw.Tabulated),
    st.lists(fractions, max_size=5).map(
        lambda shares: cw.WholeCoreTable([0, 1, *(z * share for z, share in enumerate(shares, start=2))])
    ),
)
curves = st.one_of(
    steady_curves,
    st.lists(
        st.tuples(st.floats(1e-9, 0.999), steady_curves), max_size=3, unique_by=lambda part: part[0]
    ).map(
        lambda parts: cw.ByProgress(
            [0.0, *(start for start, _ in sorted(parts, key=lambda part: part[0]))],
            [cw.Amdahl(0.5), *(curve for _, curve in sorted(parts, key=lambda part: part[0]))],
        )
    ),
)
# A name may hold anything but what the command line and event logs use to separate names.
names = st.text(st.characters(exclude_characters=",:\n\r\t", exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: text == text.strip()
)


@st.composite
def systems(draw: st.DrawFn) -> cw.System:
    labels = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    classes = [cw.JobClass(label, draw(rates), draw(rates), draw(curves), draw(rates)) for label in labels]
    times = sorted(draw(st.lists(rates, max_size=2)))
    changes = [cw.Change(time, draw(st.sampled_from(labels)), draw(steady_curves)) for time in times]
    return cw.System(draw(rates), classes, changes, draw(st.sampled_from([None, *UNITS])))


@pytest.mark.filterwarnings("ignore::corewise.errors.CurveMoved")
@given(system=systems())
def test_a_written_system_comes_back_equal(
    system: cw.System, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("systems") / "system.toml"
    cw.save_system(system, path)
    assert cw.load_system(path) == system


@pytest.mark.filterwarnings("ignore::corewise.errors.CurveMoved")
@given(system=systems())
def test_the_mapping_survives_json(system: cw.System) -> None:
    assert system_from_mapping(json.loads(json.dumps(system_to_mapping(system)))) == system


@pytest.mark.parametrize("mapping", [3, [], None, {"cores": 3, "class": 4}, {"cores": 3, "class": [4]}])
def test_a_mapping_of_another_shape_is_refused(mapping: dict[str, object]) -> None:
    with pytest.raises(cw.errors.InvalidSystem):
        system_from_mapping(mapping)


def test_a_weight_may_be_left_out_and_cores_may_be_an_integer(tmp_path: Path) -> None:
    path = tmp_path / "system.toml"
    path.write_text(GOOD)
    system = cw.load_system(str(path))
    assert system == cw.System(30.0, [cw.JobClass("one", 1.4, 2.5, cw.Amdahl(0.3), weight=1.0)])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "system.toml"
    path.write_bytes(GOOD.replace("\n", "\r\n").encode(encoding))
    assert cw.load_system(path).names == ["one"]


def test_a_curve_of_ones_own_cannot_be_written(tmp_path: Path) -> None:
    class Mine(cw.Amdahl):
        pass

    system = cw.System(4, [cw.JobClass("own", 1.0, 1.0, Mine(0.3))])
    with pytest.raises(cw.errors.InvalidCurve, match=r"'own'.*amdahl, power.*Mine"):
        cw.save_system(system, tmp_path / "system.toml")
    with pytest.raises(cw.errors.InvalidSystem, match="'paper:1'"):
        cw.save_system("paper:1", tmp_path / "system.toml")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


# --- the packaged systems: the paper's Table 1, and section 5.1 with its Table 2 ------------------


@pytest.mark.parametrize(
    ("name", "cores", "rate", "size_rate", "alpha", "p1", "p2"),
    [
        ("paper:1", 30, 4, 2.5, 0.35, 0.3, 0.8),
        ("paper:2", 10, 2, 1.5, 0.60, 0.4, 0.85),
        ("paper:3", 20, 2, 1.0, 0.65, 0.4, 0.7),
        ("paper:4", 30, 4, 2.5, 0.35, 0.3, 0.8),
        ("paper:drift", 10, 2, 1.5, 0.70, 0.6, 0.85),
    ],
)
def test_packaged_systems_are_those_of_the_paper(
    name: str, cores: float, rate: float, size_rate: float, alpha: float, p1: float, p2: float
) -> None:
    system = cw.load_system(name)
    assert system == cw.load_system(name)
    assert system.cores == cores
    assert system.names == ["one", "two"]
    assert system.arrival_rates == pytest.approx([alpha * rate, (1 - alpha) * rate], rel=1e-15)
    assert system.size_rates == pytest.approx([size_rate, size_rate], rel=0)
    assert [c.speedup for c in system.classes] == [cw.Amdahl(p1), cw.Amdahl(p2)]
    assert [c.weight for c in system.classes] == [1.0, 1.0]


def test_the_drifting_system_goes_through_the_regimes_of_table_2() -> None:
    system = cw.load_system("paper:drift")
    regimes = {0.0: tuple(system[name].speedup.parameters["p"] for name in ("one", "two"))}
    for change in system.changes:
        latest = list(regimes.values())[-1]
        p = change.speedup.parameters["p"]
        regimes[change.time] = (p, latest[1]) if change.name == "one" else (latest[0], p)
    assert regimes == {
        0.0: (0.6, 0.85),
        6e5: (0.5, 0.85),
        12e5: (0.5, 0.75),
        18e5: (0.55, 0.75),
        24e5: (0.55, 0.9),
    }


def test_an_unknown_packaged_name_lists_the_known_ones() -> None:
    with pytest.raises(cw.errors.InvalidFile, match=r"'paper:9'.*paper:1.*paper:drift"):
        cw.load_system("paper:9")
    assert set(PACKAGED) == {"paper:1", "paper:2", "paper:3", "paper:4", "paper:drift", "day:gpu"}


# --- bad files --------------------------------------------------------------------------------

BAD_VALUES = [
    ("1.4", "-1.4", r"class 'one': arrival_rate .*-1.4"),
    ("1.4", "0", r"class 'one': arrival_rate .*0"),
    ("1.4", "nan", r"class 'one': arrival_rate .*nan"),
    ("1.4", "inf", r"class 'one': arrival_rate .*inf"),
    ("1.4", "true", r"class 'one': arrival_rate .*True"),
    ("1.4", '"fast"', r"class 'one': arrival_rate .*'fast'"),
    ("1.4", "[1.4]", r"class 'one': arrival_rate .*\[1.4\]"),
    ("1.4", "1979-05-27", r"class 'one': arrival_rate .*1979"),
    ("1.4", "1" + "0" * 400, r"class 'one': arrival_rate"),
    ("arrival_rate = 1.4\n", "", r"class 'one': arrival_rate is missing"),
    ("2.5", "-2.5", r"class 'one': size_rate .*-2.5"),
    ("2.5", "false", r"class 'one': size_rate .*False"),
    ("size_rate", "size_rte", r"class 'one': unknown key 'size_rte'; did you mean 'size_rate'"),
    ("size_rate", "weight = -3\nsize_rate", r"class 'one': weight .*-3"),
    ("0.3", "1.5", r"class 'one': amdahl p .*1.5"),
    ("0.3", "-0.1", r"class 'one': amdahl p .*-0.1"),
    ("0.3", "nan", r"class 'one': amdahl p .*nan"),
    ("0.3", "true", r"class 'one': amdahl p .*True"),
    ("p = 0.3", "q = 0.3", r"class 'one': amdahl speedup: unknown key 'q'"),
    (", p = 0.3", "", r"class 'one': amdahl speedup: p is missing"),
    ('"amdahl"', '"amdal"', r"class 'one': unknown speed-up family 'amdal'; did you mean 'amdahl'"),
    ('"amdahl"', "7", r"class 'one': unknown speed-up family 7"),
    ('family = "amdahl", ', "", r"class 'one': speedup: family is missing"),
    ('{ family = "amdahl", p = 0.3 }', '"amdahl"', r"class 'one': speedup .*'amdahl'"),
    (
        '{ family = "amdahl", p = 0.3 }',
        '{ family = "tabulated", points = [[1, 2]] }',
        r"class 'one': tabulated .*s\(z\) = z",
    ),
    (
        '{ family = "amdahl", p = 0.3 }',
        '{ family = "tabulated", points = [] }',
        r"class 'one': tabulated .*\[\]",
    ),
    ('"one"', '""', r"class number 1: .*name.*''"),
    ('"one"', '"  "', r"name.*'  '"),
    ('"one"', "1", r"name.*1"),
    ('"one"', '"a,b"', r"'a,b'"),
    ('name = "one"\n', "", r"class number 1: name is missing"),
    ("30", "-30", r"cores .*-30"),
    ("30", "0", r"cores .*0"),
    ("30", '"many"', r"cores .*'many'"),
    ("cores = 30\n", "", r"cores is missing"),
    ("cores", "core", r"unknown key 'core'; did you mean 'cores'"),
    ("[[class]]", "[class]", r"\[\[class\]\]"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD_VALUES)
def test_a_bad_value_is_named_with_its_file_and_class(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "system.toml"
    text = GOOD.replace(old, new)
    assert text != GOOD
    path.write_text(text)
    with pytest.raises(cw.errors.InvalidFile, match=message) as caught:
        cw.load_system(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cores = 30\n", "at least one class"),
        (GOOD + GOOD.partition("\n\n")[2], "'one' is used twice"),
        (GOOD + CHANGE.replace('"one"', '"oen"'), "'oen'; did you mean 'one'"),
        (GOOD + CHANGE.replace('"one"', "1"), "change number 1: class .*1"),
        (GOOD + CHANGE.replace("5.0", "-5.0"), "class 'one': time .*-5.0"),
        (GOOD + CHANGE.replace("5.0", '"noon"'), "class 'one': time .*'noon'"),
        (GOOD + CHANGE.replace("0.5", "2.5"), "class 'one': amdahl p .*2.5"),
        (GOOD + CHANGE.replace("time = 5.0\n", ""), "change number 1: time is missing"),
        (GOOD + CHANGE.replace("time", "tiem"), "change number 1: unknown key 'tiem'; did you mean 'time'"),
        (GOOD + CHANGE + CHANGE.replace("5.0", "4.0"), "order of time"),
        ("cores = \n", "not valid TOML: .*line 1"),
        (GOOD + "cores 30\n", "not valid TOML: .*line 8"),
        (GOOD + "x = " + "[" * 100_000, "TOML|nested"),
        ("cores = 1" + "0" * 5000, "TOML"),
    ],
)
def test_a_bad_file_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "system.toml"
    path.write_text(text)
    with pytest.raises(cw.errors.InvalidFile, match=message) as caught:
        cw.load_system(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0", "binary"),
        (GOOD.encode("utf-16-le"), "binary"),
        (GOOD.replace("one", "caf\xe9").encode("latin-1"), "UTF-8.*0xe9 in line 4"),
    ],
)
def test_what_is_not_text_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "system.toml"
    path.write_bytes(content)
    with pytest.raises(cw.errors.InvalidFile, match=message):
        cw.load_system(path)


def test_files_that_cannot_be_opened_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(cw.errors.InvalidFile, match=r"missing\.toml: .*no such file.*paper:1"):
        cw.load_system(tmp_path / "missing.toml")
    with pytest.raises(cw.errors.InvalidFile, match="directory"):
        cw.load_system(tmp_path)
    with pytest.raises(cw.errors.InvalidFile, match="null"):
        cw.load_system("a\0b")
    with pytest.raises(cw.errors.InvalidFile, match="None"):
        cw.load_system(None)  # type: ignore[arg-type]

    def refuse(*args: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(cw.errors.InvalidFile, match=r"secret\.toml: .*permission denied"):
        cw.load_system(tmp_path / "secret.toml")


def test_an_endless_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("corewise.kit.files._MOST_BYTES", 2**20)
    path = tmp_path / "large.toml"
    path.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(cw.errors.InvalidFile, match="more than 1 MiB"):
        read_bytes(path)


# --- writing ----------------------------------------------------------------------------------


def test_writing_leaves_the_old_file_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "system.toml"
    path.write_text("old")

    def refuse(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(cw.errors.InvalidFile, match=r"system\.toml: .*no space left"):
        write_bytes(path, b"new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_writing_follows_links_and_spares_devices(tmp_path: Path) -> None:
    target, link = tmp_path / "target.toml", tmp_path / "link.toml"
    target.write_text("old")
    link.symlink_to(target)
    write_bytes(link, b"new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    write_bytes(os.devnull, b"gone")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


@pytest.mark.parametrize("path", [".", "missing/system.toml", "a\0b"])
def test_where_nothing_can_be_written_is_said(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(cw.errors.InvalidFile, match="cannot be written"):
        cw.save_system(cw.load_system("paper:1"), path)
    assert not list(tmp_path.iterdir())


def test_a_file_with_points_that_move_says_so(tmp_path: Path) -> None:
    file = tmp_path / "measured.toml"
    file.write_text(
        'cores = 8\n[[class]]\nname = "one"\narrival_rate = 1\nsize_rate = 1\n'
        'speedup = { family = "tabulated", points = [[1, 1], [2, 1.1], [4, 3]] }\n',
        encoding="utf-8",
    )
    with pytest.warns(cw.errors.CurveMoved, match=r"at 2 cores 1\.1 → 1\.667 \(\+51\.52%\)$"):
        cw.load_system(file)


def test_arrivals_optional_is_an_old_spelling(tmp_path: Path) -> None:
    path = tmp_path / "system.toml"
    text = 'cores = 4\n[[class]]\nname = "a"\nsize_rate = 1.0\nspeedup = { family = "amdahl", p = 0.5 }\n'
    path.write_text(text)
    with pytest.warns(
        DeprecationWarning, match=r'arrivals_optional is deprecated: use optional=\["arrival_rate"\]'
    ):
        old = cw.load_system(path, arrivals_optional=True)
    assert old == cw.load_system(path, optional=["arrival_rate"])
