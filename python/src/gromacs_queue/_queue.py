"""The queue: add rows, look at them, wait for them, and change them."""

import difflib
import logging
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from gromacs_queue import _rules, _sweep, _values
from gromacs_queue._connection import Connection, Cursor, Database, bound, names
from gromacs_queue._errors import Disconnected, Refusal, RowError, StillRunning, is_about_a_row, translated
from gromacs_queue._row import LISTS, TIMES, Row
from gromacs_queue._rules import Changes, Given, Labels, Path, RowNumber

if TYPE_CHECKING:
    import pandas

# Rows in one statement: with all columns given, far below the 65,535 values that one may have.
_MOST_ROWS: Final = 1000

# Refusals that a message names; all of them are in the error.
_MOST_NAMED: Final = 5

# Many changes at once are one reason to look.
_SHORTEST_PAUSE: Final = 0.25

# A report may be lost, so that somebody who waits looks at least this often.
_LONGEST_PAUSE: Final = 3600.0

# What names the namespace and the claim for gromacs-submitter, too.
_ENVIRONMENT: Final = {
    "namespace": "SCAVENGER_SUBMITTER_NAMESPACE",
    "persistent_volume_claim": "SCAVENGER_SUBMITTER_PVC",
}

_LOG = logging.getLogger("gromacs_queue")

_FIELDS: Final = tuple(field.name for field in fields(Row))


