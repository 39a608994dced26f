"""Packs: names that people know, and the tasks of lm-eval 0.4.13 that they mean. Their data comes from the Hugging Face hub."""

PACKS: dict[str, list[str]] = {
    # mathematics
    "gsm8k": ["gsm8k"],
    "math": ["minerva_math500"],
    "aime": ["aime24", "aime25"],
    "mgsm": ["mgsm_direct"],
    # knowledge and understanding
    "mmlu": ["mmlu"],
    "mmlu-pro": ["mmlu_pro"],
    "ceval": ["ceval-valid"],
    "cmmlu": ["cmmlu"],
    "agieval": ["agieval"],
    "gpqa": ["gpqa_diamond_zeroshot"],
    "arc": ["arc_challenge"],
    "hellaswag": ["hellaswag"],
    "winogrande": ["winogrande"],
    "truthfulqa": ["truthfulqa_mc2"],
    # reasoning and instructions
    "bbh": ["bbh"],
    "drop": ["drop"],
    "ifeval": ["ifeval"],
    # code, which is run: allow_code
    "humaneval": ["humaneval"],
    "mbpp": ["mbpp"],
    # bias and toxicity
    "toxigen": ["toxigen"],
    "bbq": ["bbq"],
}
