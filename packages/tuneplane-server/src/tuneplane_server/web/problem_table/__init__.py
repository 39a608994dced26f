"""Every code that a refusal or an error answer can carry: what it means and what to do, whoever says it.

The console shows the table at `/docs/reference/problems`, where the `type` of each problem (RFC 9457) leads; `make problems`
writes the manual's page of it. What is wrong in the case at hand stands in the problem's own `detail` and `hint`.
"""

from __future__ import annotations

from tuneplane_server.web.problem_table.entry import ProblemEntry, ProblemGroup
from tuneplane_server.web.problem_table.lab import LAB
from tuneplane_server.web.problem_table.limits import LIMITS
from tuneplane_server.web.problem_table.recipes import RECIPES
from tuneplane_server.web.problem_table.requests import REQUESTS
from tuneplane_server.web.problem_table.submission import SUBMISSION

__all__ = ["GROUPS", "PAGE", "PROBLEMS", "ProblemEntry", "ProblemGroup"]

PAGE = "/docs/reference/problems"
GROUPS = (LAB, RECIPES, SUBMISSION, LIMITS, REQUESTS)
PROBLEMS = {entry.code: entry for group in GROUPS for entry in group.entries}
