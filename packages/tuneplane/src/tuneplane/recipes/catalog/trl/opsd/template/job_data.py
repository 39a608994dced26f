"""The rows to train on: the job's data sets (`data.train`, `data.validation` in config.yaml), else the sample beside this script."""

import os
from pathlib import Path

from datasets import Dataset, load_dataset

SAMPLE = Path(__file__).parent / "data"


def job_data() -> tuple[Dataset, Dataset | None]:
    """`(train, validation)`; validation is None when the job has training data of its own and names no other."""
    train, validation = os.environ.get("TRAIN_DATA_DIR"), os.environ.get("VALIDATION_DATA_DIR")
    if not train:
        train, validation = SAMPLE / "train.jsonl", validation or SAMPLE / "validation.jsonl"
    return read_rows(Path(train)), read_rows(Path(validation)) if validation else None


def read_rows(source: Path) -> Dataset:
    """A .jsonl or .parquet file, or a directory of them."""
    files = [source] if source.is_file() else sorted(source.rglob("*.jsonl")) or sorted(source.rglob("*.parquet"))
    if not files:
        raise SystemExit(f"no .jsonl or .parquet file in {source}")
    kind = "parquet" if files[0].suffix == ".parquet" else "json"
    return load_dataset(kind, data_files=[str(file) for file in files], split="train")


def text(content: str | list[dict]) -> str:
    """A message list, or text, as text."""
    return content if isinstance(content, str) else "\n".join(message["content"] for message in content)
