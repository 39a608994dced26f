"""The pools of a job as its roles see them: `train`, and `rollout` where generation has machines of its own."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Tuple

TRAIN = "train"
ROLLOUT = "rollout"


class Pools:
    """`pools` and `roles` as in the JobSpec's `spec.resources`. A role that is not mapped lives in the first pool."""

    def __init__(self, pools: Any, roles: Mapping[str, str]) -> None:
        self._pools = {str(pool.get("name", "main")): pool for pool in pools}
        self._first = next(iter(self._pools))
        self._roles: Dict[str, str] = dict(roles)

    @property
    def separate(self) -> bool:
        """Training and generation have different machines."""
        return self._name(TRAIN) != self._name(ROLLOUT)

    def shape(self, role: str) -> Tuple[int, int]:
        """(machines, GPUs of each) of the role's pool."""
        pool = self._pools[self._name(role)]
        return int(pool["nodes"]), int(pool["gpus_per_node"])

    def gpus(self, role: str) -> int:
        nodes, gpus = self.shape(role)
        return nodes * gpus

    def _name(self, role: str) -> str:
        return self._roles.get(role, self._roles.get(TRAIN, self._first))


def pools_of(capsule: Mapping[str, Any]) -> Pools:
    resources = capsule["jobspec"]["spec"]["resources"]
    return Pools(resources["pools"], resources.get("roles") or {})
