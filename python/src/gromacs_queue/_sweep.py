"""Grids of rows: the same rule as that of `gromacs-submitter add --sweep`, tried with the same cases."""

import itertools
import math
import re
from collections.abc import Iterable, Mapping
from typing import Final

from gromacs_queue._errors import RowError
from gromacs_queue._rules import COLUMNS
from gromacs_queue._values import as_text, shown, text

MOST_ROWS: Final = 10_000
"""Rows that a sweep makes at most."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)
_RANGE: Final = re.compile(r"(-?[0-9]{1,9})\.\.(-?[0-9]{1,9})(?:\.\.([0-9]{1,9}))?", re.ASCII)


def sweep(values: Mapping[str, Iterable[object] | str], **columns: object) -> list[dict[str, object]]:
    """Return a row for each combination of values, the first name varying slowest.

    `values` has a name for each thing that varies, with its values: anything that can be gone through, or a
    text such as "0..19" (both included), "0..100..5", "00..19" (padded) or "a,b,c".
    In every text among `columns`, also in lists and labels, `{name}` stands for the value.

    The rows are added by `Queue.add_many`; `Queue.sweep` does both.
    """
    if not isinstance(values, Mapping) or not values:
        raise RowError("the sweep names nothing; write for example {'lambda': range(20)}")
    lists = {checked(name): listed(name, given) for name, given in values.items()}
    count = math.prod(len(of_name) for of_name in lists.values())
    if count > MOST_ROWS:
        raise RowError(f"the sweep makes {count} rows; make at most {MOST_ROWS} at once")
    texts = list(_texts(columns))
    for name in lists:
        if not any(f"{{{name}}}" in found for found in texts):
            raise RowError(f"{{{name}}} stands in no path, label or option, so its rows would be the same")
    grid = itertools.product(*lists.values())
    return [_filled(columns, dict(zip(lists, of_row, strict=True))) for of_row in grid]


def checked(name: object) -> str:
    """Return the name of something that varies, or say what is wrong with it."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RowError(
            f"{shown(name)} cannot be swept; a name has 1 to 63 letters, digits and '_', and begins with no digit"
        )
    if name == "after":
        raise RowError("after cannot be swept; {after} stands for the row in after")
    return name


def listed(name: str, given: Iterable[object] | str) -> list[str]:
    """Return the values of `name` as texts."""
    if isinstance(given, str):
        found = _written(name, given)
    elif isinstance(given, Iterable) and not isinstance(given, bytes | Mapping):
        # One more than are allowed is enough to know that they are too many.
        some = itertools.islice(given, MOST_ROWS + 1)
        found = [text(f"a value of {name}", as_text(value)) for value in some]
    else:
        raise RowError(f"the values of {name} must be a list, or a text such as 0..19 or a,b,c")
    if not found or "" in found:
        raise RowError(f"{name} has an empty value; write for example {name}=0..19 or {name}=a,b,c")
    if len(set(found)) < len(found):
        twice = next(value for place, value in enumerate(found) if value in found[:place])
        raise RowError(f"{name} has the value {twice} twice; leave one out")
    return found


def replaced(template: str, values: Mapping[str, str]) -> str:
    """Return a text in which each `{name}` is its value; what the values hold is not replaced again."""
    if not values:
        return template
    names = "|".join(re.escape(name) for name in values)
    return re.sub(rf"\{{({names})\}}", lambda found: values[found[1]], template)


def _written(name: str, given: str) -> list[str]:
    found = _RANGE.fullmatch(given)
    if not found:
        return [value.strip() for value in given.split(",")]
    first, last, step = int(found[1]), int(found[2]), int(found[3] or 1)
    if step == 0:
        raise RowError(f"the step of {name} is 0; write 1 or more")
    count = abs(last - first) // step + 1
    if count > MOST_ROWS:
        raise RowError(f"the sweep makes {count} rows; make at most {MOST_ROWS} at once")
    ends = [found[1], found[2]]
    is_padded = any(len(end.lstrip("-")) > 1 and end.lstrip("-").startswith("0") for end in ends)
    width = max(len(end) for end in ends) if is_padded else 0
    ahead = 1 if last >= first else -1
    return [f"{first + ahead * step * place:0{width}}" for place in range(count)]


def _texts(columns: Mapping[str, object]) -> Iterable[str]:
    for name, value in columns.items():
        if value is None or name not in COLUMNS:
            continue
        match COLUMNS[name].kind:
            case "text":
                yield text(name, value)
            case "text[]" if isinstance(value, Iterable):
                yield from (item for item in value if isinstance(item, str))
            case "jsonb" if isinstance(value, Mapping):
                yield from (str(item) for pair in value.items() for item in pair)


def _filled(columns: Mapping[str, object], values: Mapping[str, str]) -> dict[str, object]:
    return {name: _filled_one(name, value, values) for name, value in columns.items()}


def _filled_one(name: str, value: object, values: Mapping[str, str]) -> object:
    kind = COLUMNS[name].kind if name in COLUMNS else ""
    if kind == "text" and value is not None:
        return replaced(text(name, value), values)
    if isinstance(value, str):
        return value
    if kind == "text[]" and isinstance(value, Iterable):
        return [replaced(item, values) if isinstance(item, str) else item for item in value]
    if kind == "jsonb" and isinstance(value, Mapping):
        return {_in_label(key, values): _in_label(of_key, values) for key, of_key in value.items()}
    return value


def _in_label(item: object, values: Mapping[str, str]) -> object:
    return replaced(item, values) if isinstance(item, str) else item
