"""Add GROMACS simulations to the queue of ScavengerJobs, wait for them, and show them as a table.

>>> with Queue.connect() as queue:
...     rows = queue.sweep(
...         {"lambda": range(20)},
...         tpr_path="fep/{lambda}/topol.tpr",
...         namespace="chem",
...         persistent_volume_claim="simulations",
...     )
...     rows = queue.wait(rows)
"""

from gromacs_queue._errors import Disconnected, QueueError, Refusal, RowError, StillRunning
from gromacs_queue._queue import Queue
from gromacs_queue._row import Row
from gromacs_queue._rules import Labels, RowNumber, State, Time
from gromacs_queue._sweep import sweep

__all__ = [
    "Disconnected",
    "Labels",
    "Queue",
    "QueueError",
    "Refusal",
    "Row",
    "RowError",
    "RowNumber",
    "State",
    "StillRunning",
    "Time",
    "sweep",
]
