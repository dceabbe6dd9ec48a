"""Old spellings of names still work, and say once what to write instead."""

from __future__ import annotations

from dataclasses import replace

import pytest

import corewise as cw
from corewise.kit import renamed
from corewise.model.files import system_from_mapping

CURVE = cw.Amdahl(0.5)


@pytest.fixture(autouse=True)
def nothing_warned_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renamed, "_warned", set())


def test_a_class_is_made_and_read_with_the_old_spelling() -> None:
    with pytest.warns(DeprecationWarning, match="cores is deprecated: use m") as said:
        old = cw.JobClass("a", 1.0, 1.0, CURVE, least_cores=2, most_cores=4)  # type: ignore[call-arg]
    assert sorted(str(warning.message) for warning in said) == [
        "least_cores is deprecated: use min_cores",
        "most_cores is deprecated: use max_cores",
    ]
    assert {warning.filename for warning in said} == {__file__}
    assert old == cw.JobClass("a", 1.0, 1.0, CURVE, min_cores=2, max_cores=4)
    assert replace(old, max_cores=8).max_cores == 8
    with pytest.warns(DeprecationWarning, match=r"JobClass\.most_cores is deprecated"):
        assert old.most_cores == 4  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="has no attribute 'mots_cores'"):
        _ = old.mots_cores  # type: ignore[attr-defined]


def test_both_spellings_at_once_are_refused() -> None:
    with pytest.raises(cw.errors.InvalidSystem, match="old spelling of max_cores, and both"):
        cw.JobClass("a", 1.0, 1.0, CURVE, max_cores=4, most_cores=4)  # type: ignore[call-arg]


def test_a_file_is_read_with_the_old_spelling() -> None:
    entry = {"name": "a", "arrival_rate": 1, "size_rate": 1, "speedup": {"family": "amdahl", "p": 0.5}}
    with pytest.warns(DeprecationWarning, match="most_cores is deprecated: use max_cores"):
        system = system_from_mapping({"cores": 8, "class": [{**entry, "most_cores": 4}]})
    assert system.classes[0].max_cores == 4


def test_the_kind_of_an_event_is_found_by_its_old_name() -> None:
    with pytest.warns(DeprecationWarning, match=r"results\.Event is deprecated: use results\.EventKind"):
        assert cw.results.Event is cw.results.EventKind
    with pytest.raises(AttributeError, match="has no attribute 'Evnt'"):
        _ = cw.results.Evnt
