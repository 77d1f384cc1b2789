"""The official openai package against the upstream at sys.argv[1]."""
import sys

import openai

client = openai.OpenAI(api_key="sk-testkit", base_url=sys.argv[1] + "/v1", max_retries=0)
talk = [{"role": "user", "content": "12345678"}]

whole = client.chat.completions.create(model="gpt-4o", messages=talk, n=2, max_completion_tokens=3)
assert [c.message.content for c in whole.choices] == ["w0 w1 w2"] * 2, whole
assert whole.choices[0].finish_reason == "length", whole
assert (whole.usage.prompt_tokens, whole.usage.completion_tokens, whole.usage.total_tokens) == (3, 6, 9), whole

chunks = list(client.chat.completions.create(model="gpt-4o", messages=talk, stream=True, stream_options={"include_usage": True}))
said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
assert said == " ".join(f"w{n}" for n in range(8)), said
assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 8, chunks[-1]
assert all(c.usage is None for c in chunks[:-1])

heads = {"x-test-cached-tokens": "2", "x-test-reasoning-tokens": "5"}
deep = client.chat.completions.create(model="gpt-4o", messages=talk, extra_headers=heads)
assert deep.usage.prompt_tokens_details.cached_tokens == 2, deep
assert deep.usage.completion_tokens_details.reasoning_tokens == 5, deep
assert deep.usage.completion_tokens == 13, deep

answer = client.responses.create(model="gpt-4o", input="12345678")
assert answer.status == "completed" and answer.output_text.startswith("w0 w1"), answer
assert (answer.usage.input_tokens, answer.usage.output_tokens) == (2, 8), answer
short = client.responses.create(model="gpt-4o", input="12345678", max_output_tokens=2)
assert short.status == "incomplete" and short.incomplete_details.reason == "max_output_tokens", short
with client.responses.stream(model="gpt-4o", input="12345678") as events:
    kinds = [event.type for event in events]
    final = events.get_final_response()
assert kinds.count("response.output_text.delta") == 8 and kinds[-1] == "response.completed", kinds
assert final.usage.output_tokens == 8 and final.output_text == said, final

old = client.completions.create(model="gpt-3.5-turbo-instruct", prompt="1234", max_tokens=2)
assert old.choices[0].text == "w0 w1" and old.usage.completion_tokens == 2, old
pieces = list(client.completions.create(model="gpt-3.5-turbo-instruct", prompt="1234", stream=True))
assert "".join(p.choices[0].text for p in pieces) == said, pieces

vectors = client.embeddings.create(model="text-embedding-3-small", input=["1234", "12345"], dimensions=4)
assert [v.embedding for v in vectors.data] == [[0.25] * 4] * 2, vectors
assert vectors.usage.prompt_tokens == 3, vectors
floats = client.embeddings.create(model="text-embedding-3-small", input=[1, 2, 3], encoding_format="float")
assert len(floats.data) == 1 and floats.usage.prompt_tokens == 3, floats
assert "gpt-4o" in [m.id for m in client.models.list()]

try:
    client.chat.completions.create(model="gpt-4o", messages=talk, extra_headers={"x-test-status": "429"})
    raise SystemExit("an error went unseen")
except openai.RateLimitError as error:
    assert error.status_code == 429, error

endless = client.chat.completions.create(model="gpt-4o", messages=talk, stream=True, extra_headers={"x-test-events": "endless"})
for _ in zip(range(20), endless):
    pass
