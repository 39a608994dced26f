"""Scripts that fail, by the reason they fail for. They run in the training runtime; `quoted` is part of the line that gives the reason away.

Every failure is real: a limit of the kernel, a full file system, a damaged file, a peer that is gone. Nothing prints a message that
a library would print.
"""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    name: str
    code: str
    script: str
    quoted: str = ""


NOBODY = """
import os
if os.getuid() == 0:  # root may read everything and start any number of processes
    os.setgid(65534)
    os.setuid(65534)
"""
LITTLE_MEMORY = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (64 << 30, 64 << 30))
SIZE = 256 << 30
"""
# A mount namespace of its own, so that nobody else sees the small file system; gone with the process.
MOUNT = """
import ctypes, os, subprocess
def mount(path, options):
    os.makedirs(path, exist_ok=True)
    assert ctypes.CDLL(None, use_errno=True).unshare(0x20000) == 0, os.strerror(ctypes.get_errno())
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], check=True)
"""
MACHINES = [
    Case("python-memory", "out-of-memory", LITTLE_MEMORY + "bytearray(SIZE)", "MemoryError"),
    Case(
        "torch-memory",
        "out-of-memory",
        LITTLE_MEMORY + "import torch\ntorch.zeros(SIZE, dtype=torch.uint8)",
        "DefaultCPUAllocator: can't allocate memory",
    ),
    Case(
        "numpy-memory",
        "out-of-memory",
        LITTLE_MEMORY + "import numpy\nnumpy.ones(SIZE, numpy.uint8)",
        "_ArrayMemoryError",
    ),
    Case(
        "worker-killed",
        "out-of-memory",
        """
import os, signal, torch
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, index): os.kill(os.getpid(), signal.SIGKILL)
for row in torch.utils.data.DataLoader(Rows(), num_workers=1): pass
""",
        "is killed by signal: Killed",
    ),
    Case(
        "too-many-files",
        "too-many-open-files",
        """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = [open("/dev/null") for _ in range(100)]
""",
        "Too many open files",
    ),
    Case("disk-full", "disk-full", 'open("/dev/full", "w").write("x" * 100_000)', "No space left on device"),
    Case(
        "checkpoint-not-written",
        "write-failed",
        'import torch\ntorch.save(torch.zeros(1 << 20), "/dev/full")',
        "iostream error",
    ),
    Case(
        "file-too-large",
        "file-too-large",
        """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
open("x", "wb").write(b"x" * 100_000)
""",
        "File too large",
    ),
    Case(
        "threads",
        "process-limit",
        "import resource, threading\nresource.setrlimit(resource.RLIMIT_NPROC, (1, 1))"
        + NOBODY
        + "threading.Thread(target=print).start()",
        "can't start new thread",
    ),
    Case(
        "processes",
        "process-limit",
        "import resource\nresource.setrlimit(resource.RLIMIT_NPROC, (1, 1))" + NOBODY + "os.fork()",
        "Resource temporarily unavailable",
    ),
    Case(
        "permission",
        "permission-denied",
        'import os\nopen("secret", "w").close()\nos.chmod("secret", 0)' + NOBODY + 'open("secret")',
        "Permission denied: 'secret'",
    ),
    Case("file", "file-missing", 'open("prompts/system.txt")', "prompts/system.txt"),
    Case("folder", "file-missing", 'import torch\ntorch.save([], "no/such/folder/x.pt")', "Parent directory"),
    Case(
        "port",
        "port-taken",
        """
import datetime, socket, torch.distributed as dist
other = socket.create_server(("127.0.0.1", 0))
dist.TCPStore("127.0.0.1", other.getsockname()[1], 1, True, timeout=datetime.timedelta(seconds=5))
""",
        "EADDRINUSE",
    ),
    Case(
        "python-port",
        "port-taken",
        'import socket\nother = socket.create_server(("127.0.0.1", 0))\nsocket.create_server(other.getsockname())',
        "Address already in use",
    ),
    Case(
        "network",
        "network-failed",
        """
import socket, urllib.request
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
urllib.request.urlopen(f"http://127.0.0.1:{port}/data.tar", timeout=5)
""",
        "Connection refused",
    ),
]

MOUNTS = [
    Case(
        "checkpoint-on-a-full-disk",
        "disk-full",
        MOUNT
        + """
mount("out", "size=64k")
import torch
from safetensors.torch import save_file
save_file({"weight": torch.zeros(1 << 20)}, "out/model.safetensors")
""",
        "No space left on device",
    ),
    Case(
        "read-only",
        "storage-read-only",
        MOUNT + 'mount("out", "size=64k,ro")\nimport torch\ntorch.save(torch.zeros(9), "out/x.pt")',
        "Read-only file system",
    ),
    Case(
        "shared-memory",
        "shared-memory-full",
        MOUNT
        + """
mount("/dev/shm", "size=64k")
import torch
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, index): return torch.zeros(1 << 20)
for row in torch.utils.data.DataLoader(Rows(), num_workers=1): pass
""",
        "unable to allocate shared memory",
    ),
]

ENDS = [
    Case("killed", "killed", "import os\nos.kill(os.getpid(), 9)"),
    Case("segfault", "segmentation-fault", "import ctypes\nctypes.string_at(0)"),
    Case(
        "segfault-with-words",
        "segmentation-fault",
        "import ctypes, faulthandler\nfaulthandler.enable()\nctypes.string_at(0)",
        "Fatal Python error: Segmentation fault",
    ),
    Case(
        "bus-error",
        "bus-error",
        """
