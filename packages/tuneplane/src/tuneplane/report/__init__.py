"""Report metrics and samples from a training script. Standard library only, CPython 3.9 to 3.14.

    from tuneplane.report import init, log, log_samples, finish

    init(config={"learning_rate": 3e-4})
    for step in range(steps):
        log({"train/loss": loss, "train/lr": lr}, step=step)
    finish()

Inside a job every call lands in the console; outside one a single line on stderr says that nothing is recorded.
No call blocks on the network or the disk, and none raises into the training loop.
"""

from __future__ import annotations

from tuneplane.report.session import finish, init, log, log_event, log_samples

__all__ = ["finish", "init", "log", "log_event", "log_samples"]
