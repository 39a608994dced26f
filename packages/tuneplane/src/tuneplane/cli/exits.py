"""Exit codes of `tp`, the same for every command."""

from __future__ import annotations

OK = 0
FAILED = 1  # it was tried and did not work; also: the job that was waited for did not succeed
USAGE = 2  # the command line is wrong
REFUSED = 3  # the lab, the experiment or the submission is refused, with every reason
NOT_SIGNED_IN = 4
UNREACHABLE = 5  # no console, or what answers is none
INTERRUPTED = 130  # Ctrl-C
BROKEN_PIPE = 141  # the reader of the output went away
