"""The program of an export job: a checkpoint becomes a Hugging Face directory.

    python export_start.py --source DIR --layout WORD --target DIR [--base MODEL] [--merge-lora] [--dtype WORD] [--run ID] [--step N]
        [-- CONVERTER ARGUMENT…]

A converter of the framework writes `.<name>.part` beside the target; without one the files are copied, or an adapter is merged. What is there
then is finished, checked and renamed, so that a target is whole or not there. Standard library; torch and transformers when they are needed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from typing import Any, Dict, List

from tuneplane.adapters import export_files as files

RECORD = "tuneplane-export.json"
_LORA_OF_VERL = "lora_adapter"


def main(arguments: List[str]) -> int:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    options = _parser().parse_args(arguments[:at])
    try:
        _export(options, arguments[at + 1 :])
    except (files.ExportError, OSError, ImportError) as error:
        # Hugging Face's libraries say with OSError what is wrong with a model.
        print(f"the export failed: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="export_start.py")
    parser.add_argument("--source", required=True)
    parser.add_argument("--layout", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--base", default="")
    parser.add_argument("--merge-lora", action="store_true")
    parser.add_argument("--dtype", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--run", default="")
    parser.add_argument("--step", type=int)
    return parser


def _export(options: argparse.Namespace, converter: List[str]) -> None:
    folder, name = os.path.split(options.target)
    part = os.path.join(folder, f".{name}.part")
    os.makedirs(folder, exist_ok=True)
    for left in (part, part + ".merged"):
        shutil.rmtree(left, ignore_errors=True)
    if converter:
        print("running " + " ".join(converter), flush=True)
        code = subprocess.run(converter).returncode
        if code:
            raise files.ExportError(f"the converter exited with {code}")
        _finish(options, part)
    elif options.merge_lora:
        from tuneplane.adapters.export_weights import merge

        merge(options.source, options.base, part, options.dtype)
    else:
        print(f"copying {options.source}", flush=True)
        files.copy_model(options.source, part)
    if options.dtype:
        from tuneplane.adapters.export_weights import cast

        cast(part, options.dtype)
    found = files.check(part)
    if options.merge_lora and found["adapter"]:
        raise files.ExportError("the adapter was not merged")
    files.write_json(os.path.join(part, RECORD), _record(options, found))
    files.settle(part, options.target)
    print(f"{options.target}: {found['files']} files, {found['bytes']} bytes", flush=True)


def _finish(options: argparse.Namespace, part: str) -> None:
    """What the converters leave to do."""
    if options.layout == "verl-fsdp":
        _finish_verl(options, part)
    elif options.layout in ("deepspeed", "nemo-rl-dcp"):
        from tuneplane.adapters import export_weights

        if options.layout == "deepspeed":
            export_weights.add_config(options.base, part)
        export_weights.from_pickles(part)


def _finish_verl(options: argparse.Namespace, part: str) -> None:
    """verl's merger writes the base model and, with LoRA, the adapter below it."""
    adapter = os.path.join(part, _LORA_OF_VERL)
    if not os.path.isdir(adapter):
        return
    from tuneplane.adapters.export_weights import merge

    made = part + ".merged"
    if options.merge_lora:
        merge(adapter, part, made, options.dtype)
    else:
        shutil.copytree(adapter, made)
        config = files.read_json(os.path.join(made, files.ADAPTER_CONFIG))
        config["base_model_name_or_path"] = config.get("base_model_name_or_path") or options.base or None
        files.write_json(os.path.join(made, files.ADAPTER_CONFIG), config)
    files.copy_words(part, made)
    shutil.rmtree(part)
    os.rename(made, part)


def _record(options: argparse.Namespace, found: Dict[str, Any]) -> Dict[str, Any]:
    """Where it comes from, for whoever finds the directory later."""
    return {
        "run": options.run,
        "step": options.step,
        "layout": options.layout,
        "merged_lora": options.merge_lora,
        "adapter": found["adapter"],
        "dtype": options.dtype,
        "bytes": found["bytes"],
    }


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
