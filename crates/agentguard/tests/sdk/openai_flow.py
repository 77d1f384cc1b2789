"""Lists models, chats, streams, and then runs into a rate limit, with OpenAI's own client."""
import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="sk-of-the-agent", max_retries=0)
said = {"models": len(list(client.models.list()))}
answer = client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": "hello"}])
said["text"] = answer.choices[0].message.content
stream = client.chat.completions.create(
    model="gpt-4o-mini", messages=[{"role": "user", "content": "hello"}], stream=True
)
said["chunks"] = sum(1 for _ in stream)
try:
    client.models.list()
except openai.RateLimitError as error:
    said["limited"] = error.code
print(json.dumps(said))
