"""`python -m tests.services.cluster_end OWNER`: end the network of this owner: all that runs in its machines, the machines, the cable."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.services.cluster_machine import inhabitants, kill_all, marked


def main(owner: str) -> None:
    for holder in marked(owner):
        # The holder last: without it nobody finds the others.
        kill_all(lambda home=holder: [item for item in inhabitants(home) if item != home])
        kill_all(lambda home=holder: [home] if home.alive() else [])
    listed = subprocess.run(
        ["ip", "-json", "link", "show", "type", "veth"], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    for cable in json.loads(listed or "[]"):
        if cable.get("address") == owner:
            subprocess.run(["ip", "link", "delete", cable["ifname"]], check=False, capture_output=True, timeout=60)


if __name__ == "__main__":
    main(sys.argv[1])
