"""The notebook, from files to a plot. A thread stands in for the submitter and the cluster."""

import threading
from pathlib import Path

import nbformat
import pytest
from conftest import Server
from nbconvert.preprocessors import ExecutePreprocessor

NOTEBOOK = Path(__file__).parents[1] / "examples/fep.ipynb"

pytestmark = [
    # Theirs, about themselves.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.usefixtures("queue")
def test_it_leads_from_files_to_a_plot(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        folder = tmp_path / f"fep/{number:02}"
        folder.mkdir(parents=True)
        (folder / "topol.tpr").touch()
    monkeypatch.setenv("SIMULATIONS", str(tmp_path))
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    is_over = threading.Event()

    def work() -> None:
        while not is_over.wait(0.05):
            for (row,) in server.execute("select id from gromacs_to_tune where state = 'queued'"):
                server.end(row, ns_per_day=100.0 + row)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        execute = ExecutePreprocessor(timeout=300)  # type: ignore[no-untyped-call]
        execute.preprocess(notebook, {"metadata": {"path": str(tmp_path)}})
    finally:
        is_over.set()
        worker.join()
    outputs = {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
    assert "fep/02/topol.tpr" in outputs["add"][0].data["text/plain"]
    assert outputs["wait"][0].data["text/plain"] == "[]"
    assert "completed" in outputs["frame"][0].data["text/html"]
    assert any("image/png" in output.get("data", {}) for output in outputs["plot"])
    found = server.execute("select labels ->> 'lambda', project from gromacs_to_tune order by id")
    assert found == [("00", "fep"), ("01", "fep"), ("02", "fep")]


def test_it_holds_nothing_that_was_not_measured() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    assert all(not cell.get("outputs") and not cell.get("execution_count") for cell in notebook.cells)
