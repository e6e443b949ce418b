"""A connection that comes back after it was lost."""

import os
import threading
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from gromacs_queue import _rules
from gromacs_queue._errors import Disconnected, QueueError, translated

Connection: TypeAlias = psycopg.Connection[TupleRow]
Cursor: TypeAlias = psycopg.RawCursor[TupleRow]

T = TypeVar("T")

_URL: Final = ("postgres://", "postgresql://")

# As gromacs-submitter: people may leave a transaction open that holds one of their rows.
_OPTIONS: Final = "-c lock_timeout=5s -c jit=off"


class Database:
    """Where the rows are. Used by one thread at a time: the others wait."""

    def __init__(self, url: str | None, connect_timeout: float) -> None:
        """Take the address from `DATABASE_URL` if none is given; nothing is connected here."""
        given = os.environ.get("DATABASE_URL", "") if url is None else url
        if not given:
            raise QueueError(_rules.NO_DATABASE)
        # psycopg's own complaint would repeat the address, which may hold a password.
        if not isinstance(given, str) or not given.startswith(_URL) or "\0" in given:
            raise QueueError(_rules.NO_URL)
        self._url = given
        # libpq knows whole seconds, and takes 1 for 2.
        self._timeout = max(2, round(connect_timeout))
        self._connection: Connection | None = None
        self._lock = threading.RLock()

    def close(self) -> None:
        """Close the connection, if there is one."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def connect(self) -> Connection:
        """Return a new connection to a database of the right version."""
        try:
            connection = psycopg.connect(
                self._url,
                autocommit=True,
                # Planned for the values each time: an index for a state is of no use to a plan for all states.
                prepare_threshold=None,
                cursor_factory=psycopg.RawCursor,
                connect_timeout=self._timeout,
                application_name="gromacs_queue",
                options=_OPTIONS,
            )
        except psycopg.ProgrammingError:
            raise QueueError(_rules.NO_URL) from None
        except psycopg.OperationalError as error:
            reason = str(error).strip().splitlines()
            text = reason[0] if reason else "it does not say why"
            raise Disconnected(f"the database cannot be reached: {text}") from None
        except psycopg.Error as error:
            raise translated(error) from None
        try:
            self._check_version(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def run(self, work: Callable[[Cursor], T], *, take_back: bool = False) -> T:
        """Return what `work` returns, in one transaction. Nothing of it stays if `work` raises, or with `take_back`.

        If the connection was lost before the transaction is committed, it is begun once more.
        """
        with self._lock:
            for is_last in (False, True):
                connection = self._open()
                is_done = False
                try:
                    with connection.transaction(force_rollback=take_back), connection.cursor() as cursor:
                        result = work(cursor)  # type: ignore[arg-type]
                        is_done = not take_back
                    return result
                except psycopg.Error as error:
                    if not connection.closed:
                        raise translated(error) from None
                    if is_done:
                        raise Disconnected(
                            "the connection was lost while the change was stored, and it may or may not be there: "
                            "look with rows() before you repeat it"
                        ) from None
                    if is_last:
                        raise Disconnected(f"the database does not answer: {_first_line(error)}") from None
        raise AssertionError("the second turn returns or raises")

    def _open(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = self.connect()
        return self._connection

    @staticmethod
    def _check_version(connection: Connection) -> None:
        try:
            known = connection.execute("select to_regclass('_sqlx_migrations') is not null").fetchone()
            statement = "select coalesce(max(version), 0) from _sqlx_migrations where success"
            found = connection.execute(statement).fetchone() if known and known[0] else (0,)
        except psycopg.Error as error:
            raise translated(error) from None
        version = found[0] if found else 0
        if version < _rules.SCHEMA_VERSION:
            raise QueueError(
                f"the database has schema version {version}, this package needs {_rules.SCHEMA_VERSION}; "
                "let the admin run `gromacs-submitter migrate` first"
            )


def names(columns: list[str]) -> sql.Composed:
    """Return the names of columns as a list in a statement."""
    return sql.SQL(", ").join(map(sql.Identifier, columns))


def bound(parameters: list[Any], value: object) -> sql.Composable:
    """Add a value to the parameters of a statement, and return what stands for it there."""
    parameters.append(value)
    # A number of a place, and nothing of the value.
    return sql.SQL(f"${len(parameters)}")


def _first_line(error: psycopg.Error) -> str:
    said = str(error).strip().splitlines()
    return said[0] if said else type(error).__name__
