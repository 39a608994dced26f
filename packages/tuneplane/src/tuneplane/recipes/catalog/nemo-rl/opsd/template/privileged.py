"""A teacher that reads the solution before the student's answer (on-policy self-distillation, arXiv 2601.18734)."""

import torch

HINT = """{question}

Here is a worked solution:
{solution}

Understand it, then answer the question yourself, step by step, in your own words."""


def privileged_prompts(tokenizer, dataset):
    """Tokens of the student's prompt -> tokens of the same prompt with the solution, for every row of NeMo RL's training data."""
    prompts = {}
    for number in range(len(dataset)):
        row = dataset.dataset[number]
        question, answer = (message["content"] for message in row["messages"][:2])
        hint = HINT.format(question=question, solution=row.get("solution") or answer)
        message = {"role": "user", "content": hint}
        text = tokenizer.apply_chat_template([message], tokenize=False, add_generation_prompt=True)
        plain = torch.cat([message["token_ids"] for message in dataset[number]["message_log"]])
        prompts[tuple(plain.tolist())] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return prompts


class PrivilegedTeacher:
    """NeMo RL's teacher policy, which answers for the prompt with the solution; everything else is passed on to it."""

    def __init__(self, teacher, prompts, pad_token_id, multiple):
        self._teacher, self._prompts = teacher, prompts
        self._pad, self._multiple = pad_token_id, multiple

    def __getattr__(self, name):
        return getattr(self._teacher, name)

    def get_topk_logits(self, data, k, **options):
        """`topk_logits` and `topk_indices` [rows, tokens of the student, k]: what the teacher would say next at each of the student's tokens.

        A row whose prompt is not in the training data keeps its own. Before the answer there is nothing to learn, and zeros stand there.
        """
        columns = (data["input_ids"], data["input_lengths"], data["token_mask"])
        rows = [self._row(*row) for row in zip(*columns, strict=True)]
        shown = self._teacher.get_topk_logits(self._batch(data, [tokens for tokens, _, _ in rows]), k=k, **options)
        found = {}
        for name in ("topk_logits", "topk_indices"):
            found[name] = shown[name].new_zeros((*data["input_ids"].shape, shown[name].shape[-1]))
            for number, (tokens, before, hinted) in enumerate(rows):
                answer = len(tokens) - hinted
                # The token before the answer is the first that says something about it.
                found[name][number, before - 1 : before + answer] = shown[name][number, hinted - 1 : hinted + answer]
        return found

    def _row(self, ids, length, mask):
        """(tokens the teacher reads, tokens before the student's answer, tokens before it for the teacher)."""
        tokens = ids[: int(length)].tolist()
        before = int(mask[: int(length)].argmax()) if mask[: int(length)].any() else len(tokens)
        prompt = self._prompts.get(tuple(tokens[:before]), tokens[:before])
        return [*prompt, *tokens[before:]], before, len(prompt)

    def _batch(self, data, rows):
        longest = max(len(row) for row in rows)
        width = -(-longest // self._multiple) * self._multiple
        ids = torch.full((len(rows), width), self._pad, dtype=data["input_ids"].dtype)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = torch.tensor(row, dtype=ids.dtype)
        lengths = torch.tensor([len(row) for row in rows], dtype=data["input_lengths"].dtype)
        return type(data)({"input_ids": ids, "input_lengths": lengths, "sample_mask": data["sample_mask"]})
