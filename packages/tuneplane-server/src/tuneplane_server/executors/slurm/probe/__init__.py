"""The probe: one tiny job in each partition, which tells what only a compute node can know of itself."""

from tuneplane_server.executors.slurm.probe.running import ProbeRequest, probe

__all__ = ["ProbeRequest", "probe"]
