"""What one rank or worker says of another. Mostly the consequence of a cause that stands elsewhere in the log.

Wordings: PyTorch's ProcessGroupNCCL, NCCLUtils, TCPStore and gloo; torch.distributed.elastic; Ray.
"""

from __future__ import annotations

from tuneplane.i18n import N_
from tuneplane_server.domain.reasons.entry import ReasonEntry, Weight, anywhere

ENTRIES = (
    ReasonEntry(
        "communication-timeout",
        "infra",
        N_("a collective operation did not finish in time: the ranks waited for one that did not come"),
        N_(
            "look for the rank that is missing in the log: it was slower, took another path in the code, or hung. Raise ddp_timeout only for steps that really take so long"
        ),
        retry=True,
        signs=(
            anywhere(r"Watchdog caught collective operation timeout", Weight.CONSEQUENCE),
            anywhere(r"Timed out waiting \d{1,12}ms for (?:recv|send) operation", Weight.CONSEQUENCE),
            anywhere(r"wait timeout after \d{1,12}ms|DistStoreError: Socket Timeout", Weight.CONSEQUENCE),
        ),
        seen="[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=64214, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600081 milliseconds before timing out.",
    ),
    ReasonEntry(
        "rendezvous-failed",
        "infra",
        N_("the ranks did not find each other at the start"),
        N_(
            "check that every machine of the run started, and that the others reach TUNEPLANE_MAIN_PROCESS_IP and its port: firewall, network interface (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME)"
        ),
        retry=True,
        signs=(
            anywhere(r"waiting for clients\. \d{1,6}/\d{1,6} clients joined", Weight.CONSEQUENCE),
            anywhere(r"Rendezvous(?:Timeout|Connection|Closed)Error", Weight.CONSEQUENCE),
            anywhere(r"The client socket has (?:failed to connect|timed out after)", Weight.CONSEQUENCE),
        ),
        seen="torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.",
    ),
    ReasonEntry(
        "rank-lost",
        "infra",
        N_("a rank lost its connection to another one"),
        N_("the other rank ended, or the network between the machines broke: its own last lines say which"),
        retry=True,
        signs=(
            anywhere(r"gloo\S{0,200}\] .{0,200}Connection (?:closed|reset) by peer", Weight.CONSEQUENCE),
            anywhere(r"ncclRemoteError|remote process exited or there was a network error", Weight.CONSEQUENCE),
            anywhere(r"Connection was likely closed\. Did the remote server shutdown or crash", Weight.CONSEQUENCE),
            anywhere(
                r"NET/IB : Got completion from peer|NET/Socket : .{0,100}Connection (?:closed|reset)",
                Weight.CONSEQUENCE,
            ),
        ),
        seen="ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    ),
    ReasonEntry(
        "communication-failed",
        "infra",
        N_("the ranks lost each other (NCCL or Gloo)"),
        N_("the first rank that failed shows the cause; often the network, or another rank out of memory"),
        retry=True,
        signs=(
            anywhere(
                r"NCCL error|ncclSystemError|ncclInternalError|ncclUnhandledCudaError|ncclInvalid", Weight.CONSEQUENCE
            ),
            anywhere(
                r"Some NCCL operations have failed|DistBackendError|failed to recv, got 0 bytes", Weight.CONSEQUENCE
            ),
            anywhere(
                r"gloo\S{0,200}\] .{0,200}(?:Connection refused|No route to host|enforce fail)", Weight.CONSEQUENCE
            ),
            anywhere(r"NCCL WARN ", Weight.LAST_RESORT),
        ),
        seen="torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, unhandled system error (run with NCCL_DEBUG=INFO for details)",
    ),
    ReasonEntry(
        "worker-died",
        "user",
        N_("a worker process of the trainer ended without a word"),
        N_(
            "want of memory is the usual cause; set the number of data loader workers to 0 once to see the error itself"
        ),
        retry=True,
        signs=(
            anywhere(r"DataLoader worker \(pid(?:\(s\))? [\d, ]{1,200}\) exited unexpectedly", Weight.CONSEQUENCE),
            anywhere(r"ActorDiedError|The actor died unexpectedly|WorkerCrashedError", Weight.CONSEQUENCE),
            anywhere(r"A process in the process pool was terminated abruptly|BrokenProcessPool", Weight.CONSEQUENCE),
            anywhere(r"One of the subprocesses has abruptly died during map operation", Weight.CONSEQUENCE),
        ),
        seen="RuntimeError: DataLoader worker (pid(s) 21067) exited unexpectedly",
    ),
)
