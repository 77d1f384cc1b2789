"""Hears two events of an endless stream and hangs up, sync and async. argv: base URL, key."""
import asyncio
import json
import sys

import anthropic

base_url, key = sys.argv[1:]
talk = [{"role": "user", "content": "hello"}]
ask = {"model": "claude-haiku-4-5", "max_tokens": 64, "messages": talk}
endless = {"extra_headers": {"x-test-events": "endless", "x-test-interval-ms": "20"}}
heard = 0

# The clients stay open to the end: it is the stream that is closed, not the program that ends.
client = anthropic.Anthropic(base_url=base_url, api_key=key)
with client.messages.stream(**ask, **endless) as stream:
    for _ in range(2):
        next(stream)
        heard += 1


async def hang_up():
    global heard
    client = anthropic.AsyncAnthropic(base_url=base_url, api_key=key)
    stream = await client.messages.create(**ask, **endless, stream=True)
    for _ in range(2):
        await anext(stream)
        heard += 1
    await stream.close()
    await client.messages.count_tokens(model=ask["model"], messages=talk)


asyncio.run(hang_up())
client.messages.count_tokens(model=ask["model"], messages=talk)
print(json.dumps({"streams": 2, "heard": heard, "calls": 4}))