class Queue:
    """The queue of GROMACS simulations.

    What changes rows does so for all rows that it is given, or raises `RowError` and changes none.
    """

    def __init__(self, database: Database) -> None:
        """Use `Queue.connect`."""
        self._database = database

    @classmethod
    def connect(cls, url: str | None = None, *, connect_timeout: float = 10.0) -> Self:
        """Connect to the Postgres at `url`, or at that of the variable DATABASE_URL.

        The form is postgres://USER:PASSWORD@HOST:5432/DATABASE. Connecting is given up after
        `connect_timeout` seconds.
        """
        database = Database(url, connect_timeout)
        database.run(lambda cursor: cursor.execute("select 1"))
        return cls(database)

    def close(self) -> None:
        """Close the connection; it is made again if the queue is used after all."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(
        self,
        tpr_path: Path | None = None,
        *,
        namespace: str | None = None,
        persistent_volume_claim: str | None = None,
        skip_existing: bool = False,
        allow_duplicate: bool = False,
        **columns: Unpack[Given],
    ) -> Row:
        """Add a simulation: the file `tpr_path`, relative to the root of the volume.

        With `command`, a list of a program and its arguments, the row runs that instead, in a folder of its own in
        `folder`, with `cpu_millicores` and `memory_bytes`.

        Namespace and claim are those of SCAVENGER_SUBMITTER_NAMESPACE and SCAVENGER_SUBMITTER_PVC if they are
        not given. `add_many` explains the other two.
        """
        given = {
            "namespace": namespace,
            "persistent_volume_claim": persistent_volume_claim,
            "tpr_path": tpr_path,
            **columns,
        }
        return self.add_many([given], skip_existing=skip_existing, allow_duplicate=allow_duplicate)[0]

    def add_many(
        self,
        rows: Iterable[Mapping[str, object]],
        *,
        skip_existing: bool = False,
        allow_duplicate: bool = False,
        dry_run: bool = False,
    ) -> list[Row]:
        """Add rows, all or none, and return one for each of those given.

        Each row is a mapping of columns, as `add` takes them. A file that a row computes already is refused. With
        `skip_existing` it is left out, whatever became of it, and its row is returned; with `allow_duplicate` it
        is computed twice. With `dry_run` the database checks everything, and nothing is added.
        """
        tables = _prepared(rows)

        def work(cursor: Cursor) -> tuple[list[int], list[Row]]:
            found: dict[int, int] = {}
            if not allow_duplicate:
                cursor.execute(_rules.LOCK_ADDING)
                found = _existing(cursor, tables, skip_existing)
            wanted = [place for place in range(len(tables)) if place not in found]
            refusals: list[Refusal] = []
            for first in range(0, len(wanted), _MOST_ROWS):
                some = wanted[first : first + _MOST_ROWS]
                found.update(_inserted(cursor, tables, some, refusals))
            if refusals:
                _refuse(refusals, [_values.as_text(table.get("tpr_path", "")) for table in tables])
            # A file that was named before stands for its row.
            numbers = [found[place] if found[place] >= 0 else found[-found[place] - 1] for place in range(len(tables))]
            return numbers, _listed(cursor, numbers) if dry_run else []

        numbers, added = self._database.run(work, take_back=dry_run)
        return added if dry_run else self._named(numbers)

    def sweep(
        self,
        values: Mapping[str, Iterable[object] | str],
        *,
        skip_existing: bool = False,
        allow_duplicate: bool = False,
        dry_run: bool = False,
        **columns: object,
    ) -> list[Row]:
        """Add a row for each combination of `values`, all or none; the function `sweep` says how they are made."""
        rows = _sweep.sweep(values, **columns)
        return self.add_many(rows, skip_existing=skip_existing, allow_duplicate=allow_duplicate, dry_run=dry_run)

    def rows(
        self,
        numbers: RowNumber | Iterable[RowNumber] | None = None,
        *,
        state: str | Iterable[str] = (),
        project: str | None = None,
        labels: Labels | None = None,
        namespace: str | None = None,
        owner: str | None = None,
        late: bool = False,
        limit: int | None = None,
    ) -> list[Row]:
        """Return rows in the order of their numbers: those named, or all, as far as each filter leaves them.

        `labels` must all be there. `late` means those that have missed their deadline, or are expected to. `limit`
        leaves the newest so many.
        """
        filters = _filter(numbers, state, project, labels, namespace, owner, late)
        if limit is not None and (not isinstance(limit, int) or not 1 <= limit <= 2**31):
            raise RowError("limit must be a whole number of at least 1")
        return self._database.run(lambda cursor: _list(cursor, filters, limit), take_back=True)

    def frame(
        self,
        rows: RowNumber | Iterable[RowNumber] | None = None,
        *,
        state: str | Iterable[str] = (),
        project: str | None = None,
        labels: Labels | None = None,
        namespace: str | None = None,
        owner: str | None = None,
        late: bool = False,
        limit: int | None = None,
    ) -> "pandas.DataFrame":
        """Return rows as a DataFrame of pandas, chosen as by `rows`.

        Each label is a column `labels.NAME` as well, of numbers if all of its values are.
        """
        try:
            import pandas
        except ImportError:
            raise ImportError("frame() needs pandas; install it (pip install pandas), or use rows()") from None
        found = self.rows(
            rows,
            state=state,
            project=project,
            labels=labels,
            namespace=namespace,
            owner=owner,
            late=late,
            limit=limit,
        )
        frame = pandas.DataFrame({name: [getattr(row, name) for row in found] for name in _FIELDS})
        for name in TIMES:
            frame[name] = pandas.to_datetime(frame[name], utc=True)
        for label in sorted({name for row in found for name in row.labels}):
            column = pandas.Series([row.labels.get(label) for row in found], dtype=object)
            numbers = pandas.to_numeric(column, errors="coerce")
            is_number = bool((numbers.notna() == column.notna()).all())
            frame[f"labels.{label}"] = numbers if is_number else column
        return frame

    def wait(
        self,
        rows: RowNumber | Iterable[RowNumber] | None = None,
        *,
        timeout: float | timedelta | None = None,
        interval: float = 10.0,
    ) -> list[Row]:
        """Wait until rows have ended, and return them; without any, those that have not ended now.

        A row ends as completed, failed or cancelled: look at its state. The database reports each change at once,
        and is asked every `interval` seconds as well. If it does not answer, it is asked again, and a warning is
        logged. After `timeout` seconds `StillRunning` is raised; without it the wait has no end.
        """
        if rows is None:
            rows = self.rows(state=[state for state in _rules.STATES if state not in _rules.ENDED])
        numbers = _values.row_numbers(rows)
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        ends = None if seconds is None else time.monotonic() + _values.number("timeout", seconds)
        # What is no number is no time, either.
        if ends is not None and math.isnan(ends):
            raise RowError("timeout must be a number of seconds, or a timedelta")
        interval = min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, _values.number("interval", interval)))
        found = self._named(numbers)
        listener: Connection | None = None
        try:
            while not all(row.has_ended for row in found):
                left = interval if ends is None else min(interval, ends - time.monotonic())
                if left <= 0:
                    raise _still_running(found, seconds)
                began = time.monotonic()
                try:
                    if listener is None:
                        # What happens from here on is reported; what happened before is looked at.
                        listener = self._listening()
                    else:
                        for _ in listener.notifies(timeout=left, stop_after=1):
                            time.sleep(min(left, max(0.0, _SHORTEST_PAUSE - (time.monotonic() - began))))
                    found = self._named(numbers)
                except (Disconnected, psycopg.OperationalError) as error:
                    _LOG.warning("%s; it is asked again", str(error).strip().partition("\n")[0])
                    if listener is not None:
                        listener.close()
                    listener = None
                    time.sleep(min(left, interval, 1.0))
        finally:
            if listener is not None:
                listener.close()
        return found

    def cancel(self, rows: RowNumber | Iterable[RowNumber]) -> list[Row]:
        """Stop simulations for good; what was computed stays on the volume, and `retry` goes on from there."""
        return self._request("cancel", _rules.CANCEL, rows)

    def retry(self, rows: RowNumber | Iterable[RowNumber]) -> list[Row]:
        """Let failed or cancelled simulations go on from their last checkpoint."""
        return self._request("retry", _rules.RETRY, rows)

    def hold(self, rows: RowNumber | Iterable[RowNumber]) -> list[Row]:
        """Begin none of these simulations until they are released."""
        return self._request("hold", _rules.SET_HELD, rows, True)

    def release(self, rows: RowNumber | Iterable[RowNumber]) -> list[Row]:
        """Let simulations begin that were held."""
        return self._request("release", _rules.SET_HELD, rows, False)

    def priority(self, rows: RowNumber | Iterable[RowNumber], priority: int) -> list[Row]:
        """Let simulations begin in descending priority, among those of the same owner."""
        return self.edit(rows, priority=priority)

    def edit(self, rows: RowNumber | Iterable[RowNumber], **columns: Unpack[Changes]) -> list[Row]:
        """Change what simulations ask for, or what they belong to.

        Labels are added to those that are there. None takes a value back. Project, labels and deadline can be
        changed at any time, everything else while a row is queued or has ended.
        """
        numbers = _values.row_numbers(rows)
        parameters: list[Any] = []
        assignments = []
        for name, value in columns.items():
            column = _known(name)
            if not column.may_edit:
                raise RowError(f"{name} of a row cannot be changed; add another row")
            stands_for = sql.SQL("default") if value is None else _expression(parameters, name, value)
            begin = "{0} = {0} || {1}" if name == "labels" and value is not None else "{0} = {1}"
            assignments.append(sql.SQL(begin).format(sql.Identifier(name), stands_for))
        if not numbers or not assignments:
            return self._named(numbers)
        statement = sql.SQL("update gromacs_to_tune set {} where id = any({}) returning id").format(
            sql.SQL(", ").join(assignments), bound(parameters, numbers)
        )

        def work(cursor: Cursor) -> None:
            changed = {number for (number,) in cursor.execute(statement, parameters)}
            _refuse([Refusal(number, _rules.NO_ROW) for number in numbers if number not in changed])

        self._database.run(work)
        return self._named(numbers)

    def extend(
        self,
        rows: RowNumber | Iterable[RowNumber],
        *,
        ns: float | None = None,
        until_ns: float | None = None,
    ) -> list[Row]:
        """Let completed simulations go on: for `ns` longer, or until they are `until_ns` long in all."""
        if (ns is None) == (until_ns is None):
            raise RowError("say how long: give either ns, or until_ns")
        length = _values.number("ns", ns) if ns is not None else _values.number("until_ns", until_ns)
        numbers = _values.row_numbers(rows)

        def work(cursor: Cursor) -> None:
            changed = {row[0] for row in cursor.execute(_rules.EXTEND, [numbers, length, ns is not None])}
            _refuse([Refusal(number, _rules.NO_ROW) for number in numbers if number not in changed])

        self._database.run(work)
        return self._named(numbers)

    def remove(self, rows: RowNumber | Iterable[RowNumber]) -> None:
        """Remove simulations that have ended from the queue, with their history; their files stay."""
        self._requested("remove", _rules.REMOVE, rows)

    def _request(self, verb: str, statement: str, rows: RowNumber | Iterable[RowNumber], *values: object) -> list[Row]:
        return self._named(self._requested(verb, statement, rows, *values))

    def _requested(
        self, verb: str, statement: str, rows: RowNumber | Iterable[RowNumber], *values: object
    ) -> list[int]:
        numbers = _values.row_numbers(rows)
        request = _rules.REQUESTS[verb]

        def work(cursor: Cursor) -> None:
            done = {number for (number,) in cursor.execute(statement, [numbers, *values])}
            left = [number for number in numbers if number not in done]
            if left:
                states: dict[int, str] = dict(cursor.execute(_rules.SELECT, _filter(left)).fetchall())
                _refuse([Refusal(number, _refusal(request, states.get(number))) for number in left])

        self._database.run(work)
        return numbers

    def _named(self, numbers: Sequence[int]) -> list[Row]:
        """Return the rows of these numbers, in this order."""
        # Reading leaves nothing that could be lost, so that it is done again after any loss of the connection.
        return self._database.run(lambda cursor: _listed(cursor, numbers), take_back=True)

    def _listening(self) -> Connection:
        listener = self._database.connect()
        for channel in _rules.CHANNELS:
            listener.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
        return listener


def _filter(
    numbers: RowNumber | Iterable[RowNumber] | None = None,
    state: str | Iterable[str] = (),
    project: str | None = None,
    labels: Labels | None = None,
    namespace: str | None = None,
    owner: str | None = None,
    late: bool = False,
) -> list[Any]:
    """Return the first eight values of the statements that choose rows."""
    states = list(state) if isinstance(state, Iterable) and not isinstance(state, str) else [state]
    for found in states:
        if found not in _rules.STATES:
            raise RowError(f"{_values.shown(found)} is no state; the states are {', '.join(_rules.STATES)}")
    texts = {"owner": owner, "namespace": namespace, "project": project}
    of_texts = [None if value is None else _values.text(name, value) for name, value in texts.items()]
    of_labels = Jsonb(_values.labels("labels", labels)) if labels else None
    return [None if numbers is None else _values.row_numbers(numbers), states, *of_texts, of_labels, bool(late), None]


def _list(cursor: Cursor, filters: list[Any], limit: int | None = None) -> list[Row]:
    found = cursor.execute(_rules.LIST, [*filters, [], limit]).fetchall()
    return [_row(value) for (value,) in reversed(found)]


def _listed(cursor: Cursor, numbers: Sequence[int]) -> list[Row]:
    found = {row.id: row for row in _list(cursor, _filter(numbers))}
    _refuse([Refusal(number, _rules.NO_ROW) for number in numbers if number not in found])
    return [found[number] for number in numbers]


def _row(value: dict[str, Any]) -> Row:
    # A view of a newer version may have more columns.
    known = {name: value[name] for name in _FIELDS}
    for name in TIMES:
        if known[name] is not None:
            known[name] = datetime.fromisoformat(known[name])
    for name in LISTS:
        if known[name] is not None:
            known[name] = tuple(known[name])
    return Row(**known)


def _known(name: str) -> _rules.Column:
    if column := _rules.COLUMNS.get(name):
        return column
    near = difflib.get_close_matches(str(name), _rules.COLUMNS, 1)
    hint = f"; is {near[0]} meant?" if near else ", see docs/reference/database.md"
    raise RowError(f"there is no column {_values.shown(name)}{hint}")


def _prepared(rows: Iterable[Mapping[str, object]]) -> list[dict[str, object]]:
    """Return what is given of each row, ready to be bound, or say what is wrong with which rows."""
    if isinstance(rows, Mapping | str | bytes) or not isinstance(rows, Iterable):
        raise RowError("add_many takes a list of rows; give one row to add()")
    tables: list[dict[str, object]] = []
    refusals = []
    paths = []
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise RowError(f"row {place + 1} must be a mapping of columns, such as {{'tpr_path': 'water/topol.tpr'}}")
        paths.append(row.get("tpr_path"))
        try:
            tables.append(_prepared_one(row))
        except RowError as error:
            refusals.append(Refusal(place, str(error)))
    _refuse(refusals, paths)
    return tables


def _prepared_one(row: Mapping[str, object]) -> dict[str, object]:
    table = {}
    given = {name: value for name, value in row.items() if value is not None}
    for name, variable in _ENVIRONMENT.items():
        if name not in given:
            found = os.environ.get(variable)
            if not found:
                raise RowError(f"{name} is missing; give it, or set {variable}")
            given[name] = found
    if "tpr_path" not in given and "command" not in given and given.get("kind") != "calibration":
        raise RowError("tpr_path is missing; give the path of a .tpr file, relative to the root of the volume")
    for name, value in given.items():
        if not _known(name).may_add:
            raise RowError(f"{name} is asked of a row that is there; leave it out")
        table[name] = _values.bindable(name, value)
    return table


def _existing(cursor: Cursor, tables: list[dict[str, object]], skip_existing: bool) -> dict[int, int]:
    """Return the rows that compute files already; a negative number -N - 1 means the one given at place N."""
    found: dict[int, int] = {}
    first: dict[str, int] = {}
    refusals = []
    for place, table in enumerate(tables):
        if "tpr_path" not in table:
            continue
        of_file = [table[name] for name in ("namespace", "persistent_volume_claim", "tpr_path")]
        key = repr([*of_file, table.get("multidir", [])])
        before = first.setdefault(key, place)
        if before != place:
            found[place] = -before - 1
            refusals.append(Refusal(place, f"{_rules.NAMED_TWICE}, or set skip_existing or allow_duplicate"))
    values: list[Any] = [
        [table.get(name, "") for table in tables] for name in ("namespace", "persistent_volume_claim", "tpr_path")
    ]
    folders = [Jsonb(table.get("multidir", [])) for table in tables]
    for place, number, state in cursor.execute(_rules.DUPLICATES, [*values, skip_existing, folders]).fetchall():
        if place - 1 not in found:
            found[place - 1] = number
        said = _rules.COMPUTED_ALREADY.replace("{row}", str(number)).replace("{state}", state)
        refusals.append(
            Refusal(
                place - 1,
                f"{said}; set skip_existing to leave it out, or allow_duplicate to compute it twice",
            )
        )
    if not skip_existing:
        _refuse(refusals, [table.get("tpr_path") for table in tables])
    return found


def _inserted(
    cursor: Cursor, tables: list[dict[str, object]], places: list[int], refusals: list[Refusal]
) -> dict[int, int]:
    """Insert the rows at `places`; a statement that is refused is divided until the rows to blame stand alone."""
    parameters: list[Any] = []
    used = [name for name in _rules.COLUMNS if any(name in tables[place] for place in places)]
    lines = []
    for place in places:
        cells = [
            _expression(parameters, name, tables[place][name], is_bindable=True)
            if name in tables[place]
            else sql.SQL("default")
            for name in used
        ]
        lines.append(sql.SQL("({})").format(sql.SQL(", ").join(cells)))
    statement = sql.SQL("insert into gromacs_to_tune ({}) values {} returning id").format(
        names(used), sql.SQL(", ").join(lines)
    )
    try:
        with cursor.connection.transaction():
            numbers = [number for (number,) in cursor.execute(statement, parameters).fetchall()]
    except psycopg.Error as error:
        if not is_about_a_row(error):
            raise
        if len(places) == 1:
            refusals.append(Refusal(places[0], str(translated(error))))
            return {}
        middle = len(places) // 2
        return {
            **_inserted(cursor, tables, places[:middle], refusals),
            **_inserted(cursor, tables, places[middle:], refusals),
        }
    return dict(zip(places, numbers, strict=True))


def _expression(parameters: list[Any], name: str, value: object, *, is_bindable: bool = False) -> sql.Composable:
    """Bind a value of a column, and return what stands for it in a statement."""
    value = value if is_bindable else _values.bindable(name, value)
    if isinstance(value, timedelta):
        return sql.SQL("now() + {}").format(bound(parameters, value))
    return bound(parameters, value)


def _refusal(request: _rules.Request, state: str | None) -> str:
    return _rules.NO_ROW if state is None else request.refusal.replace("{state}", state)


def _refuse(refusals: list[Refusal], paths: Sequence[object] | None = None) -> None:
    """Raise what is wrong, if anything is: of rows that are there, or with `paths` of rows that are given."""
    if not refusals:
        return
    refusals = sorted({refusal.place: refusal for refusal in reversed(refusals)}.values())
    if paths is not None and len(paths) == 1:
        raise RowError(refusals[0].message, refusals)
    said = [f"{_called(refusal.place, paths)}: {refusal.message}" for refusal in refusals[:_MOST_NAMED]]
    more = len(refusals) - len(said)
    text = "; ".join([*said, f"and {more} more" if more == 1 else f"and {more} others"] if more else said)
    raise RowError(text, refusals)


def _called(place: int, paths: Sequence[object] | None) -> str:
    if paths is None:
        return f"row {place}"
    path = paths[place]
    return f"row {place + 1} of {len(paths)}" + (f" ({repr(str(path))[1:-1][:80]})" if path else "")


def _still_running(rows: list[Row], seconds: float | None) -> StillRunning:
    left = [row for row in rows if not row.has_ended]
    some = ", ".join(f"{row.id} ({row.state})" for row in left[:_MOST_NAMED])
    more = f" and {len(left) - _MOST_NAMED} more" if len(left) > _MOST_NAMED else ""
    what = "row" if len(left) == 1 else "rows"
    return StillRunning(f"after {seconds:g} s these {what} had not ended: {some}{more}", rows)
