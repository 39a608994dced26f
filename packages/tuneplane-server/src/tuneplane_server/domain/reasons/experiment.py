"""The experiment's configuration, its script, and what the image holds for it. Wordings: CPython, TRL, transformers, Hydra, argparse."""

from __future__ import annotations

from tuneplane.i18n import N_
from tuneplane_server.domain.reasons.entry import ReasonEntry, Weight, anywhere, raised

ENTRIES = (
    ReasonEntry(
        "config-rejected",
        "user",
        N_("the framework refused the configuration"),
        N_("the last lines of the log name the key; tp validate finds most of these before submitting"),
        retry=False,
        signs=(
            raised(
                r"ValueError: (?:Some \w{1,30} (?:arguments )?are not used by the HfArgumentParser|Unknown arguments from config file)"
            ),
            raised(
                r"TypeError: \w{1,100}(?:Config|Arguments|Args)\.__init__\(\) (?:got an unexpected keyword|missing \d)"
            ),
            raised(r"TypeError: __init__\(\) got an unexpected keyword argument", Weight.GENERAL),
            raised(
                r"ValueError: .{1,200} is not a valid \w{1,80}(?:, please select one of|Type\b|Strategy\b|Mode\b|Names?\b)"
            ),
            raised(r"ValueError: --\w{1,80} requires "),
            raised(r"ValueError: Please correct the following DeepSpeed config values"),
            raised(
                r"(?:ParserError|ScannerError|ComposerError|ConstructorError): (?:while |mapping |could not |found |expected )"
            ),
            raised(r"ValidationError: \d{1,5} validation errors? for \w{1,100}(?:Config|Arguments|Args|Settings)\b"),
            raised(
                r"(?:ConfigAttributeError|ConfigKeyError|ConfigCompositionException|MissingMandatoryValue|OverrideParseException)\b"
            ),
            anywhere(r"^Could not override '|^Error: No such option", Weight.RAISED),
            anywhere(
                r"^\S{1,200}: error: (?:unrecognized arguments|argument |the following arguments are required|ambiguous option)",
                Weight.RAISED,
            ),
        ),
        seen="ValueError: Unknown arguments from config file: ['--learnin_rate', '1e-05'].",
    ),
    ReasonEntry(
        "module-missing",
        "user",
        N_("the training image has no Python module {module}"),
        N_("use an image that has it, or put the module into the experiment or into the lab's common directory"),
        retry=False,
        signs=(
            raised(r"ModuleNotFoundError: No module named '(?P<module>[\w.-]{1,200})'"),
            raised(r"ImportError: .{0,300}package (?P<module>[\w.-]{1,100}) (?:seems to be not|is not) installed"),
            raised(r"ImportError: .{0,60}requires the (?P<module>[\w.-]{1,100}) library but it was not found"),
            anywhere(
                r"requires the (?P<module>[\w.-]{1,100}) library but it was not found in your environment",
                Weight.RAISED,
            ),
        ),
        seen="ModuleNotFoundError: No module named 'flash_attn'",
    ),
    ReasonEntry(
        "native-library-missing",
        "user",
        N_("a native library could not be loaded"),
        N_("a package was built for another CUDA, torch or system library: install the build that fits the image"),
        retry=False,
        signs=(
            raised(
                r"(?:ImportError|OSError): .{0,300}(?:cannot open shared object file|undefined symbol|version `[^`']{1,60}' not found)"
            ),
            anywhere(r"error while loading shared libraries", Weight.RAISED),
        ),
        seen="ImportError: flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so: undefined symbol: _ZNK3c105Error4whatEv",
    ),
    ReasonEntry(
        "version-conflict",
        "user",
        N_("packages of the training image do not fit together"),
        N_(
            "the quoted line names them: pin versions that belong together, or use the image of the recipe's own runtime"
        ),
        retry=False,
        signs=(
            raised(r"ImportError: cannot import name"),
            raised(r"ImportError: .{0,200}is required for a normal functioning of this module, but found"),
            raised(r"(?:VersionConflict|ContextualVersionConflict|DistributionNotFound|PackageNotFoundError)\b"),
            raised(r"AttributeError: module '[\w.]{1,100}' has no attribute"),
            raised(r"ValueError: numpy\.dtype size changed"),
            raised(r"ValueError: .{0,300}require users to upgrade torch"),
        ),
        seen="ImportError: cannot import name 'SFTConfig' from 'trl'",
    ),
    ReasonEntry(
        "script-invalid",
        "user",
        N_("the script is not valid Python for the image's interpreter"),
        N_("mend the line that the log names; python -m compileall experiments finds such lines before submitting"),
        retry=False,
        signs=(raised(r"(?:SyntaxError|IndentationError|TabError): "),),
        seen="SyntaxError: invalid syntax",
    ),
    ReasonEntry(
        "entrypoint-missing",
        "user",
        N_("the file or module that starts the training is not there"),
        N_("check that the experiment holds it and that it is not excluded from the package"),
        retry=False,
        signs=(
            anywhere(r"can't open file '.{1,300}': \[Errno 2\]", Weight.RAISED),
            anywhere(
                r"Error while finding module specification for|^\S{0,200}python[\w.]{0,10}: No module named \S",
                Weight.RAISED,
            ),
            anywhere(
                r"^(?:\S{0,100}/)?(?:ba|da)?sh: (?:\d{1,4}: )?(?:cannot open )?\S{1,300}: No such file", Weight.RAISED
            ),
        ),
        seen="python3: can't open file '/tmp/work/lab/experiments/first/train.py': [Errno 2] No such file or directory",
    ),
    ReasonEntry(
        "package-install-failed",
        "user",
        N_("a package could not be installed while the run was starting"),
        N_(
            "put packages into the image instead: the node may reach no package index, or the index may not have that version"
        ),
        retry=False,
        signs=(
            anywhere(
                r"^ERROR: (?:No matching distribution found for|Could not find a version that satisfies)",
                Weight.GENERAL,
            ),
            anywhere(
                r"^E: Unable to (?:locate package|fetch some archives)|^error: subprocess-exited-with-error",
                Weight.GENERAL,
            ),
        ),
        seen="ERROR: No matching distribution found for flash-attn==2.8.9",
    ),
    ReasonEntry(
        "tracker-not-configured",
        "user",
        N_("an experiment tracker that the script reports to is not set up"),
        N_(
            "set report_to: none, because the console collects the metrics anyway, or give the run the tracker's key as a secret"
        ),
        retry=False,
        signs=(
            raised(r"UsageError: (?:api_key not configured|No API key configured)"),
            raised(r"(?:CommError|AuthenticationError): .{0,200}(?:401|permission denied|not logged in)"),
        ),
        seen="wandb.errors.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
    ),
    ReasonEntry(
        "loss-not-finite",
        "user",
        N_("the loss became NaN or infinite"),
        N_("lower the learning rate, clip the gradients, or look at the data of the last steps"),
        retry=False,
        signs=(
            anywhere(
                r"[Ll]oss (?:is|became|was) (?:nan|NaN|inf|Inf|not finite)\b|[Nn]on-finite loss|NaN loss", Weight.RAISED
            ),
            raised(r"RuntimeError: Function '\w{1,100}' returned nan values in its \d{1,4}th output"),
            raised(r"RuntimeError: probability tensor contains either `inf`, `nan` or element < 0"),
            raised(r"FloatingPointError: "),
            anywhere(r"Current loss scale already at minimum - cannot decrease scale anymore", Weight.RAISED),
        ),
        seen="RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
    ),
    ReasonEntry(
        "index-out-of-range",
        "user",
        N_("an index lies outside its table"),
        N_(
            "most often a token id beyond the vocabulary or a label beyond the classes: check that tokenizer and model belong together, and the longest sequence the model knows"
        ),
        retry=False,
        signs=(
            anywhere(
                r"Assertion `(?:srcIndex < srcSelectDimSize|t >= 0 && t < n_classes|idx >= 0 && idx < numel|-sizes\[i\] <= index)"
            ),
            raised(r"IndexError: (?:index out of range in self|Target -?\d{1,20} is out of bounds)"),
        ),
        seen="IndexError: index out of range in self",
    ),
    ReasonEntry(
        "shape-mismatch",
        "user",
        N_("tensors of different shapes were combined"),
        N_(
            "sequence lengths, labels and vocabulary must agree between the data, the tokenizer and the model; pad or truncate the rows"
        ),
        retry=False,
        signs=(
            raised(
                r"RuntimeError: (?:mat1 and mat2 shapes cannot be multiplied|The size of tensor a \(\d{1,20}\) must match)"
            ),
            raised(r"RuntimeError: (?:shape '\[.{0,100}\]' is invalid for input of size|Sizes of tensors must match)"),
            raised(
                r"RuntimeError: (?:stack expects each tensor to be equal size|The expanded size of the tensor|Given groups=\d)"
            ),
            raised(
                r"ValueError: (?:Expected input batch_size|operands could not be broadcast together|Unable to create tensor, you should)"
            ),
        ),
        seen="RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
    ),
    ReasonEntry(
        "tensor-mismatch",
        "user",
        N_("tensors of different number formats, or on different devices, were combined"),
        N_(
            "give the model and the batch one dtype (mixed precision settings count too), and move both to the same device"
        ),
        retry=False,
        signs=(
            raised(
                r"RuntimeError: .{0,100}must have the same dtype|RuntimeError: expected (?:m1 and m2|mat1 and mat2|scalar type)"
            ),
            raised(
                r"RuntimeError: (?:Expected all tensors to be on the same device|Input type .{1,60} and weight type)"
            ),
        ),
        seen="RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
    ),
    ReasonEntry(
        "permission-denied",
        "user",
        N_("the run may not read or write a file"),
        N_("write below TUNEPLANE_OUT_DIR only; data must be readable for the user that the container runs as"),
        retry=False,
        signs=(
            raised(r"PermissionError: ", Weight.GENERAL),
            anywhere(r"strerror: Permission denied|\(os error 13\)", Weight.GENERAL),
        ),
        seen="PermissionError: [Errno 13] Permission denied: '/data/train.jsonl'",
    ),
    ReasonEntry(
        "file-missing",
        "user",
        N_("a file that the experiment needs is not there"),
        N_(
            "it must lie in the package, in the image, or on a volume of the job: the quoted line names the path it was looked for at"
        ),
        retry=False,
        signs=(
            raised(r"(?:FileNotFoundError|NotADirectoryError): ", Weight.GENERAL),
            raised(r"RuntimeError: Parent directory .{1,300} does not exist", Weight.GENERAL),
            anywhere(r"strerror: No such file or directory", Weight.GENERAL),
        ),
        seen="FileNotFoundError: [Errno 2] No such file or directory: 'prompts/system.txt'",
    ),
    ReasonEntry(
        "command-not-found",
        "user",
        N_("the training image lacks a command that the run needs"),
        N_(
            "the quoted line names it: install it in the image or mend PATH; a training image needs a POSIX shell and a Python of 3.9 or newer"
        ),
        retry=False,
        signs=(anywhere(r"^\S{1,300}: (?:line )?\d{1,6}: .{1,200}: (?:command )?not found", Weight.LAST_RESORT),),
        exit_codes=(127,),
        seen="train.sh: line 3: deepspeed: command not found",
    ),
    ReasonEntry(
        "not-executable",
        "user",
        N_("a program of the run cannot be executed"),
        N_(
            "make it executable (chmod +x), give a script its first line (#!), and use programs built for the node's processor"
        ),
        retry=False,
        signs=(
            anywhere(
                r"^\S{1,300}: (?:line )?\d{1,6}: .{1,200}: (?:Permission denied|cannot execute|Exec format error)",
                Weight.LAST_RESORT,
            ),
            anywhere(r": bad interpreter: |exec format error", Weight.LAST_RESORT),
            raised(r"OSError: \[Errno 8\] Exec format error"),
        ),
        exit_codes=(126,),
        seen="train.sh: line 2: ./run.sh: Permission denied",
    ),
)
