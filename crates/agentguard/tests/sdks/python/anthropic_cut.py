"""Reads an endless stream until something ends it. argv: base URL, key."""
import json
import sys

import anthropic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key=sys.argv[2])
raised = None
try:
    with client.messages.stream(
        model="claude-haiku-4-5",
        max_tokens=64,
        messages=[{"role": "user", "content": "hello"}],
        extra_headers={"x-test-events": "endless", "x-test-interval-ms": "20"},
    ) as stream:
        stream.get_final_message()
except Exception as error:
    raised = type(error).__name__
print(json.dumps({"raised": raised}))