import mmap
file = open("mapped", "w+b")
file.truncate(8192)
mapped = mmap.mmap(file.fileno(), 8192)
file.truncate(0)
mapped[5000]
""",
    ),
    Case("aborted", "aborted", "import os\nos.abort()"),
    Case("illegal-instruction", "illegal-instruction", "import os\nos.kill(os.getpid(), 4)"),
    Case("terminated", "interrupted", "import os\nos.kill(os.getpid(), 15)"),
    Case("other-signal", "trainer-signalled", "import os\nos.kill(os.getpid(), 10)"),
    Case("exit-code", "trainer-failed", "import sys\nsys.exit(3)"),
    Case("own-exception", "trainer-failed", 'raise ValueError("the reward is odd")', "ValueError: the reward is odd"),
    Case(
        "shell-not-found",
        "command-not-found",
        'import subprocess, sys\nsys.exit(subprocess.run(["bash", "-c", "set -e; no-such-trainer --fast"]).returncode)',
        "no-such-trainer: command not found",
    ),
    Case(
        "shell-not-executable",
        "not-executable",
        'import subprocess, sys\nopen("run.sh", "w").close()\nsys.exit(subprocess.run(["sh", "-c", "./run.sh"]).returncode)',
        "Permission denied",
    ),
    Case(
        "shell-killed",
        "killed",
        """
import subprocess, sys
open("train.sh", "w").write("sleep 60 & \\nkill -9 $!\\nwait $!\\nexit $?\\n")
sys.exit(subprocess.run(["bash", "train.sh"]).returncode)
""",
        "Killed",
    ),
]

SCRIPTS = [
    Case("module", "module-missing", "import flash_attn_of_another_age", "No module named 'flash_attn_of_another_age'"),
    Case("import-name", "version-conflict", "from transformers import TrainerOfTheFuture", "cannot import name"),
    Case(
        "required-version",
        "version-conflict",
        'from transformers.utils.versions import require_version\nrequire_version("torch>=99")',
        "torch>=99 is required",
    ),
    Case(
        "native-library",
        "native-library-missing",
        'import ctypes\nctypes.CDLL("libcudart.so.99")',
        "cannot open shared object file",
    ),
    Case(
        "syntax",
        "script-invalid",
        'import subprocess, sys\nopen("t.py", "w").write("def f(:\\n")\nsys.exit(subprocess.run([sys.executable, "t.py"]).returncode)',
        "SyntaxError",
    ),
    Case(
        "no-script",
        "entrypoint-missing",
        'import subprocess, sys\nsys.exit(subprocess.run([sys.executable, "train.py.txt"]).returncode)',
        "can't open file",
    ),
    Case(
        "no-script-module",
        "entrypoint-missing",
        'import subprocess, sys\nsys.exit(subprocess.run([sys.executable, "-m", "trainer.main"]).returncode)',
        "finding module specification",
    ),
    Case(
        "no-shell-script",
        "entrypoint-missing",
        'import subprocess, sys\nsys.exit(subprocess.run(["bash", "train.sh"]).returncode)',
        "train.sh: No such file or directory",
    ),
    Case(
        "package",
        "package-install-failed",
        'import subprocess, sys\nsys.exit(subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--isolated", "no-such-package"]).returncode)',
        "no-such-package",
    ),
    Case("matmul", "shape-mismatch", "import torch\ntorch.zeros(2, 3) @ torch.zeros(4, 5)", "cannot be multiplied"),
    Case("broadcast", "shape-mismatch", "import torch\ntorch.zeros(2, 3) + torch.zeros(2, 4)", "must match"),
    Case("view", "shape-mismatch", "import torch\ntorch.zeros(6).view(4, 2)", "is invalid for input of size 6"),
    Case("stack", "shape-mismatch", "import torch\ntorch.stack([torch.zeros(3), torch.zeros(4)])", "equal size"),
    Case(
        "batch",
        "shape-mismatch",
        "import torch\ntorch.nn.functional.cross_entropy(torch.zeros(2, 4), torch.tensor([1]))",
    ),
    Case(
        "dtype",
        "tensor-mismatch",
        "import torch\ntorch.nn.Linear(4, 4)(torch.zeros(2, 4, dtype=torch.float64))",
        "dtype",
    ),
    Case("token-id", "index-out-of-range", "import torch\ntorch.nn.Embedding(10, 4)(torch.tensor([11]))"),
    Case(
        "label",
        "index-out-of-range",
        "import torch\ntorch.nn.functional.cross_entropy(torch.zeros(2, 4), torch.tensor([1, 9]))",
    ),
    Case(
        "anomaly",
        "loss-not-finite",
        "import torch\ntorch.autograd.set_detect_anomaly(True)\nx = torch.tensor([-1.0], requires_grad=True)\ntorch.sqrt(x).sum().backward()",
        "returned nan values",
    ),
    Case(
        "sampling",
        "loss-not-finite",
        'import torch\ntorch.multinomial(torch.tensor([[float("nan"), 1.0]]), 1)',
        "probability tensor contains",
    ),
    Case("no-rows", "data-empty", "import torch\ntorch.utils.data.DataLoader([], shuffle=True)", "num_samples=0"),
    Case("cuda", "gpu-build-missing", "import torch\ntorch.zeros(1).cuda()", "not compiled with CUDA"),
]
