"""The rule of sweeps, with the cases of `gromacs-submitter add --sweep`."""

import json
from pathlib import Path
from typing import Any

import pytest

from gromacs_queue import RowError, _sweep, sweep

CASES = Path(__file__).parents[2] / "gromacs-submitter/src/config/sweep.json"


def cases(kind: str) -> list[Any]:
    return list(json.loads(CASES.read_text())[kind])


@pytest.mark.parametrize("case", cases("values"), ids=lambda case: case["given"])
def test_values_are_those_of_the_command_line(case: dict[str, Any]) -> None:
    name, _, given = case["given"].partition("=")
    assert _sweep.checked(name) == case["name"]
    assert _sweep.listed(name, given) == case["values"]


@pytest.mark.parametrize("case", cases("refused"), ids=lambda case: case["given"])
def test_what_is_refused_is_refused_alike(case: dict[str, Any]) -> None:
    name, _, given = case["given"].partition("=")
    with pytest.raises(RowError) as refused:
        _sweep.listed(_sweep.checked(name), given)
    assert case["says"] in str(refused.value)


@pytest.mark.parametrize("case", cases("grids"), ids=lambda case: case["text"])
def test_grids_are_alike(case: dict[str, Any]) -> None:
    values = dict(given.split("=", 1) for given in case["sweep"])
    rows = sweep(values, tpr_path=case["text"])
    assert [row["tpr_path"] for row in rows] == case["rows"]


def test_texts_lists_and_labels_are_filled() -> None:
    rows = sweep(
        {"l": [0.5]},
        tpr_path="{l}/{after}.tpr",
        grompp_options=["-f", "md-{l}.mdp", 3],
        labels={"l": "{l}", "{l}": 1},
        mdp_options={"init-lambda-state": "{l}", "nsteps": 500},
        priority=3,
        project=None,
        unknown="{l}",
    )
    assert rows == [
        {
            "tpr_path": "0.5/{after}.tpr",
            "grompp_options": ["-f", "md-0.5.mdp", 3],
            "labels": {"l": "0.5", "0.5": 1},
            "mdp_options": {"init-lambda-state": "0.5", "nsteps": 500},
            "priority": 3,
            "project": None,
            "unknown": "{l}",
        }
    ]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "the sweep names nothing"),
        ({"x": [1]}, "{x} stands in no path, label or option"),
        ({"y": 3}, "the values of y must be a list"),
        ({"y": ["a\0"]}, "without NUL"),
        ({"y": [None]}, "a value of y must be a text, not None"),
        ({"y": range(10**12)}, "the sweep makes 10001 rows"),
        ({"y": "0..1", "z": "0..5001"}, "the sweep makes 10004 rows"),
    ],
)
def test_what_makes_no_grid_is_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(RowError, match=says):
        sweep(values, tpr_path="{y}/{z}.tpr")
