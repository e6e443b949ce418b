"""What people give, however odd, is stored as it is or refused in one message."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import psycopg
import pytest
from conftest import Server

from gromacs_queue import Queue, QueueError, RowError, _rules

HOSTILE: list[Any] = [
    "",
    "x",
    "'; drop table gromacs_to_tune; --",
    '"quoted" \\ %s $1 {}',
    "wässer/水/topol.tpr",
    "a\0b",
    "\udcff",
    "a\nb",
    "x" * 100_000,
    b"bytes",
    0,
    -1,
    2**31,
    2**63,
    10**400,
    1.5,
    float("nan"),
    float("inf"),
    True,
    object(),
    [],
    [None],
    ["a", 1],
    ["a\0b"],
    [[1], [2]],
    [2**70],
    [True],
    {},
    {"a": "b"},
    {"a": None},
    {"a=b": "c"},
    {"a\0": "b"},
    {1: 2},
    datetime(2026, 11, 28),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
    date.max,
    timedelta.max,
    timedelta(days=-1),
    ...,
    lambda: None,
]


class Nasty:
    """A value that defends itself."""

    def __repr__(self) -> str:
        raise RuntimeError("nobody shows me")

    def __index__(self) -> int:
        return 7


def is_one_message(error: BaseException) -> bool:
    said = str(error)
    return bool(said) and "\n" not in said and "Traceback" not in said and len(said) < 1000


@pytest.mark.parametrize("name", _rules.COLUMNS)
def test_whatever_is_given_is_stored_or_refused(queue: Queue, name: str) -> None:
    for value in [*HOSTILE, Nasty()]:
        row: dict[str, object] = {"tpr_path": "water/topol.tpr", name: value}
        try:
            queue.add_many([row], allow_duplicate=True, dry_run=True)
        except QueueError as error:
            assert is_one_message(error), repr(error)
            assert error.__suppress_context__ or error.__context__ is None
            assert not isinstance(error.__cause__, psycopg.Error)
    # The table is there, and nothing was added.
    assert queue.rows() == []


@pytest.mark.parametrize("name", _rules.Changes.__annotations__)
def test_whatever_is_changed_is_stored_or_refused(queue: Queue, name: str) -> None:
    row = queue.add("water/topol.tpr")
    for value in [*HOSTILE, Nasty(), None]:
        try:
            queue.edit(row, **{name: value})
        except QueueError as error:
            assert is_one_message(error), repr(error)
    assert [found.id for found in queue.rows()] == [row.id]


@pytest.mark.parametrize("value", [*HOSTILE, Nasty()], ids=lambda value: type(value).__name__)
def test_whatever_is_asked_for_is_answered_or_refused(queue: Queue, value: Any) -> None:
    asked: list[Callable[[], object]] = [
        lambda: queue.rows(value),
        lambda: queue.rows(state=value),
        lambda: queue.rows(project=value),
        lambda: queue.rows(labels=value),
        lambda: queue.rows(limit=value),
        lambda: queue.wait(value, timeout=0),
        lambda: queue.wait([], timeout=value),
        lambda: queue.cancel(value),
        lambda: queue.extend([], ns=value),
        lambda: queue.extend(value, until_ns=1),
        lambda: queue.priority(value, 1),
        lambda: queue.add_many(value),
        lambda: queue.sweep({"x": value}, tpr_path="{x}.tpr", dry_run=True),
        lambda: queue.sweep(value, tpr_path="x.tpr", dry_run=True),
    ]
    for ask in asked:
        try:
            ask()
        except QueueError as error:
            assert is_one_message(error), repr(error)


def test_texts_are_stored_as_they_are(queue: Queue, server: Server) -> None:
    project = "'; drop table gromacs_to_tune; -- \"%s $1 {} wässer 水"
    labels: dict[str, str | int | float] = {"it's": '"; delete', "λ": 0.1, "n": 3}
    row = queue.add("wässer's/水 1/topol.tpr", project=project, labels=labels)
    assert row.tpr_path == "wässer's/水 1/topol.tpr"
    assert row.project == project
    assert row.labels == {"it's": '"; delete', "λ": "0.1", "n": "3"}
    assert queue.rows(project=project, labels={"it's": '"; delete', "n": 3}) == [row]
    assert queue.rows(project="' or true --") == []
    assert server.execute("select count(*) from gromacs_to_tune") == [(1,)]


def test_names_of_columns_are_never_sql(queue: Queue) -> None:
    for name in ["tpr_path) values (1); --", "id", "state", "owner", "projects", "cancel_requested", "\0", ""]:
        with pytest.raises(RowError) as refused:
            queue.add_many([{"tpr_path": "a.tpr", name: "x"}])
        assert is_one_message(refused.value)
    with pytest.raises(RowError, match="is project meant"):
        queue.add("a.tpr", projects="x")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ({"priority": 2_000_000}, ["--priority", "2000000"], "priority must be between"),
        ({"tpr_path": "../a.tpr"}, [], "tpr_path must be the path of a .tpr file"),
        ({"tpr_path": "a.gro"}, [], "tpr_path must be the path of a .tpr file"),
        ({"project": ""}, ["--project", ""], "project must be 1 to 100 characters"),
        ({"image": "a b"}, ["--image", "a b"], "image must be a container image without blanks"),
        ({"namespace": "else"}, ["--namespace", "else"], "namespace"),
        ({"after": [99]}, ["--after", "99"], "after names row 99"),
        (
            {"checkpoint_path": "a.cpt", "append": True},
            ["--checkpoint", "a.cpt", "--append", "true"],
            "writes new parts of its output",
        ),
    ],
)
def test_both_languages_say_the_same(
    queue: Queue, server: Server, columns: dict[str, object], options: list[str], says: str
) -> None:
    given = {"tpr_path": "a.tpr", **columns}
    with pytest.raises(RowError, match=says) as refused:
        queue.add_many([given])
    path = str(given["tpr_path"])
    # The command line takes an option once.
    said = server.add_by_command_line(path, *options) if "--namespace" not in options else ""
    assert "--namespace" in options or str(refused.value) in said, said


def test_numbers_that_no_column_holds_break_its_rule(queue: Queue) -> None:
    for value in (2**31, -(2**40), 10**400):
        with pytest.raises(RowError, match="priority must be between -1000000 and 1000000 "):
            queue.add("a.tpr", priority=value)
    # What is whole is whole.
    assert queue.add("a.tpr", priority=3.0).id  # type: ignore[arg-type]


def test_paths_have_slashes(queue: Queue) -> None:
    assert queue.add(PurePosixPath("a/b.tpr")).tpr_path == "a/b.tpr"
    assert queue.add(PureWindowsPath("a\\c.tpr")).tpr_path == "a/c.tpr"


def test_times_have_a_zone(queue: Queue) -> None:
    with pytest.raises(RowError, match="a time with a time zone"):
        queue.add("a.tpr", deadline=datetime(2026, 12, 1))
    moment = datetime(2026, 12, 1, 8, tzinfo=UTC)
    assert queue.add("a.tpr", deadline=moment).deadline == moment
    row = queue.add("b.tpr", deadline=timedelta(days=2))
    assert row.deadline is not None
    assert row.deadline - row.creation_time == timedelta(days=2)
    assert queue.edit(row, deadline=None)[0].deadline is None


def test_numbers_of_numpy_are_numbers(queue: Queue) -> None:
    numpy = pytest.importorskip("numpy")
    row = queue.add(
        "a.tpr",
        priority=numpy.int64(3),
        labels={"n": numpy.int32(1), "x": numpy.float64(0.25)},
        box_nm=numpy.array([3.0, 3.0, 4.0]),
        append=numpy.bool_(True),
    )
    assert row.labels == {"n": "1", "x": "0.25"}
    assert queue.rows(numpy.int64(row.id)) == [row]
