"""Models, tokenizers, checkpoints, and the hub they come from. Wordings: transformers 5, huggingface_hub 2, torch 2, peft, safetensors."""

from __future__ import annotations

from tuneplane.i18n import N_
from tuneplane_server.domain.reasons.entry import ReasonEntry, Weight, anywhere, raised

ENTRIES = (
    ReasonEntry(
        "hub-unauthorized",
        "user",
        N_("the hub refused to give the model or the dataset"),
        N_(
            "accept its terms with your account on the hub, and give the run a token that may read it: tp submit --secret HF_TOKEN"
        ),
        retry=False,
        signs=(
            raised(r"GatedRepoError: |OSError: You are trying to access a gated repo|LocalTokenNotFoundError"),
            raised(r"DatasetNotFoundError: Dataset .{1,200} is a gated dataset"),
            raised(r"(?:HfHubHTTPError|HTTPError|HTTPStatusError): .{0,60}\b403\b"),
            anywhere(r"Invalid user token|Invalid credentials in Authorization header", Weight.RAISED),
            raised(r"(?:HfHubHTTPError|HTTPError): .{0,20}\b401 ", Weight.GENERAL),
        ),
        seen="OSError: You are trying to access a gated repo.",
    ),
    ReasonEntry(
        "hub-rate-limited",
        "infra",
        N_("the hub allows no more downloads for now"),
        N_(
            "wait, give the run a token (tp submit --secret HF_TOKEN), or keep the files in the hub cache or on a volume"
        ),
        retry=True,
        signs=(raised(r"(?:HfHubHTTPError|HTTPError|HTTPStatusError): .{0,40}\b429\b"),),
        seen="huggingface_hub.errors.HfHubHTTPError: 429 Too Many Requests for url: https://huggingface.co/api/models/org/model",
    ),
    ReasonEntry(
        "hub-unreachable",
        "infra",
        N_("the hub cannot be reached from the node, and its files are not in the cache"),
        N_(
            "without a way to the hub, name a model and data on the storage root or on a volume, fill the hub cache beforehand, or set HF_ENDPOINT to a mirror"
        ),
        retry=True,
        signs=(
            raised(r"OSError: We couldn't connect to 'http|LocalEntryNotFoundError: |OfflineModeIsEnabled"),
            raised(r"ConnectionError: Couldn't reach .{1,200} on the Hub"),
            raised(r"(?:HfHubHTTPError|HTTPError|HTTPStatusError): .{0,40}\b50[0-4]\b"),
            raised(
                r"\w{1,60}: .{0,300}(?:huggingface\.co|modelscope\.cn)\b.{0,300}(?:Max retries exceeded|timed out|resolve)"
            ),
        ),
        seen="OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.",
    ),
    ReasonEntry(
        "checkpoint-missing",
        "user",
        N_("there is no usable checkpoint where the run should resume"),
        N_("only a complete checkpoint can be resumed: tp job artifacts shows those of a run and what the others lack"),
        retry=False,
        signs=(
            raised(r"ValueError: (?:Can't find a valid checkpoint at|No valid checkpoint found in output directory)"),
            raised(r"FileNotFoundError: .{0,300}checkpoint-\d"),
        ),
        seen="ValueError: Can't find a valid checkpoint at out/checkpoints/checkpoint-400",
    ),
    ReasonEntry(
        "checkpoint-incompatible",
        "user",
        N_("the checkpoint does not belong to this model"),
        N_(
            "resume with the model, the adapter and the optimizer that it was made with; the quoted line names what differs first"
        ),
        retry=False,
        signs=(
            raised(r"RuntimeError: Error\(s\) in loading state_dict for"),
            raised(r"\w{1,60}: .{0,100}(?:Missing|Unexpected) key\(s\) in state_dict"),
            raised(r"ValueError: (?:loaded state dict |Trying to set a tensor of shape )"),
            raised(r"\w{1,60}: .{0,60}You set `ignore_mismatched_sizes` to `False`"),
            raised(r"UnpicklingError: Weights only load failed"),
        ),
        seen="RuntimeError: Error(s) in loading state_dict for LlamaForCausalLM:",
    ),
    ReasonEntry(
        "checkpoint-corrupt",
        "user",
        N_("a file of a checkpoint or a model is damaged"),
        N_(
            "resume from an earlier checkpoint, or fetch the model again: a file cut short comes from a full disk, or from a run that was killed while it saved"
        ),
        retry=False,
        signs=(
            raised(r"RuntimeError: PytorchStreamReader failed"),
            raised(r"SafetensorError: Error while deserializing"),
            raised(r"(?:UnpicklingError|BadZipFile): "),
            raised(r"EOFError: Ran out of input"),
            raised(r"RuntimeError: (?:unexpected EOF, expected|Invalid magic number; corrupt file)"),
            raised(r"OSError: Unable to load weights from pytorch checkpoint file"),
        ),
        seen="safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered",
    ),
    ReasonEntry(
        "model-unsupported",
        "user",
        N_("the libraries of the training image do not know this kind of model"),
        N_(
            "use an image with newer libraries; a model that brings its own code runs only with trust_remote_code: true"
        ),
        retry=False,
        signs=(
            raised(r"ValueError: The checkpoint you are trying to load has model type"),
            raised(
                r"ValueError: .{0,300}(?:contains custom code which must be executed|requires you to execute the \w{1,30} file)"
            ),
            raised(r"ValueError: Unrecognized configuration class"),
            raised(r"\w{1,60}: .{0,60}Model architectures .{1,200} (?:are not supported|failed to be inspected)"),
        ),
        seen="ValueError: The checkpoint you are trying to load has model type `llama9` but Transformers does not recognize this architecture.",
    ),
    ReasonEntry(
        "tokenizer-unusable",
        "user",
        N_("the tokenizer cannot be loaded, or lacks a token that the training needs"),
        N_(
            "check that the tokenizer's files lie beside the model; set a padding token where the model has none (pad_token)"
        ),
        retry=False,
        signs=(
            raised(r"ValueError: Couldn't instantiate the backend tokenizer"),
            raised(r"OSError: Can't load tokenizer for"),
            raised(r"ValueError: Asking to pad but the tokenizer does not have a padding token"),
            raised(r"ValueError: Tokenizer class \w{1,100} does not exist or is not currently imported"),
            raised(r"Exception: data did not match any variant of untagged enum"),
        ),
        seen="ValueError: Asking to pad but the tokenizer does not have a padding token.",
    ),
    ReasonEntry(
        "chat-template-unusable",
        "user",
        N_("the tokenizer has no chat template, or its template refuses the rows"),
        N_(
            "name a template (chat_template_path), start from an instruct model, or give rows of prompt and completion, or of text, instead of messages"
        ),
        retry=False,
        signs=(
            raised(r"ValueError: Cannot use (?:chat template functions|apply_chat_template\(\)) because"),
            raised(r"Template(?:Syntax|Runtime)?Error: "),
        ),
        seen="ValueError: Cannot use chat template functions because tokenizer.chat_template is not set",
    ),
    ReasonEntry(
        "model-missing",
        "user",
        N_("the model was not found"),
        N_("check the path, or the name on the hub and its revision; a private model without a token looks the same"),
        retry=False,
        signs=(
            raised(r"(?:HFValidationError|OSError): (?:Repo id must|Cannot have -- or \.\. in repo_id)"),
            raised(
                r"OSError: (?:Error no file named|Incorrect path_or_model_id|Can't load (?:the )?(?:configuration|model))"
            ),
            raised(
                r"OSError: .{1,300} (?:is not a local folder and is not a valid model identifier|does not appear to have a file named)"
            ),
            raised(r"OSError: .{1,300} is not a valid git identifier"),
            raised(r"ValueError: (?:Unrecognized model in |Can't find 'adapter_config\.json' at)"),
            raised(r"(?:RepositoryNotFoundError|RevisionNotFoundError): ", Weight.GENERAL),
        ),
        seen="OSError: org/model is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'",
    ),
)
