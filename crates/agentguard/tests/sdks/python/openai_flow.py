"""What OpenAI's own client does all day, one call after the other and eight at once."""
import asyncio
import json
import sys
import warnings

import openai

# pydantic warns of members that do not fit.
warnings.simplefilter("error", UserWarning)
base_url, key = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key=key)
chat = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello"}]}
old = {"model": "gpt-3.5-turbo-instruct", "prompt": "hello"}
text = " ".join(f"w{n}" for n in range(8))
said = {"calls": 0, "streams": 0}


def typed(answer, stream=False):
    """Every member that the client's own type asks for is there, and is of its type."""
    said["calls"] += 1
    said["streams"] += stream
    for part in answer if stream else [answer]:
        type(part).model_validate(part.model_dump(mode="json", by_alias=True))
    return answer


assert "gpt-4o-mini" in [model.id for model in typed(client.models.list())]

whole = typed(client.chat.completions.create(**chat))
assert whole.choices[0].message.content == text and whole.usage.completion_tokens == 8, whole
pair = typed(client.chat.completions.create(**chat, n=2, max_completion_tokens=3))
assert [c.message.content for c in pair.choices] == ["w0 w1 w2"] * 2, pair

chunks = typed(list(client.chat.completions.create(**chat, stream=True)), stream=True)
assert "".join(c.choices[0].delta.content or "" for c in chunks) == text, chunks
assert all(c.usage is None for c in chunks), "usage came that was not asked for"
counted = {"include_usage": True}
chunks = typed(list(client.chat.completions.create(**chat, stream=True, stream_options=counted)), stream=True)
assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text, chunks
assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 8, chunks[-1]

answer = typed(client.responses.create(model="gpt-4o-mini", input="hello"))
assert answer.status == "completed" and answer.output_text == text, answer
events = typed(list(client.responses.create(model="gpt-4o-mini", input="hello", stream=True)), stream=True)
assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == text, events
assert events[-1].type == "response.completed" and events[-1].response.usage.output_tokens == 8, events[-1]

assert typed(client.completions.create(**old)).choices[0].text == text
pieces = list(client.completions.create(**old, stream=True))
typed(pieces[-1:], stream=True)  # the type knows no piece without an end, though all but the last are
assert "".join(piece.choices[0].text for piece in pieces) == text, pieces

for what, count in [("hello", 1), (["hello", "again"], 2), ([1, 2, 3], 1), ([[1, 2], [3]], 2)]:
    vectors = typed(client.embeddings.create(model="text-embedding-3-small", input=what))
    assert [len(v.embedding) for v in vectors.data] == [8] * count, vectors


async def at_once():
    async with openai.AsyncOpenAI(base_url=base_url, api_key=key) as client:

        async def streamed():
            return [chunk async for chunk in await client.chat.completions.create(**chat, stream=True)]

        plain = [client.chat.completions.create(**chat) for _ in range(4)]
        return await asyncio.gather(*plain, *(streamed() for _ in range(4)))


answers = asyncio.run(at_once())
assert [typed(a).choices[0].message.content for a in answers[:4]] == [text] * 4, answers
for chunks in answers[4:]:
    assert "".join(c.choices[0].delta.content or "" for c in typed(chunks, stream=True)) == text, chunks
print(json.dumps(said))
