"""Adding, looking, waiting and changing, on a real Postgres."""

import logging
import threading
from pathlib import PurePosixPath
from typing import Any

import pandas
import pytest
from conftest import Server, eventually

from gromacs_queue import Disconnected, Queue, QueueError, RowError, StillRunning, _rules


def test_a_row_has_what_the_view_says(queue: Queue) -> None:
    first = queue.add("water/topol.tpr", project="water", labels={"T": 310}, held=True)
    row = queue.add("water/next.tpr", after=first)
    assert (first.state, first.owner, first.namespace, first.held) == ("queued", "alice", "lab", True)
    assert first.reason == "is held; release it to begin"
    assert (row.after, row.step, row.simulations, row.has_ended) == ((first.id,), None, 1, False)
    assert row.creation_time.tzinfo is not None
    assert row.reason == f"waits for row {first.id} (queued)"
    assert len({first, row, first}) == 2


def test_rows_begin_after_others_have_ended(queue: Queue, server: Server) -> None:
    first, second = queue.add("a.tpr"), queue.add("b.tpr")
    row = queue.add("sum.tpr", after_any=[first, second.id])
    assert row.after_any == (first.id, second.id)
    assert row.reason == f"waits for the end of rows {first.id} (queued), {second.id} (queued)"
    server.end(first.id)
    server.end(second.id, "failed")
    assert not (queue.rows(row)[0].reason or "").startswith("waits for the end")
    assert queue.edit(row, after_any=None)[0].after_any == ()
    with pytest.raises(RowError, match="after_any names row 99"):
        queue.edit(row, after_any=99)


def test_a_command_is_a_row_like_others(queue: Queue) -> None:
    first = queue.add("a.tpr")
    words = ["python3", "two words.py", "", "--x", "line\nfeed", "wäter $(x)"]
    folder = PurePosixPath("water")
    row = queue.add(command=words, after=first, image="python:3", folder=folder, cpu_millicores=500, memory_bytes=2**30)
    given: dict[str, Any] = {"image": "python:3", "folder": folder, "cpu_millicores": 500, "memory_bytes": 2**30}
    assert (row.kind, row.command, row.after) == ("command", tuple(words), (first.id,))
    assert (row.tpr_path, row.configuration) == (f"water/gromacs-{row.id}", "0.5 cores, 1024 MiB")
    assert (first.kind, first.command) == ("simulation", None)
    # Another row: it may read other files by now.
    assert [row.command for row in queue.add_many([{"command": words, **given}] * 2)] == [tuple(words)] * 2
    assert queue.edit(row, memory_bytes=2**31)[0].configuration == "0.5 cores, 2048 MiB"
    filled = queue.sweep({"l": range(2)}, command=["sum", "{l}.xvg"], **given)
    assert [row.command for row in filled] == [("sum", "0.xvg"), ("sum", "1.xvg")]


def test_what_is_no_command_is_refused_in_the_words_of_the_database(queue: Queue) -> None:
    good: dict[str, object] = {"command": ["true"], "image": "a", "cpu_millicores": 1000, "memory_bytes": 2**30}
    changes: dict[str, dict[str, object]] = {
        "command must be a list of 1 to 256 words": {"command": []},
        "and the first one, the program, not empty": {"command": [""]},
        "command must be a list of texts, not 'true'": {"command": "true"},
        "folder must be a folder relative to the root": {"folder": "../x"},
        "a command needs an image, and its tenant has none": {"image": None},
        "a command needs cpu_millicores and memory_bytes": {"memory_bytes": None},
        "a command has no .tpr file": {"tpr_path": "a.tpr"},
        "a command is no simulation": {"mdrun_options": ["-dlb", "yes"]},
        "only a command has folder": {"command": None, "tpr_path": "a.tpr"},
    }
    for words, change in changes.items():
        with pytest.raises(RowError) as refused:
            queue.add_many([{**good, **change}])
        assert words in str(refused.value)
    assert queue.rows() == []


def test_what_is_missing_is_named(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RowError, match="tpr_path is missing"):
        queue.add()
    monkeypatch.delenv("SCAVENGER_SUBMITTER_PVC")
    with pytest.raises(RowError, match="persistent_volume_claim is missing; give it, or set SCAVENGER_SUB"):
        queue.add("a.tpr")
    assert queue.add("a.tpr", persistent_volume_claim="data").id


