"""Run by a Python that has torch: what the templates of maxrl and opsd compute, against the definitions, row by row.

python template_checks.py <template of maxrl> <template of opsd>; a failed assertion is the answer, `checked` else.
"""

import sys
from types import SimpleNamespace

import torch

sys.path[:0] = sys.argv[1:3]
from maxrl import MaxRLAdvantageEstimator, advantages  # noqa: E402  # ty: ignore[import-not-found]
from privileged import HINT, PrivilegedTeacher, privileged_prompts  # noqa: E402  # ty: ignore[import-not-found]

STUDENT_PAD, MULTIPLE, VOCABULARY = 0, 8, 97


def check_maxrl():
    """Two prompts of three answers and one of one; the second prompt has no right answer."""
    prompts = torch.tensor([[1, 2], [3, 4], [1, 2], [3, 4], [1, 2], [3, 4], [5, 6]])
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    third = 1 / 3
    wanted = torch.tensor([(1 - third) / third, 0.0, -1.0, 0.0, -1.0, 0.0, 0.0])
    torch.testing.assert_close(advantages(prompts, rewards), wanted)
    torch.testing.assert_close(advantages(prompts[:, 0], rewards), wanted)  # one number a prompt will do
    assert abs(float(advantages(prompts, rewards)[:6:2].sum())) < 1e-6  # of one prompt they cancel out
    mask = torch.ones(7, 5)
    spread = MaxRLAdvantageEstimator({}, None).compute_advantage(prompts, rewards, mask, repeated_batch={})
    torch.testing.assert_close(spread, wanted.unsqueeze(-1).expand(7, 5))
    refused = ""
    try:
        advantages(prompts, rewards * 2 - 1)
    except ValueError as error:
        refused = str(error)
    assert "0 and 1" in refused


class Tokens:
    """A tokenizer of characters, with a chat template that opens the answer."""

    def apply_chat_template(self, messages, tokenize, add_generation_prompt):
        assert (tokenize, add_generation_prompt) == (False, True)
        return f"<{messages[0]['content']}>"

    def __call__(self, text, add_special_tokens):
        return {"input_ids": [1 + ord(letter) % (VOCABULARY - 1) for letter in text]}


class Rows:
    """NeMo RL's processed data set as far as the template looks at it: rows, and what the student reads of each."""

    def __init__(self, rows, tokens):
        self.dataset, self._tokens = rows, tokens

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, number):
        text = f"<{self.dataset[number]['messages'][0]['content']}>"
        return {"message_log": [{"token_ids": torch.tensor(self._tokens(text, add_special_tokens=False)["input_ids"])}]}


class Teacher:
    """Says of every position what it has read so far: its length and the sum of its tokens, so that a shift by one shows."""

    def __init__(self):
        self.batches = []

    def get_topk_logits(self, data, k, timer=None):
        self.batches.append(data)
        ids = data["input_ids"]
        read = torch.arange(1, ids.shape[1] + 1).expand(ids.shape)
        return {
            "topk_logits": torch.stack([ids.cumsum(1).float() + rank for rank in range(k)], dim=-1),
            "topk_indices": torch.stack([read + 1000 * rank for rank in range(k)], dim=-1),
        }

    def offload_after_refit(self):
        return "passed on"


def row(question, answer, solution=None):
    found = {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}
    return {**found, "solution": solution} if solution else found


def check_opsd():
    tokens, teacher = Tokens(), Teacher()
    rows = [row("1+2?", "3", "one and two"), row("10-4?", "6")]
    prompts = privileged_prompts(tokens, Rows(rows, tokens))
    answers = [[7, 8, 9], [5, 6], [4, 4, 4, 4]]
    questions = [*prompts, (11, 12, 13)]  # the third is of no row: a validation prompt
    hints = [prompts[questions[0]], prompts[questions[1]], [11, 12, 13]]
    assert hints[0] == tokens(f"<{HINT.format(question='1+2?', solution='one and two')}>", False)["input_ids"]
    assert hints[1] == tokens(f"<{HINT.format(question='10-4?', solution='6')}>", False)["input_ids"]
    sequences = [[*question, *answer] for question, answer in zip(questions, answers, strict=True)]
    width = max(map(len, sequences)) + 3
    data = {
        "input_ids": torch.tensor([[*ids, *[STUDENT_PAD] * (width - len(ids))] for ids in sequences]),
        "input_lengths": torch.tensor([len(ids) for ids in sequences], dtype=torch.int32),
        "token_mask": torch.tensor(
            [
                [0] * len(q) + [1] * len(a) + [0] * (width - len(q) - len(a))
                for q, a in zip(questions, answers, strict=True)
            ]
        ),
        "sample_mask": torch.ones(3),
    }
    wrapped = PrivilegedTeacher(teacher, prompts, STUDENT_PAD, MULTIPLE)
    assert wrapped.offload_after_refit() == "passed on"
    found = wrapped.get_topk_logits(data, k=2, timer=SimpleNamespace())
    (shown,) = teacher.batches
    assert shown["input_ids"].shape[1] % MULTIPLE == 0
    assert found["topk_logits"].shape == found["topk_indices"].shape == (3, width, 2)
    for number, (question, answer, hint) in enumerate(zip(questions, answers, hints, strict=True)):
        read = [*hint, *answer]
        assert shown["input_ids"][number, : len(read)].tolist() == read
        assert int(shown["input_lengths"][number]) == len(read)
        for place, position in enumerate(range(len(question) - 1, len(question) + len(answer))):
            # At the student's token before answer[place] stands what the teacher says having read hint and answer[:place].
            seen = [*hint, *answer[:place]]
            assert found["topk_indices"][number, position].tolist() == [len(seen), len(seen) + 1000]
            assert found["topk_logits"][number, position].tolist() == [sum(seen), sum(seen) + 1]
        assert not found["topk_logits"][number, : len(question) - 1].any()
        assert not found["topk_logits"][number, len(question) + len(answer) :].any()


check_maxrl()
check_opsd()
print("checked")
