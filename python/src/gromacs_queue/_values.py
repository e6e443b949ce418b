"""Values of columns, as people write them, for the database."""

import math
import operator
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import PurePath

from psycopg.types.json import Jsonb

from gromacs_queue._errors import RowError
from gromacs_queue._rules import COLUMNS, RULES, RowNumber

# What the database holds in a column of whole numbers.
_LEAST = {"integer": -(2**31), "bigint": -(2**63)}
_MOST = {"integer": 2**31 - 1, "bigint": 2**63 - 1}


def bindable(name: str, value: object) -> object:
    """Return a value of column `name` as it is bound to a statement."""
    kind = COLUMNS[name].kind
    if kind.endswith("[]"):
        if isinstance(value, str | bytes | Mapping):
            raise _wrong(name, f"a list of {_NAMES[kind[:-2]]}, not {shown(value)}")
        if kind == "bigint[]" and (isinstance(value, int) or hasattr(value, "id")):
            value = [value]
        if not isinstance(value, Iterable):
            raise _wrong(name, f"a list of {_NAMES[kind[:-2]]}, not {shown(value)}")
        return [_one(name, kind[:-2], item) for item in value]
    return _one(name, kind, value)


def row_number(row: object) -> int:
    """Return the number of a row that is given as such or by its number."""
    number = getattr(row, "id", row)
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise RowError(f"{shown(row)} is no row; give a row of this queue, or its number")
    number = operator.index(number)
    if not 0 <= number <= _MOST["bigint"]:
        raise RowError(f"there is no row {shown(number)}")
    return number


def row_numbers(rows: RowNumber | Iterable[RowNumber]) -> list[int]:
    """Return the numbers of rows in the order in which they are given, each once."""
    if isinstance(rows, str | bytes | Mapping):
        raise RowError(f"{shown(rows)} is no row; give a row of this queue, or its number")
    given: Iterable[object] = rows if isinstance(rows, Iterable) else [rows]
    return list(dict.fromkeys(row_number(row) for row in given))


def text(name: str, value: object) -> str:
    """Return a text that the database can hold, and say what is wrong with another value in the name of `name`."""
    if isinstance(value, PurePath):
        value = value.as_posix()
    elif isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str):
        raise _wrong(name, f"a text, not {shown(value)}")
    if "\0" in value:
        raise _wrong(name, f"a text without NUL characters, not {shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _wrong(name, f"a text that is UTF-8, not {shown(value)}") from None
    return str(value)


def labels(name: str, value: object) -> dict[str, str]:
    """Return labels as the database holds them: names and texts."""
    if not isinstance(value, Mapping):
        raise _wrong(name, f"an object of names and texts, not {shown(value)}")
    found = {}
    for key, of_key in value.items():
        found[text(name, key)] = text(name, as_text(of_key))
    return found


def as_text(value: object) -> object:
    """Return a number as the text that people write for it, and anything else as it is."""
    if isinstance(value, bool):
        return value
    # The numbers of numpy have a form of their own for programmers.
    if isinstance(value, float):
        return repr(float(value))
    if hasattr(value, "__index__"):
        return str(operator.index(value))
    return value


def moment(name: str, value: object) -> datetime | timedelta:
    """Return a moment, or how far away it is."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise _wrong(name, f"a time with a time zone, not {shown(value)}; write for example tzinfo=UTC")
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, timedelta):
        return value
    raise _wrong(name, f"a datetime, a date (UTC) or a timedelta from now, not {shown(value)}")


def number(name: str, value: object) -> float:
    """Return a number."""
    try:
        if isinstance(value, str | bytes | bool):
            raise TypeError
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise _wrong(name, f"a number, not {shown(value)}") from None
    return found


_NAMES = {
    "text": "texts",
    "integer": "whole numbers",
    "bigint": "whole numbers",
    "double precision": "numbers",
}


def _one(name: str, kind: str, value: object) -> object:
    match kind:
        case "text":
            return text(name, value)
        case "integer" | "bigint":
            return _whole(name, kind, value)
        case "double precision":
            return number(name, value)
        case "boolean":
            # numpy has a type of its own for them.
            if not isinstance(value, bool) and type(value).__name__ not in ("bool_", "bool"):
                raise _wrong(name, f"True or False, not {shown(value)}")
            return bool(value)
        case "jsonb":
            return Jsonb(labels(name, value))
        case _:
            return moment(name, value)


def _whole(name: str, kind: str, value: object) -> int:
    if kind == "bigint":
        value = getattr(value, "id", value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        is_whole = isinstance(value, float) and math.isfinite(value) and value == int(value)
        if not is_whole:
            raise _wrong(name, f"a whole number, not {shown(value)}")
        value = int(value)  # type: ignore[call-overload]
    found = operator.index(value)  # type: ignore[arg-type]
    if not _LEAST[kind] <= found <= _MOST[kind]:
        rule = f"gromacs_to_tune_{name}_valid"
        if rule in RULES:
            raise RowError(f"{RULES[rule]} (rule {rule})")
        raise _wrong(name, f"at most {_MOST[kind]}, not {shown(value)}")
    return found


def _wrong(name: str, what: str) -> RowError:
    return RowError(f"{name} must be {what}")


def shown(value: object) -> str:
    """Return a value as a message shows it: short, and whatever it is."""
    try:
        shown = repr(value)
    except Exception:  # whatever a type of somebody else does
        shown = type(value).__name__
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
