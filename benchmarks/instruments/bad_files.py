"""Files that a hostile command line names: systems, logs, curves, sweeps and saved policies that are bad."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import corewise as cw

__all__ = ["GOOD", "write_bad_files"]

ONE = """\
[[class]]
name = "one"
arrival_rate = 1.4
size_rate = 2.5
speedup = { family = "amdahl", p = 0.3 }
"""
TWO = ONE.replace('"one"', '"two"').replace("0.3", "0.8")
GOOD = f"cores = 30\n{ONE}{TWO}"
BOM = "\ufeff"

_VALUES = (
    "0",
    "-1",
    "nan",
    "inf",
    "-inf",
    "1e999",
    '"eight"',
    "true",
    "[]",
    "{}",
    "1979-05-27",
    "9" * 400,
    '""',
)
_BAD_NAMES = {
    "newline": r"a\nb",
    "comma": "a,b",
    "colon": "a:b",
    "blank": " ",
}


def _bad_systems() -> Mapping[str, str]:
    """Return system files that must be refused, by name."""
    keys = {
        "cores = 30": "cores",
        "arrival_rate = 1.4": "arrival_rate",
        "size_rate = 2.5": "size_rate",
        "p = 0.3": "p",
    }
    files = {
        f"{key}-{i}.toml": GOOD.replace(said, f"{key} = {value}", 1)
        for said, key in keys.items()
        for i, value in enumerate(_VALUES)
        if not (key == "p" and value == "0")
    }
    files |= {f"name-{what}.toml": GOOD.replace('"one"', f'"{name}"') for what, name in _BAD_NAMES.items()}
    weights = ("1e308", "1e-308", "-1", "0", "nan", '"x"')
    files |= {
        f"weight-{i}.toml": GOOD.replace("[[class]]", f"[[class]]\nweight = {w}", 1)
        for i, w in enumerate(weights)
    }
    scales = ("1e308", "1e-308", "1e200")
    files |= {f"scale-{i}.toml": GOOD.replace("2.5", value) for i, value in enumerate(scales)}
    curves = (
        '{ family = "nonsense", p = 0.5 }',
        '{ family = "amdahl" }',
        "{ p = 0.5 }",
        "0.5",
        "{}",
        "{ family = 3 }",
        '{ family = "amdahl", p = 0.5, q = 1 }',
        '{ family = "usl", sigma = 0.1, kappa = inf }',
        '{ family = "usl", sigma = -1, kappa = 0 }',
        '{ family = "tabulated", points = [] }',
        '{ family = "tabulated", points = [[1, 1], [2]] }',
        '{ family = "tabulated", points = [[2, -1]] }',
        '{ family = "tabulated", points = [[1, 5]] }',
        '{ family = "tabulated", points = "many" }',
        '{ family = "tabulated", points = [[nan, 1]] }',
        '{ family = "' + "x" * 3000 + '", p = 1 }',
    )
    good = '{ family = "amdahl", p = 0.3 }'
    files |= {f"curve-{i:02}.toml": GOOD.replace(good, curve) for i, curve in enumerate(curves)}
    change = '[[change]]\ntime = 5.0\nclass = "one"\nspeedup = { family = "amdahl", p = 0.5 }\n'
    files |= {
        "change-of-nobody.toml": GOOD + change.replace('"one"', '"three"'),
        "change-before.toml": GOOD + change.replace("5.0", "-5.0"),
        "change-back.toml": GOOD + change + change.replace("5.0", "4.0"),
        "change-of-a-list.toml": GOOD + change.replace('"one"', "[1]"),
        "empty.toml": "",
        "no-class.toml": "cores = 3\n",
        "one-bracket.toml": GOOD.replace("[[class]]", "[class]", 1),
        "twice.toml": f"cores = 3\n{ONE}{ONE}",
        "key-twice.toml": GOOD.replace("cores = 30", "cores = 30\ncores = 31"),
        "unknown-key.toml": GOOD.replace("size_rate", "sise_rate", 1),
        "unknown-key-long.toml": "k" * 20_000 + " = 1\n" + GOOD,
        "deep.toml": f"cores = {'[' * 5000}{']' * 5000}\n",
        "many-values.toml": GOOD.replace("cores = 30", f"cores = {list(range(20_000))}"),
        "class-is-a-list.toml": f"cores = 3\nclass = {list(range(5000))}\n",
        "nul.toml": GOOD + "\0",
        "not-toml.toml": "<html></html>",
        "json.toml": '{"cores": 30}',
    }
    return files


def _odd_systems() -> Mapping[str, str]:
    """Return system files that look strange, and may be refused or not; never with a traceback."""
    return {
        "bom.toml": BOM + GOOD,
        "crlf.toml": GOOD.replace("\n", "\r\n"),
        "controls.toml": GOOD.replace('"one"', r'"a\u001b[31m\u0007\u202e\u2028\u007f\u009b"'),
        "names.toml": GOOD.replace('"one"', '"日本語 😀 naïve"').replace('"two"', f'"{"w" * 300}"'),
        "tiny-cores.toml": GOOD.replace("cores = 30", "cores = 1e-3").replace("1.4", "1e-5"),
        "huge-cores.toml": GOOD.replace("cores = 30", "cores = 1e15"),
        "small-weight.toml": GOOD.replace("[[class]]", "[[class]]\nweight = 1e-90", 1),
        "large-weight.toml": GOOD.replace("[[class]]", "[[class]]\nweight = 1e90", 1),
        "hardly-any.toml": GOOD.replace("1.4", "1e-90"),
        "straight.toml": GOOD.replace("0.3", "1.0").replace("0.8", "1.0"),
        "flat.toml": GOOD.replace("0.3", "0.0").replace("0.8", "0.0"),
        "integers.toml": GOOD.replace("1.4", "1").replace("2.5", "2"),
    }


_LOG = "time,event,class,job,cores:one,cores:two\n0,start,,,0,0\n"
_LOGS = {
    "empty.csv": "",
    "header.csv": "time,event\n",
    "nothing.csv": _LOG.splitlines()[0] + "\n",
    "text.csv": "hello\n",
    "back.csv": _LOG + "2,arrival,one,1,30,0\n1,departure,one,1,0,0\n",
    "nobody.csv": _LOG + "1,departure,one,1,0,0\n",
    "unknown.csv": _LOG + "1,arrival,three,1,30,0\n",
    "negative.csv": _LOG + "1,arrival,one,1,-3,0\n",
    "too-many.csv": _LOG + "1,arrival,one,1,99,0\n",
    "nan.csv": _LOG + "nan,arrival,one,1,30,0\n",
    "inf.csv": _LOG + "inf,arrival,one,1,30,0\n",
    "word.csv": _LOG + "soon,arrival,one,1,30,0\n",
    "short.csv": _LOG + "1,arrival,one\n",
    "long.csv": _LOG + "1,arrival,one,1,30,0,7,8,9\n",
    "event.csv": _LOG + "1,explode,one,1,30,0\n",
    "two-starts.csv": _LOG + "0,start,,,0,0\n",
    "escape.csv": _LOG + "1,arrival,\x1b[31mone,1,30,0\n",
    "huge-field.csv": _LOG + "1,arrival," + "x" * 200_000 + ",1,30,0\n",
    "quote.csv": _LOG + '1,"arrival,one,1,30,0\n',
    "no-cores.csv": _LOG + "1,arrival,one,1,0,0\n2,departure,one,1,0,0\n",
    "big.csv": _LOG
    + "1e308,arrival,one,1,30,0\n1.7e308,departure,one,1,0,0\n1.7e308,arrival,one,1,1e308,0\n",
}

_CURVES = {
    "empty.csv": "",
    "header.csv": "cores,throughput\n",
    "text.csv": "hello\n",
    "words.csv": "cores,throughput\na,b\n",
    "negative.csv": "cores,throughput\n1,1\n2,-1\n",
    "zero.csv": "cores,throughput\n0,1\n0,2\n",
    "nan.csv": "cores,throughput\n1,nan\n2,2\n",
    "inf.csv": "cores,throughput\n1,1\n2,inf\n",
    "ragged.csv": "cores,throughput\n1,1\n2\n",
    "escape.csv": "cores,throughput\n1,\x1b[31m1\n",
    "one.csv": "cores,throughput\n1,1\n",
    "large.csv": "cores,throughput\n1,1e-320\n2,1e308\n",
}

SWEEP = 'seed = 1\nsystems = ["paper:1"]\n[[evaluate]]\npolicies = ["equi"]\n'
_SWEEPS = {
    "empty.toml": "",
    "text.toml": "hello",
    "nothing.toml": 'systems = ["paper:1"]\n',
    "key.toml": "sede = 1\n" + SWEEP,
    "loads-1.toml": SWEEP.replace("[[", "loads = [1.5]\n[["),
    "loads-2.toml": SWEEP.replace("[[", "loads = [nan]\n[["),
    "loads-3.toml": SWEEP.replace("[[", "loads = [0]\n[["),
    "loads-4.toml": SWEEP.replace("[[", "loads = 0.5\n[["),
    "loads-5.toml": SWEEP.replace("[[", "loads = [0.5, 1.0]\n[["),
    "cores.toml": SWEEP.replace("[[", "cores = [-1]\n[["),
    "cores-few.toml": SWEEP.replace("[[", "cores = [0.5]\n[["),
    "system.toml": SWEEP.replace("paper:1", "nowhere.toml"),
    "policy.toml": SWEEP.replace("equi", "nonsense"),
    "control.toml": SWEEP.replace("equi", r"e\u001b"),
    "seed.toml": SWEEP.replace("seed = 1", "seed = -1"),
    "seeds.toml": SWEEP.replace("[[", "seeds = 0\n[["),
    "single.toml": SWEEP.replace("[[evaluate]]", "[evaluate]"),
    "twice.toml": SWEEP.replace('"equi"', '"equi", "equi"'),
    "learn.toml": SWEEP.replace("evaluate", "learn"),
    "nul.toml": SWEEP + "\0",
    "many.toml": SWEEP.replace("[[evaluate]]", "seeds = 10000000\n[[simulate]]\ndepartures = 10"),
    "departures.toml": SWEEP.replace("[[evaluate]]", "[[simulate]]\ndepartures = nan"),
}


def write_bad_files(good: str) -> None:
    """Write all of them to the current directory, and a few good ones beside them."""
    folders: dict[str, Mapping[str, str]] = {
        "bad": _bad_systems(),
        "odd": _odd_systems(),
        "logs": _LOGS,
        "curves": _CURVES,
        "sweeps": _SWEEPS,
    }
    for folder, files in folders.items():
        Path(folder).mkdir()
        for name, text in files.items():
            (Path(folder) / name).write_text(text, newline="")
    Path("bad/latin.toml").write_bytes(good.encode("latin-1") + b"# caf\xe9\n")
    Path("bad/binary.toml").write_bytes(bytes(range(256)))
    Path("logs/binary.csv").write_bytes(bytes(range(256)) * 100)
    Path("logs/latin.csv").write_bytes(_LOG.encode() + b"1,arrival,on\xe9,1,30,0\n")
    with Path("bad/large.toml").open("wb") as file:
        file.truncate(100 * 2**20)
    Path("loop").symlink_to("loop")
    Path("good.toml").write_text(good)
    Path("one.toml").write_text(f"cores = 30\n{ONE}")
    Path("odd-cores.toml").write_text(good.replace("cores = 30", "cores = 30.5"))
    Path("overload.toml").write_text(good.replace("1.4", "1.4e3"))
    Path("just-one.toml").write_text(f"cores = 2\n{ONE.replace('1.4', '5.0')}")
    Path("many.toml").write_text(
        "cores = 400\n"
        + "".join(ONE.replace('"one"', f'"class {i}"').replace("1.4", f"{2 + i / 1000}") for i in range(200))
    )
    Path("sweep.toml").write_text(SWEEP)
    Path("curve.csv").write_text("cores,throughput\n1,1\n2,1.8\n4,3\n8,4.2\n16,5\n")
    Path("full.csv").symlink_to("/dev/full")
    Path("damaged.csv").write_text("key,kind\nx,y\n")
    Path("other.csv").write_text("a,b,c\n1,2,3\n")
    for name, classes, cores, load in (
        ("two-0.999", 2, 30, 0.999),
        ("three-0.95", 3, 12, 0.95),
        ("one-1e5", 1, 100_000, 0.9),
        ("four-0.995", 4, 64, 0.995),
    ):
        kinds = [cw.JobClass(f"{i}", 1.0 + i, 2.0 - i / 3, cw.Amdahl(0.3 + i / 5)) for i in range(classes)]
        cw.save_system(cw.System(cores, kinds).at_load(load), f"{name}.toml")
    _write_saved()


def _write_saved() -> None:
    """Write saved policies and runs, and what can be done to them."""
    system = cw.load_system("paper:1")
    solution = cw.solve(system)
    solution.policy.save("best.policy")
    whole = Path("best.policy").read_bytes()
    Path("cut.policy").write_bytes(whole[: len(whole) // 2])
    Path("cut.run").write_bytes(whole[:-20])
    run = cw.simulate(system, cw.Equi(), departures=200, rng=1, record=True)
    assert run.path is not None
    cw.save_events(run.path, "log0.csv")
    folder = Path("saved")
    _write_damaged(folder, whole)
    command = [
        "-m",
        "corewise",
        "learn",
        "paper:1",
        "--algorithm",
        "1b",
        "--departures",
        "20",
        "--steps",
        "3",
        "--save",
        "good.run",
    ]
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    _write_damaged(Path("runs"), Path("good.run").read_bytes())
    with zipfile.ZipFile("best.policy") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    _pack(folder / "no-about", {"cores.npy": entries["cores.npy"]})
    _pack(folder / "no-cores", {"about.npy": entries["about.npy"]})
    _pack(folder / "nan", {**entries, "cores.npy": _saved(np.full((2, 9, 9), np.nan))})
    _pack(folder / "objects", {**entries, "cores.npy": _saved(np.array([{}, None], dtype=object))})
    _pack(folder / "not-arrays", {"a": b"hello", "b": b"there"})
    zeros = np.zeros(1 << 20).tobytes()
    header = _header((2, 5120, 8192))
    for name, about in (("bomb", entries), ("bomb-and-nothing", {})):
        with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for entry, content in about.items():
                if entry != "cores.npy":
                    archive.writestr(entry, content)
            with archive.open("cores.npy", "w", force_zip64=True) as stream:
                stream.write(header)
                for _ in range(80):
                    stream.write(zeros)


def _write_damaged(folder: Path, whole: bytes) -> None:
    """Write a file empty, cut off, and with bytes changed here and there."""
    folder.mkdir()
    (folder / "empty").write_bytes(b"")
    (folder / "cut").write_bytes(whole[: len(whole) // 2])
    rng = np.random.default_rng(0)
    for i in range(6):
        damaged = bytearray(whole)
        for at in rng.integers(len(whole), size=20):
            damaged[at] ^= 0xFF
        (folder / f"damaged-{i}").write_bytes(damaged)


def _saved(array: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def _header(shape: tuple[int, ...]) -> bytes:
    stream = io.BytesIO()
    about = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, about)
    return stream.getvalue()


def _pack(path: Path, entries: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
