"""A thin client of slurmrestd: one neutral model for what every supported version of its data says."""
