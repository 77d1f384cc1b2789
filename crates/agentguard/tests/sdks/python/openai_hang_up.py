"""Hears two events of an endless stream and hangs up, sync and async. argv: base URL, key."""
import asyncio
import json
import sys

import openai

base_url, key = sys.argv[1:]
chat = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello"}]}
endless = {"stream": True, "extra_headers": {"x-test-events": "endless", "x-test-interval-ms": "20"}}
heard = 0

# The clients stay open to the end: it is the stream that is closed, not the program that ends.
client = openai.OpenAI(base_url=base_url, api_key=key)
stream = client.chat.completions.create(**chat, **endless)
for _ in range(2):
    next(stream)
    heard += 1
stream.close()
with client.responses.create(model="gpt-4o-mini", input="hello", **endless) as stream:
    for _ in range(2):
        next(stream)
        heard += 1


async def hang_up():
    global heard
    client = openai.AsyncOpenAI(base_url=base_url, api_key=key)
    stream = await client.chat.completions.create(**chat, **endless)
    for _ in range(2):
        await anext(stream)
        heard += 1
    await stream.close()
    await client.models.list()


asyncio.run(hang_up())
client.models.list()
print(json.dumps({"streams": 3, "heard": heard, "calls": 5}))
