"""Executor `slurm`: attempts as jobs of a Slurm cluster, through slurmrestd with a JSON Web Token and nothing else."""