def test_rows_are_added_all_or_none(queue: Queue) -> None:
    paths = [f"{number}/topol.tpr" for number in range(2500)]
    paths[7], paths[2100] = "../a.tpr", "b.gro"
    with pytest.raises(RowError) as refused:
        queue.add_many({"tpr_path": path} for path in paths)
    assert [refusal.place for refusal in refused.value.refusals] == [7, 2100]
    assert str(refused.value).startswith("row 8 of 2500 (../a.tpr): tpr_path must be")
    assert queue.rows() == []
    paths[7], paths[2100] = "7/topol.tpr", "2100/topol.tpr"
    added = queue.add_many({"tpr_path": path, "priority": place % 3} for place, path in enumerate(paths))
    assert [row.tpr_path for row in added] == paths
    numbers = [row.id for row in added]
    assert numbers == sorted(numbers)
    assert queue.add_many([]) == []
    with pytest.raises(RowError, match="give one row to add"):
        queue.add_many({"tpr_path": "a.tpr"})  # type: ignore[dict-item]


def test_a_file_is_computed_once(queue: Queue, server: Server) -> None:
    row = queue.add("a.tpr")
    with pytest.raises(RowError, match=f"^row {row.id} computes this file already and is queued; set skip_"):
        queue.add("a.tpr")
    both = [{"tpr_path": "b.tpr"}, {"tpr_path": "a.tpr"}, {"tpr_path": "b.tpr"}]
    with pytest.raises(RowError) as refused:
        queue.add_many(both)
    assert [refusal.place for refusal in refused.value.refusals] == [1, 2]
    found = queue.add_many(both, skip_existing=True)
    assert [found[0].id, found[1].id, found[2].id] == [found[0].id, row.id, found[0].id]
    assert queue.add("a.tpr", allow_duplicate=True).id > found[0].id
    server.end(found[0].id, "failed")
    assert queue.add("b.tpr", skip_existing=True).id == found[0].id
    assert queue.add("b.tpr").id > found[0].id


def test_nothing_stays_of_a_dry_run(queue: Queue) -> None:
    rows = queue.sweep({"lambda": range(3)}, tpr_path="{lambda}.tpr", labels={"l": "{lambda}"}, dry_run=True)
    assert [(row.tpr_path, row.labels) for row in rows] == [
        ("0.tpr", {"l": "0"}),
        ("1.tpr", {"l": "1"}),
        ("2.tpr", {"l": "2"}),
    ]
    assert queue.rows() == []
    with pytest.raises(RowError, match="tpr_path must be"):
        queue.sweep({"x": "..,a"}, tpr_path="{x}/a.tpr", dry_run=True)


def test_filters_choose_rows(queue: Queue, server: Server) -> None:
    rows = queue.sweep({"T": [300, 310]}, tpr_path="{T}.tpr", labels={"T": "{T}"}, project="water")
    other = queue.add("other.tpr")
    server.end(rows[0].id)
    assert [row.id for row in queue.rows()] == [rows[0].id, rows[1].id, other.id]
    assert [row.id for row in queue.rows(project="water")] == [row.id for row in rows]
    assert [row.id for row in queue.rows(labels={"T": 310})] == [rows[1].id]
    assert [row.id for row in queue.rows(state="completed")] == [rows[0].id]
    assert [row.id for row in queue.rows([other, rows[0]], state=["queued", "completed"])] == [
        rows[0].id,
        other.id,
    ]
    assert [row.id for row in queue.rows(limit=1)] == [other.id]
    assert queue.rows(late=True) == []
    with pytest.raises(RowError, match="'done' is no state; the states are queued, "):
        queue.rows(state="done")


def test_nobody_sees_the_rows_of_others(queue: Queue, server: Server) -> None:
    row = queue.add("a.tpr")
    with Queue.connect(server.as_role("bob")) as of_bob:
        assert of_bob.rows() == []
        with pytest.raises(RowError, match=f"row {row.id}: there is no such row"):
            of_bob.cancel(row)
    with Queue.connect(server.as_role("dashboard")) as of_dashboard:
        assert of_dashboard.rows() == [row]
        with pytest.raises(QueueError, match="the database role that you connect as may not do that"):
            of_dashboard.add("b.tpr", allow_duplicate=True)


