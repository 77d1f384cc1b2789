"""Reads an endless stream until something ends it. argv: base URL, key."""
import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key=sys.argv[2])
raised = None
try:
    for _ in client.chat.completions.create(
        model="gpt-4o-mini",
        messages=[{"role": "user", "content": "hello"}],
        stream=True,
        extra_headers={"x-test-events": "endless", "x-test-interval-ms": "20"},
    ):
        pass
except Exception as error:
    raised = type(error).__name__
print(json.dumps({"raised": raised}))
