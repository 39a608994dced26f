"""Several processes: one fails, the others miss it, a launcher passes it on."""

from __future__ import annotations

from tests.training.failures.cases import LITTLE_MEMORY, Case

# Two ranks over gloo, forked from one process. The parent is rank 0 and ends the other.
RANKS = """
import atexit, datetime, os, signal, socket, sys, torch, torch.distributed as dist
def ranks(seconds):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    other = os.fork()
    rank = 0 if other else 1
    limit = datetime.timedelta(seconds=seconds)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2, timeout=limit)
    dist.barrier()
    return rank, other
"""


RANKS_APART = [
    Case(
        "peer-gone",
        "rank-lost",
        RANKS + "rank, other = ranks(60)\nif rank == 1: os._exit(1)\ndist.all_reduce(torch.ones(1))",
        "Connection",
    ),
    Case(
        "peer-silent",
        "communication-timeout",
        RANKS
        + """
rank, other = ranks(2)
if rank == 1: signal.pause()
atexit.register(os.kill, other, signal.SIGKILL)
dist.all_reduce(torch.ones(1))
""",
        "Timed out waiting 2000ms",
    ),
    Case(
        "peer-out-of-memory",
        "out-of-memory",
        RANKS
        + LITTLE_MEMORY.replace(
            "import resource", "import resource\nrank, other = ranks(60)\nif rank == 0: dist.all_reduce(torch.ones(1))"
        )
        + "torch.zeros(SIZE, dtype=torch.uint8)",
        "DefaultCPUAllocator",
    ),
    Case(
        "peer-never-came",
        "rendezvous-failed",
        'import datetime, torch.distributed as dist\ndist.TCPStore("127.0.0.1", 0, 2, True, timeout=datetime.timedelta(seconds=1))',
        "1/2 clients joined",
    ),
    Case(
        "main-unreachable",
        "rendezvous-failed",
        """
import datetime, socket, torch.distributed as dist
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
dist.TCPStore("127.0.0.1", port, 2, False, timeout=datetime.timedelta(seconds=1))
""",
        "The client socket has timed out",
    ),
    Case(
        "torchrun-module",
        "module-missing",
        """
from torch.distributed.run import main
open("worker.py", "w").write("import flash_attn_of_another_age")
main(["--standalone", "--nproc-per-node=2", "worker.py"])
""",
        "No module named 'flash_attn_of_another_age'",
    ),
    Case(
        "torchrun-killed",
        "killed",
        """
from torch.distributed.run import main
open("worker.py", "w").write("import os, signal\\nif os.environ['RANK'] == '1': os.kill(os.getpid(), 9)\\nsignal.pause()")
main(["--standalone", "--nproc-per-node=2", "worker.py"])
""",
        "exitcode: -9",
    ),
    Case(
        "accelerate-module",
        "module-missing",
        """
import sys
from accelerate.commands.launch import main
open("worker.py", "w").write("import flash_attn_of_another_age")
sys.argv = ["accelerate", "--cpu", "--num_processes=1", "--num_machines=1", "--mixed_precision=no", "--dynamo_backend=no", "worker.py"]
main()
""",
        "No module named 'flash_attn_of_another_age'",
    ),
    Case(
        "accelerate-crashed",
        "segmentation-fault",
        """
import sys
from accelerate.commands.launch import main
open("worker.py", "w").write("import ctypes; ctypes.string_at(0)")
sys.argv = ["accelerate", "--cpu", "--num_processes=1", "--num_machines=1", "--mixed_precision=no", "--dynamo_backend=no", "worker.py"]
main()
""",
        "SIGSEGV",
    ),
    Case(
        "worker-exception",
        "data-columns-wrong",
        """
import torch
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, index): return {"text": "a"}["prompt"]
for row in torch.utils.data.DataLoader(Rows(), num_workers=1): pass
""",
        "KeyError: 'prompt'",
    ),
]
