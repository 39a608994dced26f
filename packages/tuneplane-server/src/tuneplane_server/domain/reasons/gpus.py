"""Cards, drivers, CUDA and its libraries. Wordings: CUDA's cudaGetErrorString, PyTorch's c10/cuda and torch/cuda, vLLM."""

from __future__ import annotations

from tuneplane.i18n import N_
from tuneplane_server.domain.reasons.entry import ReasonEntry, Weight, anywhere, raised

ENTRIES = (
    ReasonEntry(
        "gpu-out-of-memory",
        "user",
        N_("the GPU ran out of memory"),
        N_("lower the batch size per device or the sequence length, use gradient checkpointing, or more GPUs"),
        retry=False,
        signs=(
            anywhere(r"(?:CUDA|HIP|XPU|NPU) out of memory"),
            anywhere(r"torch\.(?:cuda\.)?OutOfMemoryError"),
            anywhere(
                r"CUDA (?:driver )?error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|Cuda failure (?:2 )?'out of memory'"
            ),
            anywhere(r"CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED"),
            anywhere(r"No available memory for the cache blocks|less than desired GPU memory utilization"),
        ),
        seen="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 324.00 MiB. GPU 0 has a total capacity of 79.10 GiB of which 91.25 MiB is free.",
    ),
    ReasonEntry(
        "gpu-failed",
        "infra",
        N_("a GPU reported an error"),
        N_("look at the node's kernel log for Xid messages and take the card out of use"),
        retry=True,
        signs=(
            anywhere(
                r"uncorrectable (?:ECC|NVLink) error|CUDA_ERROR_ECC_UNCORRECTABLE|CUDA_ERROR_NVLINK_UNCORRECTABLE"
            ),
            anywhere(r"NVRM: Xid|GPU is lost|[Ff]allen off the bus"),
            anywhere(
                r"CUDA error: (?:unknown error|system not yet initialized|hardware stack error|device is lost|the launch timed out)"
            ),
        ),
        seen="torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",
    ),
    ReasonEntry(
        "gpu-driver-mismatch",
        "infra",
        N_("the GPU driver of the node does not fit the CUDA of the training image"),
        N_("update the driver on the node, or use an image built for the CUDA version that nvidia-smi shows there"),
        retry=False,
        signs=(
            anywhere(r"The NVIDIA driver on your system is too old"),
            anywhere(r"CUDA driver version is insufficient for CUDA runtime version"),
            anywhere(r"forward compatibility was attempted on non supported HW"),
            anywhere(r"provided PTX was compiled with an unsupported toolchain"),
            anywhere(r"[Dd]river/library version mismatch"),
        ),
        seen="RuntimeError: The NVIDIA driver on your system is too old (found version 12080).",
    ),
    ReasonEntry(
        "gpu-missing",
        "infra",
        N_("the run sees no GPU"),
        N_(
            "submit with a profile that has GPUs, and do not set CUDA_VISIBLE_DEVICES yourself; when the run did ask for GPUs, check nvidia-smi on the node"
        ),
        retry=True,
        signs=(
            anywhere(
                r"Found no NVIDIA driver on your system|No CUDA GPUs are available|no CUDA-capable device is detected"
            ),
            anywhere(r"CUDA error: invalid device ordinal"),
        ),
        seen="RuntimeError: No CUDA GPUs are available",
    ),
    ReasonEntry(
        "gpu-build-missing",
        "user",
        N_("torch of the training image was built without CUDA"),
        N_(
            "use an image with a CUDA build of torch, or run on a profile without GPUs and keep .cuda() out of the script"
        ),
        retry=False,
        signs=(raised(r"AssertionError: Torch not compiled with CUDA enabled"),),
        seen="AssertionError: Torch not compiled with CUDA enabled",
    ),
    ReasonEntry(
        "gpu-architecture-unsupported",
        "user",
        N_("the training image holds no code for this model of GPU"),
        N_("use an image whose torch and extensions are built for the card's compute capability, or another profile"),
        retry=False,
        signs=(
            anywhere(r"no kernel image is available for execution on the device"),
            anywhere(r"FlashAttention only supports \w{1,40} GPUs or newer"),
        ),
        seen="RuntimeError: CUDA error: no kernel image is available for execution on the device",
    ),
    ReasonEntry(
        "gpu-assertion-failed",
        "user",
        N_("a check inside a GPU kernel failed"),
        N_(
            "most often a token id or a label is out of range: run a few steps with CUDA_LAUNCH_BLOCKING=1 in the environment, or on the CPU, to see which line it is"
        ),
        retry=False,
        signs=(anywhere(r"device-side assert triggered|CUDA_ERROR_ASSERT"),),
        seen="RuntimeError: CUDA error: device-side assert triggered",
    ),
    ReasonEntry(
        "gpu-memory-fault",
        "user",
        N_("a GPU kernel touched memory that is not its own"),
        N_(
            "a custom kernel (flash attention, Triton, a compiled extension) that does not fit torch or the card does this; if different experiments fail so on one node only, have its card checked"
        ),
        retry=True,
        signs=(
            anywhere(r"an illegal memory access was encountered|CUDA_ERROR_ILLEGAL_ADDRESS"),
            anywhere(
                r"CUDA error: (?:misaligned address|unspecified launch failure|an illegal instruction was encountered)"
            ),
        ),
        seen="RuntimeError: CUDA error: an illegal memory access was encountered",
    ),
    ReasonEntry(
        "gpu-library-failed",
        "user",
        N_("a GPU library failed (cuDNN, cuBLAS, cuSOLVER)"),
        N_(
            "try a smaller batch first, because a card short of memory shows like this too; else pin libraries that fit torch"
        ),
        retry=True,
        signs=(
            anywhere(r"cuDNN error: CUDNN_STATUS_|CUDNN_STATUS_[A-Z_]{3,60}"),
            anywhere(r"CUDA error: CUBLAS_STATUS_|cusolver error: CUSOLVER_STATUS_|cuSPARSE error: CUSPARSE_STATUS_"),
        ),
        seen="RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
    ),
    ReasonEntry(
        "precision-unsupported",
        "user",
        N_("the number format that was asked for does not work on this device"),
        N_("bf16 needs an Ampere GPU or newer and fp16 any GPU; on the CPU set use_cpu: true and bf16: false"),
        retry=False,
        signs=(
            raised(r"\w{1,60}: Your setup doesn't support bf16"),
            raised(r"ValueError: .{0,60}mixed precision requires"),
            raised(r"ValueError: .{0,60}[Bb]float16 is only supported on GPUs"),
            raised(r"RuntimeError: \S{1,80} not implemented for '(?:Half|BFloat16|Float8_\w{1,20})'"),
        ),
        seen="ValueError: Your setup doesn't support bf16/gpu.",
    ),
    ReasonEntry(
        "extension-build-failed",
        "user",
        N_("a compiled extension could not be built in the training image"),
        N_(
            "use an image with the compiler, ninja and the CUDA toolkit (a devel image), or one with the extension already built"
        ),
        retry=False,
        signs=(
            raised(r"RuntimeError: (?:Error building extension|Ninja is required to load)"),
            raised(r"(?:OSError|MissingCUDAException): CUDA_HOME "),
            raised(
                r"(?:BackendCompilerFailed|InductorError|RuntimeError): .{0,300}(?:Failed to find C compiler|InvalidCxxCompiler)"
            ),
            anywhere(r"Failed to find C compiler", Weight.RAISED),
        ),
        seen="RuntimeError: Error building extension 'cpu_adam'",
    ),
)
