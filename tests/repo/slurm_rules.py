"""The console speaks with Slurm over REST and in no other way: nothing in the packages starts a command of Slurm's, or ssh.

`srun` stands only in the text of batch scripts, which Slurm runs on a compute node.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.repo.tree import PACKAGES, imports

COMMANDS = (
    "sbatch", "srun", "salloc", "sattach", "sbcast", "scancel", "scontrol", "squeue", "sinfo", "sacct", "sacctmgr", "sstat",
    "strigger", "sprio", "ssh", "scp", "sftp", "rsh", "pdsh", "parallel-ssh",
)  # fmt: skip
LIBRARIES = (
    "paramiko",
    "asyncssh",
    "fabric",
    "fabric2",
    "sshtunnel",
    "pssh",
    "pexpect",
    "pyslurm",
    "simple_slurm",
    "submitit",
)
SLURM = "tuneplane_server.executors.slurm"
BATCH_SCRIPTS = f"{SLURM}.script"
PROBE_SCRIPT = "tuneplane_server/executors/slurm/probe/on_node.sh"
# What starts a process; nothing that has to do with Slurm calls any of them.
STARTS = re.compile(
    r"(subprocess\.\w+|Popen|create_subprocess_(exec|shell)|subprocess_(exec|shell)|"
    r"(os|pty|asyncio)\.(system|popen|spawn\w*|exec\w*|posix_spawn\w*|fork\w*))\Z"
)
PROSE = ("_", "N_", "ngettext")
_WORD = re.compile(rf"(?<![\w.-])({'|'.join(map(re.escape, COMMANDS))})(?![\w-]|\.\w)")
TEXTS = (".sh", ".yaml", ".yml", ".toml", ".js", ".html", ".service")


def slurm_commands(name: str, tree: ast.Module) -> list[str]:
    """What a module has that could start such a command; `srun` may stand in the texts of batch scripts."""
    found = [f"imports {imported}" for imported in imports(tree, name) if imported.split(".")[0] in LIBRARIES]
    of_slurm = f"{name}.".startswith(f"{SLURM}.")
    allowed = {"srun"} if f"{name}.".startswith(f"{BATCH_SCRIPTS}.") else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and STARTS.search(ast.unparse(node.func)):
            found += [f"line {node.lineno}: starts a process"] if of_slurm else []
            found += [f"line {at}: starts {word}" for at, word in _words(node, prose=True)]
    found += [f"line {at}: {word}" for at, word in _words(tree, prose=False) if word not in allowed]
    return sorted(set(found))


def commands_in_text(path: Path, text: str) -> list[str]:
    """The same of a file that is no Python; what follows `#` in a shell script is for its readers."""
    allowed = {"srun"} if path.as_posix().endswith(PROBE_SCRIPT) else set()
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        code = re.sub(r"(^|\s)#.*", "", line) if path.suffix == ".sh" else line
        found += [f"line {number}: {word}" for word in _WORD.findall(code) if word not in allowed]
    return found


def texts() -> Iterator[Path]:
    """Scripts and data of the packages, and the templates of recipes."""
    for base in PACKAGES.values():
        for path in sorted(base.rglob("*")):
            if path.suffix in TEXTS or (path.suffix == ".py" and "template" in path.parts):
                yield path


def _words(tree: ast.AST, *, prose: bool) -> Iterator[tuple[int, str]]:
    """(line, command) of every text below, docstrings left out; `prose`: also of sentences for people, which may name commands."""
    skipped = _docstrings(tree)
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call) and not prose and getattr(node.func, "id", "") in PROSE:
            continue
        if (text := _text(node)) is not None:
            if id(node) not in skipped:
                yield from ((getattr(node, "lineno", 0), word) for word in _WORD.findall(text))
            continue
        pending += ast.iter_child_nodes(node)


def _text(node: ast.AST) -> str | None:
    """A text that is written out, also in parts: `"s" + "batch"`."""
    if isinstance(node, ast.Constant):
        value = node.value
        return value if isinstance(value, str) else value.decode("latin-1") if isinstance(value, bytes) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left), _text(node.right)
        return None if left is None or right is None else left + right
    return None


def _docstrings(tree: ast.AST) -> set[int]:
    """The ids of constants that stand alone as statements."""
    return {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
