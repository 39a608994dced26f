"""Training data. Wordings: datasets 5, pyarrow, pandas, TRL 1.16."""

from __future__ import annotations

from tuneplane.i18n import N_
from tuneplane_server.domain.reasons.entry import ReasonEntry, Weight, raised

ENTRIES = (
    ReasonEntry(
        "dataset-missing",
        "user",
        N_("the training data is not there"),
        N_(
            "check the path or the name under data in config.yaml, and the volume it lies on: a path of your own machine does not exist in the run"
        ),
        retry=False,
        signs=(
            raised(r"(?:DataFilesNotFoundError|EmptyDatasetError|DatasetNotFoundError|SplitsNotFoundError)(?::|$)"),
            raised(r"FileNotFoundError: (?:Unable to find '|Couldn't find (?:a dataset|any data file))"),
            raised(r"FileNotFoundError: .{0,300}\.(?:jsonl|parquet|csv|tsv|arrow|json\.gz|jsonl\.zst)\b"),
            raised(r"FileNotFoundError: .{0,300}(?:data|train|valid|eval|test)\S{0,100}\.json\b"),
            raised(r"FileNotFoundError: Directory .{1,300} is neither a `?Dataset"),
            raised(r"ValueError: Unknown split \""),
        ),
        seen="FileNotFoundError: Unable to find '/data/train.jsonl'",
    ),
    ReasonEntry(
        "data-columns-wrong",
        "user",
        N_("the training data does not have the columns that the method needs"),
        N_(
            "compare the columns with those that tp methods <method> names, and rename them in the data or in the script"
        ),
        retry=False,
        signs=(
            raised(r"(?:DatasetGenerationCastError|CastError): "),
            raised(r"\w{1,60}: .{0,60}[Cc]olumns? .{1,200} not in the dataset"),
            raised(
                r"KeyError: '(?:text|messages|prompt|completion|chosen|rejected|labels?|conversations|images|input_ids)'"
            ),
            raised(r"ValueError: No columns in the dataset match the model's forward method"),
        ),
        seen="KeyError: 'chosen'",
    ),
    ReasonEntry(
        "data-empty",
        "user",
        N_("the training data has no rows"),
        N_(
            "check the file, the split and the filters: every row may have been filtered out, for example for its length"
        ),
        retry=False,
        signs=(
            raised(r"ValueError: num_samples should be a positive integer value, but got num_samples=0"),
            raised(r"\w{1,60}: .{0,80}(?:dataset|dataloader) is empty"),
        ),
        seen="ValueError: num_samples should be a positive integer value, but got num_samples=0",
    ),
    ReasonEntry(
        "data-unreadable",
        "user",
        N_("the training data could not be read"),
        N_("check the path and the format of the data; the last lines of the log name the file"),
        retry=False,
        signs=(
            raised(r"ArrowInvalid: |ParserError: Error tokenizing data|EmptyDataError: "),
            raised(r"(?:DatasetGenerationError|UnicodeDecodeError|JSONDecodeError): ", Weight.GENERAL),
        ),
        seen="pyarrow.lib.ArrowInvalid: JSON parse error: Invalid value. in row 1",
    ),
)