def test_a_frame_has_numbers_and_times(queue: Queue, server: Server) -> None:
    rows = queue.sweep({"x": [0.5, 2]}, tpr_path="{x}.tpr", labels={"x": "{x}", "name": "n{x}"})
    for row in rows:
        server.end(row.id, ns_per_day=10 * float(row.labels["x"]))
    queue.add("last.tpr")
    frame = queue.frame(state="completed")
    assert frame["labels.x"].tolist() == [0.5, 2.0]
    assert frame["labels.name"].tolist() == ["n0.5", "n2"]
    assert frame["ns_per_day"].tolist() == [5.0, 20.0]
    assert str(frame["finish_time"].dtype).startswith("datetime64[")
    assert pandas.isna(queue.frame()["finish_time"].iloc[2])
    assert list(queue.frame(project="none").columns[:2]) == ["id", "owner"]


def test_a_frame_without_pandas_says_so(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ImportError, match=r"needs pandas; install it \(pip install pandas\), or use rows\(\)"):
        queue.frame()


def listens(server: Server) -> bool:
    found = server.execute(
        "select 1 from pg_stat_activity where application_name = 'gromacs_queue'"
        " and datname = current_database() and query ilike 'listen%%' and state = 'idle'"
    )
    return bool(found)


def test_a_wait_ends_when_the_database_reports_the_end(queue: Queue, server: Server) -> None:
    rows = queue.sweep({"x": "a,b"}, tpr_path="{x}.tpr")

    def work() -> None:
        for row, state in zip(rows, ("completed", "failed"), strict=True):
            eventually(lambda: listens(server))
            server.end(row.id, state)

    worker = threading.Thread(target=work)
    worker.start()
    # By asking alone it would be seen after the time is over.
    ended = queue.wait(reversed(rows), timeout=60, interval=600)
    worker.join()
    assert [(row.id, row.state) for row in ended] == [(rows[1].id, "failed"), (rows[0].id, "completed")]
    assert queue.wait(rows, timeout=0) == queue.rows()
    assert queue.wait() == []


def test_a_wait_has_an_end(queue: Queue) -> None:
    row = queue.add("a.tpr")
    with pytest.raises(StillRunning, match=rf"after 0.5 s these row had not ended: {row.id} \(queued\)") as over:
        queue.wait(timeout=0.5)
    assert over.value.rows == [row]
    assert isinstance(over.value, TimeoutError)
    with pytest.raises(RowError, match=f"row {row.id + 1}: there is no such row"):
        queue.wait([row.id, row.id + 1])


def test_a_wait_after_a_retry_waits_for_the_next_end(queue: Queue, server: Server) -> None:
    row = queue.add("a.tpr")
    server.end(row.id, "failed")
    assert queue.rows(row)[0].has_ended
    queue.retry(row)
    # The state says so until the submitter has heard the request.
    assert [(it.state, it.has_ended) for it in queue.rows(state="queued")] == [("failed", False)]
    for rows in (row, None):
        with pytest.raises(StillRunning):
            queue.wait(rows, timeout=0.5)


def test_a_wait_outlives_its_connections(queue: Queue, server: Server, caplog: pytest.LogCaptureFixture) -> None:
    row = queue.add("a.tpr")

    def work() -> None:
        eventually(lambda: listens(server))
        server.lose_connections()
        eventually(lambda: listens(server))
        server.end(row.id)

    worker = threading.Thread(target=work)
    worker.start()
    with caplog.at_level(logging.WARNING, "gromacs_queue"):
        assert [row.state for row in queue.wait(row, timeout=60)] == ["completed"]
    worker.join()
    assert any("is asked again" in message for message in caplog.messages)


def test_a_lost_connection_is_made_again(queue: Queue, server: Server) -> None:
    server.lose_connections()
    row = queue.add("a.tpr")
    server.lose_connections()
    assert queue.rows() == [row]
    queue.close()
    assert queue.hold(row)[0].held


def test_what_may_have_been_stored_is_not_stored_twice(queue: Queue, server: Server) -> None:
    server.execute(
        "create function lose() returns trigger language plpgsql as"
        " $$ begin perform pg_terminate_backend(pg_backend_pid()); return null; end $$;"
        " create constraint trigger lose after insert on gromacs_to_tune deferrable initially deferred"
        " for each row when (new.project = 'lost') execute function lose()"
    )
    with pytest.raises(Disconnected, match="may or may not be there: look with rows"):
        queue.add("a.tpr", project="lost")
    assert queue.rows() == []


