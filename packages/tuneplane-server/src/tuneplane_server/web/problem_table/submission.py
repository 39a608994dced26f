"""What can be wrong with a JobSpec where it meets this console: admission (docs/en/reference/admission)."""

from __future__ import annotations

from tuneplane.i18n import N_
from tuneplane_server.web.problem_table.entry import ProblemEntry, ProblemGroup

SUBMISSION = ProblemGroup(
    "submission",
    N_("JobSpec and admission"),
    (
        ProblemEntry(
            "spec-invalid",
            N_("the JobSpec asks for something that does not exist or does not go together"),
            N_("correct the field that is named"),
        ),
        ProblemEntry(
            "spec-unknown-field",
            N_("the JobSpec has a field that this console does not know"),
            N_("take it out, or bring client and console to the same version"),
        ),
        ProblemEntry(
            "project-foreign",
            N_("the project belongs to somebody else"),
            N_("submit to a project of your own"),
        ),
        ProblemEntry(
            "profile-unknown",
            N_("no machine here has this profile"),
            N_("take one of the profiles that are named"),
        ),
        ProblemEntry(
            "profile-invalid",
            N_("the profile is not written as profiles are"),
            N_("write name:GPUs, for example h200:8"),
        ),
        ProblemEntry(
            "pool-impossible",
            N_("no machine, or no set of machines, could ever hold this pool"),
            N_("ask for less, or for another profile"),
        ),
        ProblemEntry(
            "pool-heterogeneous",
            N_("the executor here runs only jobs of one pool"),
            N_("use one pool"),
        ),
        ProblemEntry(
            "roles-invalid",
            N_("roles and pools do not fit each other or the recipe"),
            N_("give every role of the recipe one pool, and every pool a role"),
        ),
        ProblemEntry(
            "runtime-unresolved",
            N_("nothing says which image or environment the runtime is"),
            N_("give --image, or have the administrator set the image of the framework or build the runtime"),
        ),
        ProblemEntry(
            "runtime-form",
            N_("the runtime has a form that the executor here cannot run"),
            N_(
                "give an image where containers run, a SIF or SQSH file on Slurm, and a Python environment in process mode"
            ),
        ),
        ProblemEntry(
            "runtime-registry",
            N_("the runtime registry file of the console cannot be used"),
            N_(
                "correct the line that is named; the console starts with a sound file only, and takes up a changed one by itself"
            ),
        ),
        ProblemEntry(
            "observability-url",
            N_("the recipe shows its curves elsewhere, and no address of them was given"),
            N_("add --observability-url"),
        ),
        ProblemEntry(
            "ingest-url",
            N_("jobs would report to an address that only the console's own machine can reach"),
            N_("have TUNEPLANE_INGEST_URL set to an address that the GPU machines reach"),
        ),
        ProblemEntry(
            "data-missing",
            N_("the data are not where the JobSpec says, or are not open to you"),
            N_("check the path or the name; in containers only what is mounted for jobs can be read"),
        ),
        ProblemEntry(
            "model-missing",
            N_("the model is not where the JobSpec says, or is not open to you"),
            N_("check the path, or the run and its checkpoint"),
        ),
        ProblemEntry(
            "env-reserved",
            N_("the environment variable belongs to the platform"),
            N_("take another name"),
        ),
        ProblemEntry(
            "secret-missing",
            N_("the job asks for a secret that this console does not have"),
            N_("take it out, or have it stored first"),
        ),
        ProblemEntry(
            "sandbox-missing",
            N_("the job needs a sandbox, and this console offers none"),
            N_("take another environment, or ask the administrator for a sandbox"),
        ),
        ProblemEntry(
            "limit-invalid",
            N_("a limit of the job is no duration, number or class that it can be"),
            N_("correct the value that is named"),
        ),
        ProblemEntry(
            "package-missing",
            N_("the package of the job is not on the console"),
            N_("submit with tp submit, which brings it first"),
        ),
        ProblemEntry(
            "evaluation-unreadable",
            N_("the run's evaluations/report.json is no report that this console can read"),
            N_("the text says what is wrong with it; evaluate again once that is mended"),
        ),
        ProblemEntry(
            "sweep-invalid",
            N_("what the sweep varies, how or how often does not go together"),
            N_("correct the field that is named; --dry-run shows the variants"),
        ),
        ProblemEntry(
            "sweep-too-large",
            N_("the sweep would have more trials than a sweep may have"),
            N_("take fewer values, or let a random or Bayesian search choose some of them"),
        ),
        ProblemEntry(
            "export-impossible",
            N_("the run's recipe, or the form in which it saved its weights, allows no such export"),
            N_("the text says what is in the way; tp job artifacts shows the checkpoints"),
        ),
        ProblemEntry(
            "checkpoint-missing",
            N_("there is no such checkpoint to go on from"),
            N_("see the checkpoints with tp job artifacts"),
        ),
        ProblemEntry(
            "checkpoint-incomplete",
            N_("the checkpoint lacks what a resumed run needs"),
            N_("take an earlier one that is complete"),
        ),
    ),
)
