"""Errors, each of which says in one message what is wrong and what to do."""

from collections.abc import Sequence
from typing import NamedTuple

import psycopg

from gromacs_queue import _rules
from gromacs_queue._row import Row


class QueueError(Exception):
    """What was asked could not be done."""


class Refusal(NamedTuple):
    """Why a row was refused."""

    place: int
    """Place among the rows that were given, counted from 0; for rows that are there, their number."""
    message: str
    """What is wrong, and what to do."""


class RowError(QueueError, ValueError):
    """A value or a row was refused, and nothing was changed."""

    def __init__(self, message: str, refusals: Sequence[Refusal] = ()) -> None:
        """Says `message`, and which rows were refused if there were several."""
        super().__init__(message)
        self.refusals = tuple(refusals)
        """The rows that were refused; empty if it is about none of them alone."""


class Disconnected(QueueError, ConnectionError):
    """The database cannot be reached."""


class StillRunning(QueueError, TimeoutError):
    """Rows had not ended when the time was over."""

    def __init__(self, message: str, rows: Sequence[Row]) -> None:
        """Says `message`, with the rows as they were last."""
        super().__init__(message)
        self.rows = list(rows)
        """All rows that were waited for, as they were last."""


def rule_broken(error: psycopg.Error) -> str | None:
    """Return the message for a rule of the queue that the database says is broken, and None for another error."""
    rule = error.diag.constraint_name or ""
    if message := _rules.RULES.get(rule):
        return f"{message} (rule {rule})"
    if rule.startswith("gromacs_") and rule.endswith("_allowed"):
        # A trigger knows what would be right, and says so.
        return f"{error.diag.message_primary} (rule {rule})"
    if error.sqlstate == "42501" and _rules.POLICY_OF_NAMESPACES in (error.diag.message_primary or ""):
        return _rules.NOT_YOURS
    return None


def is_about_a_row(error: psycopg.Error) -> bool:
    """Return True if another row could still be good: a value is wrong, or a rule refused it by name."""
    state = error.sqlstate or ""
    return isinstance(error, psycopg.DataError) or state[:2] in ("22", "23") or rule_broken(error) is not None


def translated(error: psycopg.Error) -> QueueError:
    """Return the same error in the words of the queue."""
    if broken := rule_broken(error):
        return RowError(broken)
    said = (error.diag.message_primary or str(error)).strip().splitlines()
    text = said[0] if said else type(error).__name__
    if is_about_a_row(error):
        return RowError(f"the database cannot hold what was given: {text}")
    if error.sqlstate == "42501":
        return QueueError(f"{text}: {_rules.FORBIDDEN}")
    if error.sqlstate in ("42P01", "42703", "42883"):
        return QueueError(f"{text}; is this the database of the queue, and migrated?")
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return Disconnected(f"the database does not answer: {text}")
    return QueueError(f"the database failed: {text}")
