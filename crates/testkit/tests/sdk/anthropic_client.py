"""The official anthropic package against the upstream at sys.argv[1]."""
import sys

import anthropic

client = anthropic.Anthropic(api_key="sk-ant-testkit", base_url=sys.argv[1], max_retries=0)
talk = [{"role": "user", "content": "12345678"}]

whole = client.messages.create(model="claude-sonnet-4-5", max_tokens=4, messages=talk)
assert whole.content[0].text == "w0 w1 w2 w3" and whole.stop_reason == "max_tokens", whole
assert (whole.usage.input_tokens, whole.usage.output_tokens) == (3, 4), whole

heads = {"x-test-input-tokens": "100", "x-test-cached-tokens": "60", "x-test-cache-write-tokens": "30"}
cached = client.messages.create(model="claude-sonnet-4-5", max_tokens=64, messages=talk, extra_headers=heads)
usage = cached.usage
assert (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (10, 60, 30), usage

with client.messages.stream(model="claude-sonnet-4-5", max_tokens=64, messages=talk) as stream:
    said = "".join(stream.text_stream)
    final = stream.get_final_message()
assert said == " ".join(f"w{n}" for n in range(8)), said
assert final.usage.output_tokens == 8 and final.stop_reason == "end_turn", final

try:
    client.messages.create(model="claude-sonnet-4-5", max_tokens=4, messages=talk, extra_headers={"x-test-status": "529"})
    raise SystemExit("an error went unseen")
except anthropic.APIStatusError as error:
    assert error.status_code == 529 and error.body["error"]["type"] == "overloaded_error", error
