"""What the tests have: a database of their own each, and roles that log in.

`cargo test --package gromacs-submitter --test python` starts the Postgres, migrates it, and runs the tests.
"""

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import sql

from gromacs_queue import Queue

TEMPLATE = "GROMACS_QUEUE_TEST_DATABASE"
"""The variable that names a migrated database, as its superuser."""

SUBMITTER = "GROMACS_QUEUE_TEST_SUBMITTER"
"""The variable that names the program gromacs-submitter."""

_numbers = itertools.count()


class Server:
    """A database of one test, as its admin sees it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.admin = psycopg.connect(url, autocommit=True)

    def as_role(self, role: str) -> str:
        return f"postgres://{role}@{self.url.split('@', 1)[1]}"

    def execute(self, statement: LiteralString, *values: object) -> list[Any]:
        cursor = self.admin.execute(statement, values)
        return cursor.fetchall() if cursor.description else []

    def end(self, row: int, state: str = "completed", ns_per_day: float = 100.0) -> None:
        """Stand in for the submitter, which would have computed the row."""
        self.execute(
            "update gromacs_to_tune set state = %s, ns_per_day = %s, nsteps = 500000, dt_ps = 0.002,"
            " step = 500000, start_time = now(), finish_time = now() where id = %s",
            state,
            ns_per_day,
            row,
        )

    def lose_connections(self) -> None:
        self.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
            " where application_name = 'gromacs_queue' and datname = current_database()"
        )

    def add_by_command_line(self, *arguments: str) -> str:
        """Return what gromacs-submitter says about a row that it is to add."""
        command = [os.environ[SUBMITTER], "add", "--namespace", "lab", "--pvc", "data", *arguments]
        environment = {"DATABASE_URL": self.as_role("alice"), "PATH": os.environ["PATH"]}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr


@contextmanager
def made() -> Iterator[Server]:
    template = os.environ[TEMPLATE]
    base, _, name = template.rpartition("/")
    fresh = f"python_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(f"{base}/postgres", autocommit=True) as connection:
        connection.execute(
            sql.SQL("create database {} template {}").format(sql.Identifier(fresh), sql.Identifier(name))
        )
    server = Server(f"{base}/{fresh}")
    try:
        yield server
    finally:
        server.admin.close()


@pytest.fixture
def server() -> Iterator[Server]:
    with made() as server:
        yield server


@pytest.fixture
def queue(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    monkeypatch.setenv("DATABASE_URL", server.as_role("alice"))
    monkeypatch.setenv("SCAVENGER_SUBMITTER_NAMESPACE", "lab")
    monkeypatch.setenv("SCAVENGER_SUBMITTER_PVC", "data")
    with Queue.connect() as queue:
        yield queue


def eventually(is_so: Callable[[], bool]) -> None:
    """Return as soon as something is so, which does not take forever."""
    import time

    ends = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < ends, "it was never so"
        time.sleep(0.02)
