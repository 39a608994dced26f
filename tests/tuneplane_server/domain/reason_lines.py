"""Lines that programs print when they fail, by the reason they mean; each with the source that prints it.

What can be produced without a GPU is produced for real in tests/training/failures; the lines here are for the signs themselves,
and for what needs cards, drivers, other machines or a hub.
"""

from __future__ import annotations

# code -> source -> lines. A line is a whole line of a log; where only the exception counts, the traceback above it is left out.
LINES: dict[str, dict[str, tuple[str, ...]]] = {
    "gpu-out-of-memory": {
        "PyTorch c10/cuda/CUDACachingAllocator.cpp": (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 324.00 MiB. GPU 0 has a total capacity of 7.63 GiB of which 91.25 MiB is free. Including non-PyTorch memory, this process has 7.52 GiB memory in use.",
            "RuntimeError: HIP out of memory. Tried to allocate 2.00 GiB",
        ),
        "PyTorch before 2.5": ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 190.00 MiB.",),
        "CUDA cudaGetErrorString(2)": ("RuntimeError: CUDA error: out of memory", "CUDA driver error: out of memory"),
        "NCCL src/include/checks.h": ("Cuda failure 2 'out of memory'",),
        "PyTorch aten/src/ATen/cuda/CUDABlas.cpp": (
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        ),
        "vLLM v1/core/kv_cache_utils.py": (
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
        ),
    },
    "gpu-failed": {
        "CUDA cudaGetErrorString(214)": ("torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",),
        "NVIDIA driver, kernel log (docs.nvidia.com/deploy/xid-errors)": (
            "NVRM: Xid (PCI:0000:06:00): 79, pid=2031, GPU has fallen off the bus.",
        ),
        "nvidia-smi": ("Unable to determine the device handle for GPU0000:4F:00.0: GPU is lost.  Reboot the system.",),
        "CUDA cudaGetErrorString(802)": (
            "RuntimeError: CUDA error: system not yet initialized",
            "RuntimeError: CUDA error: unknown error",
        ),
    },
    "gpu-driver-mismatch": {
        "PyTorch c10/cuda/CUDAFunctions.cpp": (
            "RuntimeError: The NVIDIA driver on your system is too old (found version 12080). Please update your GPU driver by downloading and installing a new version",
            "UserWarning: CUDA initialization: CUDA driver version is insufficient for CUDA runtime version (Triggered internally at CUDAFunctions.cpp:109.)",
        ),
        "CUDA cudaGetErrorString(804)": (
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was attempted on non supported HW",
        ),
        "CUDA cudaGetErrorString(222)": (
            "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.",
        ),
        "nvidia-smi": ("Failed to initialize NVML: Driver/library version mismatch",),
    },
    "gpu-missing": {
        "PyTorch torch/csrc/cuda, c10/cuda": (
            "RuntimeError: No CUDA GPUs are available",
            "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
        ),
        "CUDA cudaGetErrorString(101)": ("RuntimeError: CUDA error: invalid device ordinal",),
    },
    "gpu-architecture-unsupported": {
        "CUDA cudaGetErrorString(209)": (
            "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        ),
        "flash-attention csrc/flash_attn/flash_api.cpp": (
            "RuntimeError: FlashAttention only supports Ampere GPUs or newer.",
        ),
    },
    "gpu-assertion-failed": {
        "CUDA cudaGetErrorString(710)": ("RuntimeError: CUDA error: device-side assert triggered",),
    },
    "gpu-memory-fault": {
        "CUDA cudaGetErrorString(700)": ("RuntimeError: CUDA error: an illegal memory access was encountered",),
        "CUDA cudaGetErrorString(719)": ("RuntimeError: CUDA error: unspecified launch failure",),
    },
    "gpu-library-failed": {
        "PyTorch aten/src/ATen/cudnn/Exceptions.h": ("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",),
        "PyTorch aten/src/ATen/cuda/Exceptions.h": (
            "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle, opa, opb)`",
        ),
    },
    "precision-unsupported": {
        "transformers training_args.py": (
            "ValueError: Your setup doesn't support bf16/gpu. You need to assign use_cpu if you want to train the model on CPU.",
        ),
        "accelerate accelerator.py": ("ValueError: fp16 mixed precision requires a GPU (not 'cpu').",),
        "vLLM platforms/cuda.py": (
            "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.",
        ),
        "PyTorch aten/src/ATen/Dispatch.h": ("RuntimeError: \"addmm_impl_cpu_\" not implemented for 'Half'",),
    },
    "extension-build-failed": {
        "PyTorch torch/utils/cpp_extension.py": (
            "RuntimeError: Error building extension 'cpu_adam'",
            "RuntimeError: Ninja is required to load C++ extensions (pip install ninja to get it)",
            "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.",
        ),
        "Triton runtime/build.py": (
            "RuntimeError: Failed to find C compiler. Please specify via CC environment variable or set triton.knobs.build.impl.",
        ),
        "PyTorch torch/_inductor/exc.py": (
            "torch._inductor.exc.InductorError: RuntimeError: InvalidCxxCompiler: No working C++ compiler found",
        ),
    },
    "communication-timeout": {
        "PyTorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp": (
            "[rank0]:[E1218 20:27:21.426415540 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=BROADCAST, NumelIn=131072000, NumelOut=131072000, Timeout(ms)=600000) ran for 600081 milliseconds before timing out.",
        ),
        "gloo transport/tcp/unbound_buffer.cc": (
            "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 1800000ms for recv operation to complete",
        ),
        "PyTorch torch/csrc/distributed/c10d/TCPStore.cpp": (
            "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cuda//timeout_dump",
        ),
    },
    "rendezvous-failed": {
        "PyTorch torch/csrc/distributed/c10d/TCPStore.cpp": (
            "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.",
        ),
        "PyTorch torch/csrc/distributed/c10d/socket.cpp": (
            "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to (10.0.0.5, 29500).",
        ),
        "PyTorch torch/distributed/elastic/rendezvous": (
            "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        ),
    },
    "rank-lost": {
        "PyTorch torch/csrc/distributed/c10d/NCCLUtils.cpp": (
            "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        ),
        "gloo transport/tcp/pair.cc": (
            "RuntimeError: [gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:59542: Connection reset by peer. This is typically caused by a remote worker hanging or bugs in the application.",
        ),
        "PyTorch torch/csrc/distributed/c10d/Utils.hpp": (
            "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?",
        ),
        "NCCL src/transport/net_ib.cc": (
            "NET/IB : Got completion from peer 10.42.0.2<47534> with error 5, opcode 48, len 32764, vendor err 244",
        ),
    },
    "communication-failed": {
        "PyTorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp": (
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.26.2",
            "[rank1]:[E1218 20:27:21.484966856 ProcessGroupNCCL.cpp:681] [Rank 1] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.",
        ),
        "gloo transport/tcp/pair.cc": (
            "RuntimeError: [gloo/transport/tcp/pair.cc:144] no error, connect [10.0.0.5]:41225: Connection refused",
        ),
        "NCCL": (
            "node-1:178:828 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.5<41225> failed",
        ),
    },
    "worker-died": {
        "PyTorch torch/utils/data/dataloader.py": (
            "RuntimeError: DataLoader worker (pid(s) 21067, 21068) exited unexpectedly",
        ),
        "Ray python/ray/exceptions.py": (
            "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
        ),
        "CPython concurrent/futures/process.py": (
            "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while the future was running or pending.",
        ),
        "datasets utils/py_utils.py": ("RuntimeError: One of the subprocesses has abruptly died during map operation.",),
    },
    "too-many-open-files": {"CPython": ("OSError: [Errno 24] Too many open files: '/data/part-7.parquet'",)},
    "shared-memory-full": {
        "PyTorch torch/utils/data/_utils/signal_handling.py": (
            "RuntimeError: DataLoader worker (pid 229) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
            "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        ),
        "PyTorch aten/src/ATen/MapAllocator.cpp": (
            "RuntimeError: unable to write to file </torch_63792_2473652340_0>: No space left on device (28)",
            "RuntimeError: unable to allocate shared memory(shm) for file </torch_7303_837779462_0>: No space left on device (28)",
        ),
        "NCCL src/misc/shmutils.cc": (
            "node-1:93:93 [0] misc/shmutils.cc:80 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-xyz (size 9637888)",
            "tar: /dev/shm/nccl-1: No space left on device",
        ),
    },
    "out-of-memory": {
        "PyTorch c10/core/impl/alloc_cpu.cpp": (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)",
        ),
        "PyTorch torch/utils/data/dataloader.py": (
            "RuntimeError: DataLoader worker (pid 21067) is killed by signal: Killed.",
        ),
        "libstdc++": ("terminate called after throwing an instance of 'std::bad_alloc'",),
        "Linux, kernel log": (
            "Memory cgroup out of memory: Killed process 2031 (python3) total-vm:91234kB",
            "Out of memory: Killed process 2031 (python3)",
        ),
        "Slurm slurmstepd": (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.",
        ),
        "Ray": (
            "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        ),
        "NumPy": (
            "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 64.0 GiB for an array with shape (8, 4)",
        ),
        "CPython": ("MemoryError", "OSError: [Errno 12] Cannot allocate memory"),
    },
    "disk-quota-exceeded": {"CPython": ("OSError: [Errno 122] Disk quota exceeded: 'out/model.safetensors'",)},
    "disk-full": {
        "CPython": ("OSError: [Errno 28] No space left on device",),
        "safetensors": (
            "safetensors_rust.SafetensorError: Error while serializing: I/O error: No space left on device (os error 28)",
        ),
    },
    "storage-read-only": {
        "CPython": ("OSError: [Errno 30] Read-only file system: '/data/cache.arrow'",),
        "PyTorch caffe2/serialize/inline_container.cc": (
            "RuntimeError: [enforce fail at inline_container.cc:747] . open file failed with strerror: Read-only file system",
        ),
    },
    "storage-failed": {
        "CPython": (
            "OSError: [Errno 116] Stale file handle",
            "OSError: [Errno 5] Input/output error: 'out/checkpoints'",
        ),
        "dash": ("sh: 0: cannot open /srv/tuneplane/jobs/x/attempts/1/capsule/bootstrap.sh: No such file",),
        "bash": ("bash: /srv/tuneplane/jobs/x/attempts/1/capsule/bootstrap.sh: No such file or directory",),
    },
    "write-failed": {
        "PyTorch caffe2/serialize/inline_container.cc": (
            "RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534",
            "RuntimeError: PytorchStreamWriter failed writing file data/0: file write failed",
        ),
        "libstdc++": ("RuntimeError: basic_ios::clear: iostream error",),
    },
    "file-too-large": {"CPython": ("OSError: [Errno 27] File too large",)},
    "process-limit": {
        "CPython": (
            "RuntimeError: can't start new thread",
            "BlockingIOError: [Errno 11] Resource temporarily unavailable",
        ),
        "bash": ("bash: fork: retry: Resource temporarily unavailable",),
        "OpenBLAS": (
            "OpenBLAS blas_thread_init: pthread_create failed for thread 12 of 64: Resource temporarily unavailable",
        ),
    },
    "port-taken": {
        "PyTorch torch/csrc/distributed/c10d/socket.cpp": (
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 37845, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        ),
        "CPython": ("OSError: [Errno 98] Address already in use",),
        "uvicorn": (
            "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use",
        ),
    },
    "network-failed": {
        "CPython": (
            "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>",
            "ConnectionResetError: [Errno 104] Connection reset by peer",
        ),
        "curl": ("curl: (6) Could not resolve host: data.example.org",),
    },
    "hub-unauthorized": {
        "huggingface_hub errors.py": ("huggingface_hub.errors.GatedRepoError: 401 Client Error.",),
        "transformers utils/hub.py": ("OSError: You are trying to access a gated repo.",),
        "datasets load.py": (
            "datasets.exceptions.DatasetNotFoundError: Dataset 'org/data' is a gated dataset on the Hub. You must be authenticated to access it.",
        ),
        "huggingface_hub utils/_http.py": (
            "huggingface_hub.errors.HfHubHTTPError: 403 Forbidden: Authorization error..",
            "huggingface_hub.errors.HfHubHTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/api/whoami-v2",
        ),
        "huggingface_hub _login.py": ("ValueError: Invalid user token.",),
    },
    "hub-rate-limited": {
        "huggingface_hub utils/_http.py": (
            "huggingface_hub.errors.HfHubHTTPError: 429 Too Many Requests for url: https://huggingface.co/org/model/resolve/main/config.json.",
        ),
    },
    "hub-unreachable": {
        "transformers utils/hub.py": (
            "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.",
        ),
        "datasets load.py": ("ConnectionError: Couldn't reach 'org/data' on the Hub (LocalEntryNotFoundError)",),
        "huggingface_hub utils/_http.py": (
            "huggingface_hub.errors.HfHubHTTPError: 503 Server Error: Service Unavailable for url: https://huggingface.co/api/models/org/model",
        ),
        "requests": (
            "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /org/model",
        ),
    },
    "checkpoint-missing": {
        "transformers trainer.py": (
            "ValueError: Can't find a valid checkpoint at out/checkpoints/checkpoint-9",
            "ValueError: No valid checkpoint found in output directory (out/checkpoints)",
        ),
        "CPython": (
            "FileNotFoundError: [Errno 2] No such file or directory: 'out/checkpoints/checkpoint-40/trainer_state.json'",
        ),
    },
    "checkpoint-incompatible": {
        "PyTorch torch/nn/modules/module.py": (
            "RuntimeError: Error(s) in loading state_dict for LlamaForCausalLM:",
            "RuntimeError: Unexpected key(s) in state_dict: \"lm_head.bias\".",
        ),
        "PyTorch torch/optim/optimizer.py": (
            "ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
        ),
        "transformers modeling_utils.py": (
            "RuntimeError: You set `ignore_mismatched_sizes` to `False`, thus raising an error.",
        ),
        "PyTorch torch/serialization.py": (
            "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded",
        ),
    },
    "checkpoint-corrupt": {
        "PyTorch caffe2/serialize/inline_container.cc": (
            "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory.",
        ),
        "safetensors": (
            "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered",
        ),
        "CPython": (
            "_pickle.UnpicklingError: invalid load key, '<'.",
            "EOFError: Ran out of input",
            "zipfile.BadZipFile: File is not a zip file",
        ),
        "PyTorch torch/serialization.py": ("RuntimeError: Invalid magic number; corrupt file?",),
        "transformers modeling_utils.py": (
            "OSError: Unable to load weights from pytorch checkpoint file for 'm/pytorch_model.bin'",
        ),
    },
    "model-unsupported": {
        "transformers models/auto/configuration_auto.py": (
            "ValueError: The checkpoint you are trying to load has model type `llama9` but Transformers does not recognize this architecture.",
            "ValueError: Unrecognized configuration class <class 'Config'> for this kind of AutoModel: AutoModelForCausalLM.",
        ),
        "transformers dynamic_module_utils.py": (
            "ValueError: The repository org/model contains custom code which must be executed to correctly load the model.",
        ),
        "vLLM model_executor/models/registry.py": (
            "ValueError: Model architectures ['FooForCausalLM'] are not supported for now.",
        ),
    },
    "tokenizer-unusable": {
        "transformers convert_slow_tokenizer.py": (
            "ValueError: Couldn't instantiate the backend tokenizer from one of:",
        ),
        "transformers tokenization_utils_base.py": (
            "ValueError: Asking to pad but the tokenizer does not have a padding token.",
            "OSError: Can't load tokenizer for 'org/model'. If you were trying to load it from 'https://huggingface.co/models'",
        ),
        "transformers models/auto/tokenization_auto.py": (
            "ValueError: Tokenizer class FooTokenizer does not exist or is not currently imported.",
        ),
        "tokenizers": ("Exception: data did not match any variant of untagged enum ModelWrapper at line 1 column 9",),
    },
    "chat-template-unusable": {
        "transformers tokenization_utils_base.py": (
            "ValueError: Cannot use chat template functions because tokenizer.chat_template is not set and no template argument was passed!",
        ),
        "a model's own template, through jinja2": (
            "jinja2.exceptions.TemplateError: Conversation roles must alternate user/assistant/user/assistant/...",
        ),
    },
    "model-missing": {
        "huggingface_hub utils/_validators.py": (
            "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/no/such'.",
        ),
        "transformers modeling_utils.py": (
            "OSError: Error no file named model.safetensors, or pytorch_model.bin, found in directory m.",
        ),
        "transformers utils/hub.py": (
            "OSError: org/model is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'",
            "OSError: v9 is not a valid git identifier (branch name, tag name or commit id) that exists for this model name.",
        ),
        "transformers configuration_auto.py": (
            "ValueError: Unrecognized model in m. Should have a `model_type` key in its config.json.",
        ),
        "huggingface_hub errors.py": ("huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error.",),
    },
    "dataset-missing": {
        "datasets data_files.py": (
            "FileNotFoundError: Unable to find '/no/such/train.jsonl'",
            "datasets.data_files.EmptyDatasetError: The directory at empty doesn't contain any data files",
        ),
        "CPython": (
            "FileNotFoundError: [Errno 2] No such file or directory: '/data/corpus.parquet'",
            "FileNotFoundError: [Errno 2] No such file or directory: '/volumes/train.json'",
        ),
        "datasets load.py": (
            "FileNotFoundError: Directory /data/x is neither a `Dataset` directory nor a `DatasetDict` directory.",
        ),
        "datasets arrow_reader.py": ("ValueError: Unknown split \"train_sft\". Should be one of ['train', 'test'].",),
    },
    "data-columns-wrong": {
        "CPython": ("KeyError: 'chosen'",),
        "datasets table.py": ("datasets.table.CastError: Couldn't cast",),
        "datasets arrow_dataset.py": (
            "ValueError: Column name ['prompt'] not in the dataset. Current columns in the dataset: ['question']",
        ),
        "transformers trainer.py": (
            "ValueError: No columns in the dataset match the model's forward method signature: (input_ids).",
        ),
    },
    "data-empty": {
        "PyTorch torch/utils/data/sampler.py": (
            "ValueError: num_samples should be a positive integer value, but got num_samples=0",
        ),
        "scripts": ("ValueError: the training dataset is empty",),
    },
    "data-unreadable": {
        "pyarrow": ("pyarrow.lib.ArrowInvalid: JSON parse error: Invalid value. in row 1",),
        "pandas": ("pandas.errors.ParserError: Error tokenizing data. C error: Expected 3 fields in line 4, saw 5",),
        "CPython": (
            "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xb0 in position 12: invalid start byte",
            "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        ),
    },
    "config-rejected": {
        "transformers hf_argparser.py": (
            "ValueError: Some specified arguments are not used by the HfArgumentParser: ['--no_such_flag', '1']",
            "ValueError: Some keys are not used by the HfArgumentParser: ['learnin_rate']",
        ),
        "TRL scripts/utils.py": (
            "ValueError: Unknown arguments from config file: ['--learnin_rate', '1e-05'].",
        ),
        "CPython": (
            "TypeError: SFTConfig.__init__() got an unexpected keyword argument 'learnin_rate'",
            "TypeError: __init__() got an unexpected keyword argument 'learnin_rate'",
        ),
        "transformers trainer_utils.py": (
            "ValueError: linearly is not a valid SchedulerType, please select one of ['linear', 'cosine']",
        ),
        "transformers training_args.py": (
            "ValueError: --load_best_model_at_end requires the save and eval strategy to match",
        ),
        "transformers integrations/deepspeed.py": (
            "ValueError: Please correct the following DeepSpeed config values that mismatch TrainingArguments values:",
        ),
        "PyYAML": ("yaml.parser.ParserError: while parsing a flow sequence",),
        "pydantic": ("pydantic_core._pydantic_core.ValidationError: 1 validation error for TrainerConfig",),
        "OmegaConf": ("omegaconf.errors.ConfigAttributeError: Key 'lr' is not in struct",),
        "Hydra": ("Could not override 'trainer.lr'.",),
        "argparse": ("train.py: error: argument --max_steps/--max-steps: invalid int value: 'many'",),
    },
    "module-missing": {
        "CPython": ("ModuleNotFoundError: No module named 'flash_attn'",),
        "transformers modeling_utils.py": (
            "ImportError: FlashAttention2 has been toggled on, but it cannot be used due to the following error: the package flash_attn seems to be not installed.",
        ),
        "transformers utils/import_utils.py": (
            "ImportError: Using `bitsandbytes` 4-bit quantization requires the bitsandbytes library but it was not found",
            "LlamaTokenizer requires the SentencePiece library but it was not found in your environment.",
        ),
    },
    "native-library-missing": {
        "glibc ld.so": (
            "ImportError: flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZNK3c105Error4whatEv",
            "OSError: libcudart.so.12: cannot open shared object file: No such file or directory",
            "./trainer: error while loading shared libraries: libnccl.so.2: cannot open shared object file",
        ),
    },
    "version-conflict": {
        "CPython": (
            "ImportError: cannot import name 'NoSuchTrainer' from 'transformers' (/usr/lib/transformers/__init__.py)",
            "AttributeError: module 'torch' has no attribute 'float8_e8m0fnu'",
        ),
        "transformers utils/versions.py": (
            "ImportError: torch>=99 is required for a normal functioning of this module, but found torch==2.13.0.",
        ),
        "importlib.metadata": ("importlib.metadata.PackageNotFoundError: No package metadata was found for vllm",),
        "NumPy": ("ValueError: numpy.dtype size changed, may indicate binary incompatibility.",),
        "transformers utils/import_utils.py": (
            "ValueError: Due to a serious vulnerability issue in `torch.load`, we now require users to upgrade torch to at least v2.6",
        ),
    },
    "script-invalid": {"CPython": ("SyntaxError: invalid syntax", "IndentationError: unexpected indent")},
    "entrypoint-missing": {
        "CPython": (
            "/usr/bin/python3: can't open file '/tmp/work/train.py': [Errno 2] No such file or directory",
            "/usr/bin/python3: Error while finding module specification for 'trainer.main' (ModuleNotFoundError: No module named 'trainer')",
            "/usr/bin/python3.11: No module named trainer",
        ),
        "dash": ("sh: 0: cannot open train.sh: No such file",),
        "bash": ("bash: train.sh: No such file or directory",),
    },
    "package-install-failed": {
        "pip": ("ERROR: No matching distribution found for no-such-package-xyz==1.0",),
        "apt": ("E: Unable to locate package libnuma-devel",),
    },
    "tracker-not-configured": {
        "wandb": (
            "wandb.errors.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
            "wandb.errors.errors.CommError: failed to upsert bucket: returned error 401: user is not logged in",
        ),
    },
    "loss-not-finite": {
        "PyTorch torch/csrc/autograd/python_anomaly_mode.cpp": (
            "RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.",
        ),
        "PyTorch aten/src/ATen/native/Distributions.cpp": (
            "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
        ),
        "scripts": ("FloatingPointError: step 40", "ERROR loss became NaN at step 1200"),
        "DeepSpeed runtime/fp16/loss_scaler.py": (
            "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
        ),
    },
    "index-out-of-range": {
        "PyTorch aten/src/ATen/native/cuda/Indexing.cu": (
            "Indexing.cu:1236: indexSelectLargeIndex: block: [12,0,0], thread: [64,0,0] Assertion `srcIndex < srcSelectDimSize` failed.",
        ),
        "PyTorch aten/src/ATen/native": ("IndexError: index out of range in self", "IndexError: Target 9 is out of bounds."),
    },
    "shape-mismatch": {
        "PyTorch aten/src/ATen": (
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
            "RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
            "RuntimeError: shape '[4, 2]' is invalid for input of size 6",
            "RuntimeError: stack expects each tensor to be equal size, but got [3] at entry 0 and [4] at entry 1",
        ),
        "PyTorch torch/nn/functional.py": ("ValueError: Expected input batch_size (2) to match target batch_size (1).",),
    },
    "tensor-mismatch": {
        "PyTorch aten/src/ATen": (
            "RuntimeError: mat1 and mat2 must have the same dtype, but got Double and Float",
            "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        ),
    },
    "permission-denied": {
        "CPython": ("PermissionError: [Errno 13] Permission denied: 'secret'",),
        "safetensors": ("Error while serializing: I/O error: Permission denied (os error 13)",),
    },
    "file-missing": {
        "CPython": ("FileNotFoundError: [Errno 2] No such file or directory: 'prompts/system.txt'",),
        "PyTorch torch/serialization.py": ("RuntimeError: Parent directory out/x does not exist.",),
        "PyTorch caffe2/serialize/inline_container.cc": ("open file failed with strerror: No such file or directory",),
    },
    "command-not-found": {
        "bash": ("train.sh: line 3: deepspeed: command not found",),
        "dash": ("train.sh: 3: deepspeed: not found",),
    },
    "not-executable": {
        "bash": (
            "train.sh: line 2: ./run.sh: Permission denied",
            "bash: ./run.sh: /usr/bin/pythn: bad interpreter: No such file or directory",
        ),
        "CPython": ("OSError: [Errno 8] Exec format error: './run'",),
    },
    "segmentation-fault": {
        "CPython faulthandler": ("Fatal Python error: Segmentation fault",),
        "PyTorch torch/distributed/elastic": ("  traceback : Signal 11 (SIGSEGV) received by PID 6175",),
        "CPython subprocess": ("subprocess.CalledProcessError: Command '['python']' died with <Signals.SIGSEGV: 11>.",),
    },
    "bus-error": {"CPython faulthandler": ("Fatal Python error: Bus error",)},
    "illegal-instruction": {"CPython faulthandler": ("Fatal Python error: Illegal instruction",)},
    "killed": {
        "PyTorch torch/distributed/elastic": ("  exitcode  : -9 (pid: 208585)",),
        "DeepSpeed launcher/launch.py": (
            "[ERROR] [launch.py:325:sigkill_handler] ['python', 'x.py'] exits with return code = -9",
        ),
        "PyTorch torch/multiprocessing/spawn.py": (
            "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGKILL",
        ),
        "bash": (
            "train.sh: line 2:  7239 Killed                  python3 train.py",
            "Killed",
        ),
    },
    "aborted": {
        "libstdc++": ("terminate called after throwing an instance of 'c10::Error'",),
        "CPython faulthandler": ("Fatal Python error: Aborted",),
    },
    "gpu-build-missing": {
        "PyTorch torch/cuda/__init__.py": ("AssertionError: Torch not compiled with CUDA enabled",),
    },
}  # fmt: skip

# Rank 0 ran out of memory, the others waited ten minutes for it. As torchrun prints it (PyTorch 2.6 to 2.13).
OUT_OF_MEMORY_ON_RANK_0 = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/tmp/tp/lab/experiments/first/train.py", line 41, in main
[rank0]:     trainer.train()
[rank0]:   File "/usr/lib/python3.11/site-packages/torch/nn/functional.py", line 5525, in multi_head_attention_forward
[rank0]:     attn_output_weights = torch.bmm(q_scaled, k.transpose(-2, -1))
[rank0]:                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 324.00 MiB. GPU 0 has a total capacity of 79.10 GiB of which 91.25 MiB is free.
"""
TIME_OUT_ON_RANK_3 = """\
[rank3]:[E1218 20:27:21.426415540 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8810, OpType=ALLREDUCE, NumelIn=131072000, NumelOut=131072000, Timeout(ms)=600000) ran for 600081 milliseconds before timing out.
[rank3]:[E1218 20:27:21.484910731 ProcessGroupNCCL.cpp:2168] [PG ID 1 PG GUID 1 Rank 3]  failure detected by watchdog at work sequence id: 1 PG status: last enqueued work: 547, last completed work: -1
[rank3]:[E1218 20:27:21.484963240 ProcessGroupNCCL.cpp:681] [Rank 3] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.
[rank3]:[E1218 20:27:21.484970331 ProcessGroupNCCL.cpp:695] [Rank 3] To avoid data inconsistency, we are taking the entire process down.
terminate called after throwing an instance of 'c10::DistBackendError'
  what():  [PG ID 1 PG GUID 1 Rank 3] Process group watchdog thread terminated with exception: [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8810, OpType=ALLREDUCE, NumelIn=131072000, NumelOut=131072000, Timeout(ms)=600000) ran for 600081 milliseconds before timing out.
Exception raised from checkTimeout at /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:632 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7b99599e31b6 in libc10.so)
frame #1: c10d::ProcessGroupNCCL::watchdogHandler() + 0x890 (0x7b99070007d0 in libtorch_cuda.so)
"""
LOST_PEER_ON_RANK_1 = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/tmp/tp/lab/experiments/first/train.py", line 41, in main
[rank1]:     trainer.train()
[rank1]: torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:3356, remote process exited or there was a network error, NCCL version 2.26.2
[rank1]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.
[rank1]: Last error:
[rank1]: NET/IB : Got completion from peer 10.42.0.2<47534> with error 5, opcode 48, len 32764, vendor err 244
"""
LAUNCHER = """\
W1218 20:27:22.955000 1648 site-packages/torch/distributed/elastic/multiprocessing/api.py:900] Sending process 1669 closing signal SIGTERM
E1218 20:27:22.021000 1648 site-packages/torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 0 (pid: 1670) of binary: /usr/bin/python3
Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/torch/distributed/run.py", line 918, in main
    run(args)
  File "/usr/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 269, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2025-12-18_20:27:22
  host      : node-1
  rank      : 1 (local_rank: 1)
  exitcode  : -15 (pid: 1671)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 1671
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2025-12-18_20:27:21
  host      : node-1
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 1670)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
# The same launcher, when a rank was killed without a word.
KILLED_RANK = LAUNCHER.replace("exitcode  : 1 (", "exitcode  : -9 (").replace(
    "traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
    "traceback : Signal 9 (SIGKILL) received by PID 1670",
)
METRICS = "{'loss': '3.385', 'grad_norm': '3.677', 'learning_rate': '1e-05', 'epoch': '2'}\n"
