"""What can be wrong with a lab and the package made of it. `tp` finds most of it before anything is sent."""

from __future__ import annotations

from tuneplane.i18n import N_
from tuneplane_server.web.problem_table.entry import ProblemEntry, ProblemGroup

LAB = ProblemGroup(
    "lab",
    N_("Lab and package"),
    (
        ProblemEntry(
            "lab-not-found",
            N_("there is no lab here: no tuneplane.yaml in this directory or above it"),
            N_("go into the lab, name it with TUNEPLANE_LAB, or make one with tp init"),
        ),
        ProblemEntry(
            "lab-invalid",
            N_("tuneplane.yaml, or a directory that the lab needs, is not what it should be"),
            N_("correct the line that is named"),
        ),
        ProblemEntry(
            "experiment-not-found",
            N_("the lab has no experiment of this name"),
            N_("see what there is with tp ls"),
        ),
        ProblemEntry(
            "experiment-exists",
            N_("an experiment of this name is there already"),
            N_("take another name"),
        ),
        ProblemEntry(
            "name-invalid",
            N_("the name is none that a lab, project, experiment or server can have"),
            N_("use letters, digits, dots, underscores and hyphens; begin with a letter or digit"),
        ),
        ProblemEntry(
            "file-missing",
            N_("a file that the experiment names or needs is not there"),
            N_("make the file, or correct the place that names it"),
        ),
        ProblemEntry(
            "yaml-invalid",
            N_("the file is no valid YAML"),
            N_("correct the line that is named"),
        ),
        ProblemEntry(
            "config-invalid",
            N_("the config cannot be used as it is: a key or its value has the wrong form"),
            N_("correct the line that is named; tp validate shows all of them"),
        ),
        ProblemEntry(
            "config-cycle",
            N_("config fragments inherit from each other in a circle"),
            N_("take one of the named files out of defaults"),
        ),
        ProblemEntry(
            "package-too-large",
            N_("the lab is larger than a package may be"),
            N_("keep data and checkpoints out of the lab, or exclude them"),
        ),
        ProblemEntry(
            "package-secret",
            N_("a file that is to be packed looks like a secret, by its name or by what is in it"),
            N_("take it out of the lab or exclude it; pass secrets by name"),
        ),
        ProblemEntry(
            "package-link",
            N_("a link in the lab leads out of it"),
            N_("replace the link by what it leads to, or exclude it"),
        ),
        ProblemEntry(
            "package-mismatch",
            N_("the bytes of the package are others than its digest says"),
            N_("submit again; if it stays so, something between you and the console changes what you send"),
        ),
    ),
)
