"""What can be wrong with recipes, locks and parameters, found by `tp` and again by admission."""

from __future__ import annotations

from tuneplane.i18n import N_
from tuneplane_server.web.problem_table.entry import ProblemEntry, ProblemGroup

RECIPES = ProblemGroup(
    "recipes",
    N_("Recipes, locks and parameters"),
    (
        ProblemEntry(
            "method-unknown",
            N_("no recipe here has this method"),
            N_("see what there is with tp methods"),
        ),
        ProblemEntry(
            "lock-missing",
            N_("the experiment has no recipe.lock.json"),
            N_("write one with tp recipe lock"),
        ),
        ProblemEntry(
            "lock-invalid",
            N_("recipe.lock.json cannot be read or has not the form of a lock"),
            N_("write it anew with tp recipe lock"),
        ),
        ProblemEntry(
            "lock-tampered",
            N_("recipe.lock.json was changed by hand: its digests do not belong together"),
            N_("write it anew with tp recipe lock"),
        ),
        ProblemEntry(
            "lock-stale",
            N_("the lock is of another version of the recipe than the catalog has"),
            N_("look at what changed with tp recipe diff, then lock again with tp recipe lock"),
        ),
        ProblemEntry(
            "lock-runtime-changed",
            N_(
                "the recipe's runtime matrix changed since the lock was written; what an experiment is bound to did not"
            ),
            N_("take the change over with tp recipe lock or tp recipe upgrade"),
        ),
        ProblemEntry(
            "lock-foreign",
            N_("the lock was written in a form of another client"),
            N_("lock again with tp recipe lock"),
        ),
        ProblemEntry(
            "runtime-removed",
            N_("the recipe no longer offers the version of the framework that the lock names"),
            N_("lock again with tp recipe lock"),
        ),
        ProblemEntry(
            "catalog-mismatch",
            N_(
                "client and console have different recipes of this name, or the files of one are not what its digest says"
            ),
            N_("use the client of the console's version, or have the damaged installation repaired"),
        ),
        ProblemEntry(
            "recipe-invalid",
            N_("a recipe of an organisation is not sound, or its directory is not there"),
            N_("mend what is named, and check the directory with tp recipe compile"),
        ),
        ProblemEntry(
            "recipe-clash",
            N_("two recipes have the same name, or two schemas the same version"),
            N_("give the organisation's own another name"),
        ),
        ProblemEntry(
            "param-unknown",
            N_("the recipe has no such parameter"),
            N_("take the nearest name that is shown, or look with tp methods"),
        ),
        ProblemEntry(
            "param-type",
            N_("a parameter's value is of the wrong type"),
            N_("give a value of the type that is named"),
        ),
        ProblemEntry(
            "param-range",
            N_("a parameter's value is outside its range"),
            N_("give a value within the range that is named"),
        ),
        ProblemEntry(
            "param-choice",
            N_("a parameter's value is none of its choices"),
            N_("take one of the choices that are named"),
        ),
        ProblemEntry(
            "param-required",
            N_("a parameter that the recipe needs is not set"),
            N_("set it in config.yaml or with --set"),
        ),
        ProblemEntry(
            "key-platform-owned",
            N_("the platform sets this key itself"),
            N_("take it out of config.yaml and use the option that is named"),
        ),
        ProblemEntry(
            "number-not-finite",
            N_("NaN or an infinity stands where a number must be finite"),
            N_("give a finite number"),
        ),
    ),
)
