"""What quotas and policies refuse, and what can be wrong with themselves."""

from __future__ import annotations

from tuneplane.i18n import N_
from tuneplane_server.web.problem_table.entry import ProblemEntry, ProblemGroup

LIMITS = ProblemGroup(
    "limits",
    N_("Quotas and policies"),
    (
        ProblemEntry(
            "quota",
            N_("you have as many of these as anybody may have"),
            N_("remove one first"),
        ),
        ProblemEntry(
            "quota-never-fits",
            N_("the job asks for more than a quota ever allows"),
            N_("ask for less, or ask an administrator to raise the quota"),
        ),
        ProblemEntry(
            "quota-exceeded",
            N_("a quota is used up, and waiting alone does not mend it"),
            N_("end what you no longer need, or ask an administrator to raise the quota"),
        ),
        ProblemEntry(
            "quota-invalid",
            N_("the quota has a value that it cannot have"),
            N_("correct the field that is named"),
        ),
        ProblemEntry(
            "quota-contradictory",
            N_("two figures of a quota, or of a project and its owner, contradict each other"),
            N_("raise the larger one first, or lower the smaller one"),
        ),
        ProblemEntry(
            "duration-needed",
            N_("a quota counts GPU-hours, so the job must say how long it may run"),
            N_("add --max-duration"),
        ),
        ProblemEntry(
            "duration-over-limit",
            N_("the job asks to run longer than it may"),
            N_("ask for less with --max-duration"),
        ),
        ProblemEntry(
            "priority-over-limit",
            N_("the job asks for a higher priority than you may give"),
            N_("ask for a lower priority"),
        ),
        ProblemEntry(
            "profile-not-allowed",
            N_("your quota does not allow this profile"),
            N_("take one of the profiles that are named"),
        ),
        ProblemEntry(
            "image-not-allowed",
            N_("your quota does not allow this image"),
            N_("take an image of the allowed list"),
        ),
        ProblemEntry(
            "policy-invalid",
            N_("the policy has a value that it cannot have"),
            N_("correct the field that is named"),
        ),
        ProblemEntry(
            "policy-contradictory",
            N_("two settings of the policy contradict each other"),
            N_("change one of the two that are named"),
        ),
    ),
)