def test_threads_take_turns(queue: Queue) -> None:
    threads = [threading.Thread(target=queue.add, args=[f"{number}.tpr"]) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(queue.rows()) == 20


def test_requests_are_refused_in_the_words_of_the_command_line(queue: Queue, server: Server) -> None:
    waits, ended = queue.add("a.tpr"), queue.add("b.tpr")
    server.end(ended.id)
    requests = {"cancel": queue.cancel, "hold": queue.hold, "release": queue.release, "retry": queue.retry}
    for verb, ask in requests.items():
        refusal = _rules.REQUESTS[verb].refusal.replace("{state}", "completed")
        with pytest.raises(RowError) as refused:
            ask([waits, ended])
        assert f"row {ended.id}: {refusal}" in str(refused.value)
    with pytest.raises(RowError, match="it is queued; only completed, failed and cancelled rows can be removed"):
        queue.remove(waits)
    # Nothing was done for the others.
    assert server.execute("select bool_or(cancel_requested or held) from gromacs_to_tune") == [(False,)]


def test_requests_are_stored(queue: Queue, server: Server) -> None:
    row = queue.add("a.tpr")
    assert queue.hold(row)[0].held
    assert not queue.release(row.id)[0].held
    queue.priority(row, 5)
    queue.cancel(row)
    assert server.execute("select priority, cancel_requested from gromacs_to_tune") == [(5, True)]
    server.end(row.id, "failed")
    queue.retry([row, row])
    assert server.execute("select cancel_requested, retry_requested from gromacs_to_tune") == [(False, True)]
    queue.remove(row)
    assert queue.rows() == []


def test_a_completed_row_is_extended(queue: Queue, server: Server) -> None:
    row = queue.add("a.tpr")
    with pytest.raises(RowError, match="say how long"):
        queue.extend(row)
    with pytest.raises(RowError, match="is queued, and only a completed row can be extended"):
        queue.extend(row, ns=1)
    server.end(row.id)
    queue.extend(row, ns=1)
    assert server.execute("select extended_nsteps from gromacs_to_tune") == [(1_000_000,)]
    with pytest.raises(RowError, match="extended_nsteps"):
        queue.extend(row, until_ns=float("inf"))
    with pytest.raises(RowError, match="there is no such row"):
        queue.extend(99, ns=1)


def test_labels_are_added_to_those_that_are_there(queue: Queue) -> None:
    row = queue.add("a.tpr", labels={"a": 1}, project="p", max_cpu_millicores=2000)
    (row,) = queue.edit(row, labels={"b": 2}, project=None)
    assert (row.labels, row.project) == ({"a": "1", "b": "2"}, None)
    (row,) = queue.edit(row, labels=None, interruption_after_seconds=None, max_cpu_millicores=None)
    assert row.labels == {}
    assert queue.edit([row]) == [row]
    assert queue.edit([], project="x") == []
    with pytest.raises(RowError, match="tpr_path of a row cannot be changed"):
        queue.edit(row, tpr_path="b.tpr")  # type: ignore[call-arg]


def test_no_error_repeats_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    with pytest.raises(QueueError, match="^no database is named; set DATABASE_URL"):
        Queue.connect()
    for url in ["mysql://me:hunter2@host/x", "hunter2", "postgres://me:hunter2@[/x", "postgres://me:hunter2@h/x\0"]:
        with pytest.raises(QueueError) as refused:
            Queue.connect(url)
        assert "hunter2" not in str(refused.value)
        assert "postgres://USER:PASSWORD@HOST:5432/DATABASE" in str(refused.value)
    with pytest.raises(Disconnected, match="the database cannot be reached: ") as refused:
        Queue.connect("postgres://me:hunter2@127.0.0.1:1/x", connect_timeout=2)
    assert "hunter2" not in str(refused.value)


def test_an_older_database_is_named(server: Server) -> None:
    server.execute("update _sqlx_migrations set success = false where version = %s", _rules.SCHEMA_VERSION)
    with pytest.raises(QueueError, match=f"this package needs {_rules.SCHEMA_VERSION}; let the admin run"):
        Queue.connect(server.as_role("alice"))
    server.execute("drop table _sqlx_migrations")
    with pytest.raises(QueueError, match="the database has schema version 0,"):
        Queue.connect(server.as_role("alice"))
