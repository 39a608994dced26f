"""Recorded bodies, cut to what matters.

v0.0.38 and v0.0.42: from slurmrestd of Debian's Slurm 22.05.8 and 24.11.5. v0.0.43 to v0.0.45 cannot run here: v0.0.42's values in the
fields of their OpenAPI documents (PyPI slurmrestapi 25.11.4 for v0.0.41 to v0.0.44; SlinkyProject/slurm-client
api/v0045/slurm-openapi.gen.json for v0.0.45).
"""

from __future__ import annotations

from typing import Any

type Body = dict[str, Any]


def number(value: int, *, is_set: bool = True, infinite: bool = False) -> Body:
    return {"set": is_set, "infinite": infinite, "number": value}


def end(status: str, code: int | None, signal: int | None = None, name: str = "") -> Body:
    """`exit_code` of v0.0.40 and newer."""
    return {
        "status": [status],
        "return_code": number(code or 0, is_set=code is not None),
        "signal": {"id": number(signal or 0, is_set=signal is not None), "name": name},
    }


JOB_38: Body = {
    "account": "acc",
    "batch_host": "n1",
    "comment": "tuneplane a 1",
    "cpus": 4,
    "current_working_directory": "/tmp",
    "eligible_time": 1796036708,
    "end_time": 1796037008,
    "exit_code": 0,
    "gres_detail": ["gpu:h200:4(IDX:0-3)", "gpu:h200:4(IDX:0-3)"],
    "het_job_id": 0,
    "het_job_id_set": "",
    "het_job_offset": 0,
    "job_id": 1,
    "job_resources": {
        "nodes": "n[1-2]",
        "allocated_hosts": 2,
        "allocated_nodes": [{"nodename": "n1"}, {"nodename": "n2"}],
    },
    "job_state": "RUNNING",
    "memory_per_node": 1000,
    "name": "tp-a-1-0",
    "node_count": 2,
    "nodes": "n[1-2]",
    "partition": "main",
    "priority": 4294901756,
    "qos": "normal",
    "requeue": True,
    "restart_cnt": 0,
    "start_time": 1796036708,
    "state_reason": "None",
    "submit_time": 1796036708,
    "tasks": 2,
    "time_limit": 5,
    "tres_alloc_str": "cpu=4,node=2,billing=4",
    "tres_per_node": "gres:gpu:h200:4",
    "tres_req_str": "cpu=4,mem=2000M,node=2,billing=4",
    "user_name": "tester",
}

JOB_42: Body = {
    "account": "",
    "batch_host": "n1",
    "comment": "tuneplane a 1",
    "cpus": number(4),
    "current_working_directory": "/tmp",
    "eligible_time": number(1796036708),
    "end_time": number(1796037008),
    "exit_code": end("SUCCESS", 0),
    "gres_detail": ["gpu:h200:4(IDX:0-3)", "gpu:h200:4(IDX:0-3)"],
    "het_job_id": number(0),
    "het_job_id_set": "",
    "het_job_offset": number(0),
    "job_id": 1,
    "job_resources": {"select_type": ["CORE"], "nodes": {"count": 2, "list": "n[1-2]"}, "cpus": 4},
    "job_state": ["RUNNING"],
    "memory_per_node": number(1000),
    "name": "tp-a-1-0",
    "node_count": number(2),
    "nodes": "n[1-2]",
    "partition": "main",
    "priority": number(1),
    "qos": "",
    "requeue": False,
    "restart_cnt": 0,
    "start_time": number(1796036708),
    "state_reason": "None",
    "submit_time": number(1796036708),
    "tasks": number(2),
    "time_limit": number(5),
    "tres_alloc_str": "cpu=4,node=2,billing=4",
    "tres_per_node": "gres/gpu:h200:4",
    "tres_req_str": "cpu=4,mem=2000M,node=2,billing=4",
    "user_name": "tester",
}

# What each version added to a job, as far as it could be mistaken for something that is read.
JOBS: dict[str, Body] = {
    "v0.0.38": JOB_38,
    "v0.0.40": JOB_42,
    "v0.0.41": JOB_42,
    "v0.0.42": JOB_42 | {"priority_by_partition": [], "job_size_str": ["2"]},
    "v0.0.43": JOB_42 | {"licenses_allocated": "", "segment_size": 0, "stdout_expanded": "/tmp/1.out"},
    "v0.0.44": JOB_42 | {"step_id": {"job_id": number(1), "step_id": "batch"}, "submit_line": "", "segment_size": 0},
    "v0.0.45": JOB_42
    | {"step_id": {"sluid": "s1", "job_id": number(1)}, "container_type": "", "memory_update_delay": 0},
}

ACCOUNTED_38: Body = {
    "account": "acc",
    "allocation_nodes": 2,
    "comment": {"administrator": None, "job": None, "system": None},
    "exit_code": {"status": "SUCCESS", "return_code": 0},  # of a job that ended with 7
    "het": {"job_id": 0, "job_offset": None},
    "job_id": 2,
    "name": "tp-a-1-0",
    "nodes": "n[1-2]",
    "partition": "main",
    "priority": 4294901758,
    "qos": "normal",
    "state": {"current": "FAILED", "reason": "None"},
    "time": {"eligible": 1796037805, "end": 1796037806, "start": 1796037806, "submission": 1796037805, "limit": 5},
    "tres": {
        "allocated": [
            {"type": "cpu", "name": None, "id": 1, "count": 2},
            {"type": "energy", "name": None, "id": 3, "count": None},
            {"type": "gres", "name": "gpu", "id": 1001, "count": 8},
            {"type": "gres", "name": "gpu:h200", "id": 1002, "count": 8},
        ],
        "requested": [{"type": "gres", "name": "gpu", "id": 1001, "count": 8}],
    },
    "user": "tester",
    "working_directory": "/tmp",
}

ACCOUNTED_42: Body = ACCOUNTED_38 | {
    "comment": {"administrator": "", "job": "tuneplane a 1", "system": ""},
    "exit_code": end("ERROR", 7),
    "het": {"job_id": 0, "job_offset": number(0, is_set=False)},
    "priority": number(1),
    "restart_cnt": 1,
    "state": {"current": ["FAILED"], "reason": "None"},
    "time": ACCOUNTED_38["time"] | {"limit": number(5)},
}

NODE_38: Body = {
    "name": "n1", "address": "127.0.0.1", "architecture": "x86_64", "cpus": 16, "real_memory": 64000, "gres": "gpu:h200:8",
    "gres_used": "gpu:h200:4(IDX:0-3)", "alloc_cpus": 2, "alloc_memory": 1000, "partitions": ["main", "small"], "reason": "",
    "state": "mixed", "state_flags": ["DRAIN"],
}  # fmt: skip

NODE_42: Body = NODE_38 | {
    "state": ["MIXED", "DRAIN"],
    "gres_used": "gpu:h200:4(IDX:0-3)",
    "last_busy": number(1796038487),
}
del NODE_42["state_flags"]

PARTITION_38: Body = {
    "name": "main", "flags": ["default"], "state": "UP", "max_time_limit": 60, "default_time_limit": 10,
    "maximum_nodes_per_job": -1, "nodes": "n[1-4]",
}  # fmt: skip

PARTITION_42: Body = {
    "name": "main",
    "nodes": {"allowed_allocation": "", "configured": "n[1-4]", "total": 4},
    "maximums": {"nodes": number(0, is_set=False, infinite=True), "time": number(60)},
    "defaults": {"time": number(10)},
    "partition": {"state": ["UP"]},
}
