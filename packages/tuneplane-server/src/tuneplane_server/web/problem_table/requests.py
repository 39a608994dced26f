"""What can be wrong with a request, whatever it asks for, and what can be wrong with the console."""

from __future__ import annotations

from tuneplane.i18n import N_
from tuneplane_server.web.problem_table.entry import ProblemEntry, ProblemGroup

REQUESTS = ProblemGroup(
    "requests",
    N_("Accounts and requests"),
    (
        ProblemEntry(
            "not-signed-in",
            N_("nobody is signed in, or the session or token is over"),
            N_("sign in, or run tp login"),
        ),
        ProblemEntry(
            "token-invalid",
            N_("the token is unknown, revoked or expired"),
            N_("run tp login, or make a new token"),
        ),
        ProblemEntry(
            "forbidden",
            N_("you may not do this"),
            N_("ask an administrator, or use a token with the scope that is named"),
        ),
        ProblemEntry(
            "not-found",
            N_("it does not exist, or it is not yours to see"),
            N_("check the name or the id"),
        ),
        ProblemEntry(
            "conflict",
            N_("it cannot be done in the state that things are in now"),
            N_("read the present state, then decide"),
        ),
        ProblemEntry(
            "idempotency-conflict",
            N_("the Idempotency-Key was used for another request"),
            N_("use a new key for a new request"),
        ),
        ProblemEntry(
            "version-missing",
            N_("the change does not say which version it is of"),
            N_("read first, and send the version that was read"),
        ),
        ProblemEntry(
            "setup-needed",
            N_("the console has no user yet"),
            N_("open the set-up link that the console prints when it starts"),
        ),
        ProblemEntry(
            "user-needed",
            N_("without this user nobody could administer the console"),
            N_("give somebody else the right first"),
        ),
        ProblemEntry(
            "password-weak",
            N_("the password is too easy to guess"),
            N_("take a longer one"),
        ),
        ProblemEntry(
            "not-yet",
            N_("the device login was not confirmed yet"),
            N_("confirm it in the browser; the client asks again by itself"),
        ),
        ProblemEntry(
            "too-many-requests",
            N_("too many tries in a short time"),
            N_("wait as long as Retry-After says"),
        ),
        ProblemEntry(
            "request-invalid",
            N_("the request is not what the call expects"),
            N_("correct the fields that are named"),
        ),
        ProblemEntry(
            "method-not-allowed",
            N_("the address does not know the method of the request"),
            N_("look at the call's line in the API reference"),
        ),
        ProblemEntry(
            "media-type",
            N_("the body is in a form or compression that the call does not read"),
            N_("send the form that is named"),
        ),
        ProblemEntry(
            "too-large",
            N_("the body is larger than the call takes"),
            N_("send less at once"),
        ),
        ProblemEntry(
            "request-timeout",
            N_("the body of the request did not arrive in time"),
            N_("send it again"),
        ),
        ProblemEntry(
            "unavailable",
            N_("the console's database or store does not answer now"),
            N_("try again after Retry-After; the administrator finds the cause in the console's log"),
        ),
        ProblemEntry(
            "storage-full",
            N_("the console's disk is full or read-only"),
            N_("ask the administrator to make room; nothing was changed"),
        ),
        ProblemEntry(
            "internal-error",
            N_("the console failed in a way that nobody foresaw"),
            N_("give the reference that is shown to the administrator, who finds it in the console's log"),
        ),
    ),
)
